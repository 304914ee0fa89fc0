// Random lives have the same plans and blocks as on the host, with a hostile connector too.
import { describe, expect, it } from 'vitest';
import '../support/gpu.js';
import type { SchedulerOptions } from '../../src/index.js';
import { readLog, replayCommands, replayInputs } from '../../src/replay.js';
import type { WithRules } from '../../src/scheduler/options/single-rules.js';
import type { Scheduler } from '../../src/scheduler/scheduler.js';
import { Life } from '../scheduler/random-life.js';
import { ConnectedLife } from '../support/connector/connected-life.js';
import { describePlan, leftovers } from '../support/driver.js';
import { MemorySink } from '../support/recorded-log.js';

// More of them: BLOCKSTEP_SEEDS=60 npx vitest run --config test/vitest.config.ts test/cuda/decided-lives.test.ts
const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 3);

/** Rules of admissions, by seed: the defaults, those of August, and more blocks that stay free. */
const RULES: readonly Partial<WithRules<SchedulerOptions>>[] = [
  {},
  { like: '017e9f444', draftSlots: 1 },
  { watermark: 0.15, padDecode: true },
];

/** Every plan that a scheduler makes from now on, with the blocks of its entries. */
function watchPlans(scheduler: Scheduler): string[] {
  const plans: string[] = [];
  const { schedule } = scheduler;
  scheduler.schedule = () => {
    const plan = schedule.call(scheduler);
    plans.push(describePlan(plan, scheduler));
    return plan;
  };
  return plans;
}

/** Runs a log again on the host alone: it decides the same and ends in the same state. */
function expectSameOnHost(bytes: Uint8Array, plans: readonly string[], scheduler: Scheduler): void {
  const again: string[] = [];
  const log = new MemorySink();
  const replayed = replayInputs(bytes, (plan) => again.push(describePlan(plan)), log);
  expect(replayed.core.backend.authority).toBe('host');
  expect(again).toEqual(plans.map(withoutBlocks));
  expect(replayed.digest()).toBe(scheduler.digest());
  expect(replayed.core.native.rollingDigest()).toBe(scheduler.core.native.rollingDigest());
  expect(replayCommands(bytes).digest).toBe(scheduler.digest());
  // All that was asked and answered, in its order; commands are cut otherwise.
  const said = (of: Uint8Array) => [...readLog(of)].slice(1).filter(({ kind }) => kind !== 'commands');
  expect(said(log.bytes)).toEqual(said(bytes));
  replayed.dispose();
}

function withoutBlocks(plan: string): string {
  const fields = JSON.parse(plan) as [...unknown[], string[]];
  const entries = (fields.pop() as string[]).map((entry) => entry.replace(/[^ ]*$/, ''));
  return JSON.stringify([...fields, entries]);
}

describe('a random life that a GPU decides', () => {
  for (const converses of [false, true]) {
    const what = converses ? 'with sessions, grammars and adapters' : 'under pressure';
    for (let seed = 0; seed < SEEDS; seed++) {
      it(`seed ${seed}, ${what}: has the plans and the blocks that it has on the host`, () => {
        const log = new MemorySink();
        const rules = RULES[seed % RULES.length];
        const onDevice = new Life(seed, { authority: 'device', ...rules, log }, converses);
        const onHost = new Life(seed, rules, converses);
        const { scheduler } = onDevice.driver;
        const plans = watchPlans(scheduler);
        const expected = watchPlans(onHost.driver.scheduler);
        onDevice.run(150);
        onHost.run(150);
        expect(scheduler.core.backend).toMatchObject({ name: 'cuda', authority: 'device' });
        expect(plans).toEqual(expected);
        expect(leftovers(scheduler)).toEqual([]);
        expect(scheduler.stats()).toEqual(onHost.driver.scheduler.stats());
        expectSameOnHost(log.bytes, plans, scheduler);
        scheduler.dispose();
      });
    }
  }
});

describe('a random life with a connector that throws, lies and is late', () => {
  for (let seed = 0; seed < 2 * SEEDS; seed++) {
    it(`seed ${seed}: has the plans and the blocks that it has on the host`, () => {
      const lives = (['device', 'host'] as const).map((authority) => {
        const log = new MemorySink();
        const plans: string[] = [];
        const life = new ConnectedLife(
          seed,
          log,
          (plan, scheduler) => plans.push(describePlan(plan, scheduler)),
          { authority, ...RULES[seed % RULES.length] },
        );
        life.run(150);
        return { life, log, plans };
      });
      const [{ life, log, plans }, host] = lives;
      expect(plans).toEqual(host.plans);
      expect(life.happened).toEqual(host.life.happened);
      expect(life.scheduler.stats()).toEqual(host.life.scheduler.stats());
      expectSameOnHost(log.bytes, plans, life.scheduler);
      life.scheduler.dispose();
    });
  }
});
