import type { Scheduler } from '../../src/scheduler/scheduler.js';

/** Keeps back what the GPU decides, so that a suite knows what happens before it comes; and counts the round trips. */
export interface Gate {
  isOpen: boolean;
  /** Decisions that were asked for. */
  asked: number;
  /** Thrown in place of its decision. */
  error: Error | null;
}

export function gateOf({ core: { native } }: Scheduler): Gate {
  const gate: Gate = { isOpen: true, asked: 0, error: null };
  const { submitDecision, pollDecision } = native;
  Object.defineProperties(native, {
    submitDecision: {
      value: (...args: Parameters<typeof submitDecision>) => {
        submitDecision.apply(native, args);
        gate.asked++;
      },
    },
    pollDecision: {
      value: (answer: Int32Array) => {
        if (gate.error !== null) throw gate.error;
        return gate.isOpen && pollDecision.call(native, answer);
      },
    },
  });
  return gate;
}
