import { describe, expect, it } from 'vitest';
import {
  type LogSink,
  type Plan,
  readLog,
  replayCommands,
  replayInputs,
  type Scheduler,
} from '../../src/index.js';
import { describePlan } from '../scheduler/support.js';
import { ConnectedLife } from './connected-life.js';

class MemorySink implements LogSink {
  readonly #parts: Buffer[] = [];

  write(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
  }

  get bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#parts));
  }
}

function recorded(seed: number): { life: ConnectedLife; bytes: Uint8Array; plans: string[] } {
  const log = new MemorySink();
  const plans: string[] = [];
  const life = new ConnectedLife(seed, log, (plan: Plan, scheduler: Scheduler) =>
    plans.push(describePlan(plan, scheduler)),
  );
  life.run(250);
  return { life, bytes: log.bytes, plans };
}

describe('a log with a connector', () => {
  const happened: Record<string, number> = {};

  for (let seed = 0; seed < 18; seed++) {
    it(`seed ${seed}: is run again with the same plans, the same state and the same records`, () => {
      const { life, bytes, plans } = recorded(seed);
      for (const [what, count] of Object.entries(life.happened))
        happened[what] = (happened[what] ?? 0) + count;
      const { scheduler } = life;
      expect(replayCommands(bytes).digest).toBe(scheduler.digest());
      const log = new MemorySink();
      const again: string[] = [];
      const replayed: { scheduler?: Scheduler } = {};
      replayed.scheduler = replayInputs(bytes, (plan) => again.push(describePlan(plan)), log);
      expect(again.length).toBe(plans.length);
      expect(replayed.scheduler.digest()).toBe(scheduler.digest());
      expect([...readLog(log.bytes)].slice(1)).toEqual([...readLog(bytes)].slice(1));
      replayed.scheduler.verify();
      replayed.scheduler.dispose();
    });
  }

  it('saw all that a connector can do', () => {
    console.log(happened);
  });
});
