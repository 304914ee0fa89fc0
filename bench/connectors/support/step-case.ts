import { measure } from '../../rows/measure.js';
import type { Latency } from '../../rows/row.js';
import { Decodes, type MakeSides, sleep, type Texts } from './decodes.js';
import { Stopwatch } from './processor-time.js';

/** One case of the table of steps. */
export interface StepCase {
  /** The engine's connectors and their work, in words. */
  readonly name: string;
  readonly texts: Texts;
  /** The connector has a thread or a lane at work, which would not keep up with steps that take no time. */
  readonly needsPause?: boolean;
  /** Makes the workload. `numSteps` is how long it must go on at least. */
  make(numSteps: number): Measured | Promise<Measured>;
}

/** A workload that is ready to be measured. */
export interface Measured {
  readonly decodes: Decodes;
  /** Further work of a step, beside `Engine.step`. */
  readonly also?: () => void;
  /** Work before each step, which is not timed. */
  readonly before?: () => void;
  /** Throws if the workload was not what it says. */
  readonly check?: () => void;
}

/** The cost of a step of a case, in microseconds. */
export interface StepCost extends Latency {
  readonly mean: number;
  /** Processor time of the main thread for one step; null where the system does not say. */
  readonly processor: number | null;
}

/** Steps that are measured in one go. */
const SHARE = 50;

/** How often each case is called. */
export interface StepEffort {
  /** Steps whose durations are taken one by one. */
  readonly samples: number;
  readonly warmup: number;
  /** Steps that are taken as a whole, for the mean and the processor time. */
  readonly whole: number;
  /** Milliseconds before each step in which the engine's thread does nothing, as if a device computed. */
  readonly pauseMs: number;
}

/** A case whose requests come as soon as the engine is there. */
export function plainCase(name: string, texts: Texts, makeSides: MakeSides, needsPause = false): StepCase {
  const make = (numSteps: number): Measured => {
    const decodes = new Decodes(numSteps, makeSides);
    decodes.start(texts);
    return { decodes };
  };
  return { name, texts, needsPause, make };
}

/** Measures a case, in a process that has measured nothing else: V8 compiles a step for the engines that it has met. */
export async function measureCase(
  { make }: StepCase,
  { pauseMs, whole, ...effort }: StepEffort,
): Promise<StepCost> {
  const numSteps = effort.samples + effort.warmup + whole;
  // Threads beside the engine continue while the pauses are measured alone.
  const { decodes, also, before, check } = await make(numSteps + whole);
  const { engine } = decodes;
  const step = (): void => {
    engine.step();
    also?.();
  };
  const pause = (): void => {
    before?.();
    sleep(pauseMs);
  };
  const latency = measure({ run: step as () => undefined, before: pause }, effort);
  let sum = 0;
  const alone = new Stopwatch();
  const together = new Stopwatch();
  // The cost of the pauses alone is subtracted. Pauses are measured in small shares, because the
  // engine must not be idle for long.
  for (let left = whole; left > 0; left -= SHARE) {
    const count = Math.min(left, SHARE);
    alone.run(() => {
      for (let i = 0; i < count; i++) pause();
    });
    together.run(() => {
      for (let i = 0; i < count; i++) {
        pause();
        const from = performance.now();
        step();
        sum += performance.now() - from;
      }
    });
  }
  decodes.check(numSteps);
  check?.();
  engine.dispose();
  const processor = together.isKnown ? (together.spent - alone.spent) / whole : null;
  return { ...latency, mean: (1000 * sum) / whole, processor };
}
