// Foreign, stale and copied plans; results and drafts that do not fit their plan.
import { describe, expect, it } from 'vitest';
import type { Drafts, Plan, StepResult } from '../../src/index.js';
import {
  booby,
  detach,
  foreignRealm,
  hostile,
  lying,
  MINE,
  NO_INT32_ARRAYS,
  raise,
  throwingProxy,
  transparentProxy,
} from './bad-values.js';
import { type Bench, benchIn, codeOf, draftsOf, LIVE_STATES, resultOf, snapshot } from './bench.js';
import { checkRefused, each, eachMade, type Misuse } from './misuse.js';

const NO_OBJECTS = [undefined, null, 1, 'x', true, 1n, Symbol('s'), () => ({})];

/** A plan in flight, of a scheduler in exactly the same state. */
const foreignPlan = benchIn('in flight').plan;

/** Values that are not, and never were, a plan of the scheduler; also copies of the right one. */
function forgedPlans(bench: Bench): unknown[] {
  const { plan } = bench;
  const copies = plan === undefined ? [] : [{ ...plan }, Object.create(plan), new Proxy(plan, {})];
  return [...NO_OBJECTS, {}, [], foreignPlan, throwingProxy({}), ...copies];
}

function refusedPlans(name: string, call: (bench: Bench, plan: Plan) => unknown): Misuse[] {
  const number = forgedPlans(benchIn('in flight')).length;
  return Array.from({ length: number }, (_, i) => ({
    name: `${name} with forged plan ${i}`,
    call: (bench: Bench) => call(bench, forgedPlans(bench)[i] as Plan),
    refusal: 'ERR_BLOCKSTEP_PLAN_ORDER' as const,
  }));
}

function update(bench: Bench, result: unknown): unknown {
  return bench.scheduler.update(bench.plan, result as StepResult);
}

/** Updates with a result that is good except in one field. */
function resultWith(field: keyof StepResult): (bench: Bench, value: unknown) => unknown {
  return (bench, value) => update(bench, { ...resultOf(bench.plan), [field]: value });
}

function giveDrafts(bench: Bench, drafts: unknown): void {
  bench.scheduler.updateDraftTokens(bench.plan, drafts as Drafts);
}

function draftsWith(field: keyof Drafts): (bench: Bench, value: unknown) => unknown {
  return (bench, value) => giveDrafts(bench, { ...draftsOf(bench.plan), [field]: value });
}

const getter = (name: string) =>
  Object.defineProperty({ tokens: new Int32Array(8), counts: new Int32Array(8) }, name, { get: hostile });

/** Bad for both arrays: three entries are planned, of which two sample a token. */
const BAD_ARRAYS: (() => unknown)[] = [
  ...NO_INT32_ARRAYS,
  () => undefined,
  () => detach(new Int32Array(8)),
  () => new Int32Array(0),
  () => Int32Array.of(-1, 1, 1, 1),
  () => Int32Array.of(1, -(2 ** 31), 1, 1),
  () => Int32Array.of(2 ** 31 - 1, 1, 1, 1),
  () => lying(new Int32Array(0), 8),
];

const BAD_ERRORS: (() => unknown)[] = [
  ...[null, 1, true, 'x', {}, [], [0, 0, 0]].map((value) => () => value),
  () => new Int8Array(8),
  () => new Uint8ClampedArray(8),
  () => new Int32Array(8),
  () => new DataView(new ArrayBuffer(8)),
  () => new ArrayBuffer(8),
  () => new Uint8Array(0),
  () => detach(new Uint8Array(8)),
  () => new Uint8Array(new SharedArrayBuffer(8)),
  () => Object.create(Uint8Array.prototype),
  () => new Proxy(new Uint8Array(8), {}),
];

const RESULTS: Misuse[] = [
  ...each('result', [...NO_OBJECTS, {}, [], new Int32Array(8)], update),
  ...each('result', [throwingProxy({}), getter('tokens'), getter('counts')], update, MINE),
  ...each('errors', [getter('errors')], update, MINE),
  ...eachMade('counts', BAD_ARRAYS, resultWith('counts')),
  ...eachMade('tokens', BAD_ARRAYS, resultWith('tokens')),
  ...eachMade('errors', BAD_ERRORS, resultWith('errors')),
  ...each(
    'counts',
    [Int32Array.of(4, 0, 0), Int32Array.of(1, 1, 3), Int32Array.of(1, 1)],
    resultWith('counts'),
  ),
];

const DRAFTS: Misuse[] = [
  ...each('drafts', [...NO_OBJECTS, {}, []], giveDrafts),
  ...each('drafts', [throwingProxy({}), getter('tokens'), getter('counts')], giveDrafts, MINE),
  ...eachMade('counts', BAD_ARRAYS, draftsWith('counts')),
  ...eachMade('tokens', BAD_ARRAYS, draftsWith('tokens')),
  ...each('counts', [Int32Array.of(3, 0), Int32Array.of(1)], draftsWith('counts')),
];

describe.each(LIVE_STATES)('a plan, when %s', (state) => {
  it('that is not this scheduler’s is refused', () => {
    checkRefused(state, [
      ...refusedPlans('update', (bench, plan) =>
        bench.scheduler.update(plan, { tokens: new Int32Array(8), counts: new Int32Array(8) }),
      ),
      ...refusedPlans('failStep', (bench, plan) => bench.scheduler.failStep(plan)),
      ...refusedPlans('updateDraftTokens', (bench, plan) =>
        bench.scheduler.updateDraftTokens(plan, { tokens: new Int32Array(8), counts: new Int32Array(8) }),
      ),
    ]);
  });
});

describe('update', () => {
  it('refuses every bad result', () => {
    checkRefused('in flight', RESULTS);
  });

  it('refuses every bad result while it writes a log', () => {
    checkRefused('in flight', RESULTS, { log: { write() {} } });
  });

  it('refuses a plan that was updated or failed already', () => {
    const stale = (call: (bench: Bench) => unknown): Misuse[] => [
      { name: 'stale plan', call, refusal: 'ERR_BLOCKSTEP_PLAN_ORDER' },
    ];
    checkRefused(
      'running',
      stale((bench) => update(bench, resultOf(bench.plan))),
    );
    checkRefused(
      'running',
      stale((bench) => bench.scheduler.failStep(bench.plan)),
    );
    checkRefused(
      'in flight',
      stale((bench) => giveDrafts(bench, draftsOf(bench.plan))),
    );
  });

  it('refuses all but the oldest plan in flight, and a plan too many', () => {
    const bench = benchIn('running', { pipelineDepth: 2, numSpeculativeTokens: 0 });
    const [oldest, newest] = [bench.schedule(), bench.schedule()];
    const before = snapshot(bench.scheduler);
    expect(codeOf(() => bench.schedule())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
    expect(codeOf(() => update(bench, resultOf(newest)))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expect(codeOf(() => bench.scheduler.failStep(newest))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expect(codeOf(() => giveDrafts(bench, draftsOf(newest)))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expect(snapshot(bench.scheduler)).toEqual(before);
    bench.scheduler.update(oldest, resultOf(oldest));
    bench.scheduler.update(newest, resultOf(newest));
    bench.scheduler.verify();
  });

  it('uses the arrays that it checked, whatever the getters of the result give the next time', () => {
    for (const name of ['counts', 'tokens', 'errors'] as const) {
      const bench = benchIn('in flight');
      const good: StepResult = { ...resultOf(bench.plan), errors: new Uint8Array(8) };
      const wrong = { counts: Int32Array.of(9, 9, 9), tokens: Int32Array.of(-5, -5, -5), errors: 'x' };
      let reads = 0;
      const twoFaced = Object.defineProperty({ ...good }, name, {
        get: () => (reads++ === 0 ? good : wrong)[name],
      });
      const twin = benchIn('in flight');
      update(bench, twoFaced);
      update(twin, good);
      expect(snapshot(bench.scheduler), name).toEqual(snapshot(twin.scheduler));
    }
  });

  it('takes arrays of another realm', () => {
    const [bench, twin] = [benchIn('in flight'), benchIn('in flight')];
    const { counts, tokens } = resultOf(bench.plan);
    const foreign = (name: string, array: Int32Array) => foreignRealm(`${name}.of(${array})`);
    update(bench, {
      counts: foreign('Int32Array', counts),
      tokens: foreign('Int32Array', tokens),
      errors: foreignRealm('new Uint8Array(8)'),
    });
    update(twin, resultOf(twin.plan));
    expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
    giveDrafts(bench, {
      counts: foreignRealm('Int32Array.of(1, 1, 1)'),
      tokens: foreignRealm('Int32Array.of(3, 3, 3)'),
    });
    giveDrafts(twin, draftsOf(twin.plan));
    expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
  });

  it('reads no property that the caller put on an array, with a log and without', () => {
    for (const options of [{}, { log: { write() {} } }]) {
      const bench = benchIn('in flight', options);
      const { counts, tokens } = resultOf(bench.plan);
      update(bench, {
        counts: booby(counts),
        tokens: booby(tokens),
        errors: booby(new Uint8Array(4)),
      });
      const drafts = draftsOf(bench.plan);
      giveDrafts(bench, { counts: booby(drafts.counts), tokens: booby(drafts.tokens) });
      bench.scheduler.verify();
    }
  });

  it('takes an array that lies about its length as what it is, or not at all', () => {
    for (const length of [0, 1, 2, 100, -1, Number.NaN]) {
      for (const name of ['counts', 'tokens'] as const) {
        const bench = benchIn('in flight');
        const result = resultOf(bench.plan);
        lying(result[name], length);
        const before = bench.scheduler.get('a')!.numTokens;
        try {
          update(bench, result);
          expect(bench.scheduler.get('a')!.numTokens).toBe(before + 1);
        } catch (error) {
          expect(codeOf(() => raise(error))).toBe('ERR_BLOCKSTEP_BAD_ARG');
          expect(bench.scheduler.get('a')!.numTokens).toBe(before);
        }
        bench.scheduler.verify();
      }
    }
  });

  it('an array whose entries change while they are read is refused', () => {
    const changing = Int32Array.of(1, 1, 1);
    const handler = {
      reads: 0,
      get(target: Int32Array, key: string | symbol): unknown {
        if (key === '0') return this.reads++ < 2 ? 1 : 50;
        return Reflect.get(target, key, target) as unknown;
      },
    };
    checkRefused('in flight', each('counts', [new Proxy(changing, handler)], resultWith('counts')));
    checkRefused('in flight', each('counts', [transparentProxy(changing)], resultWith('counts')));
  });

  it('an empty plan takes empty arrays and refuses detached ones, with a log and without', () => {
    for (const options of [{}, { log: { write() {} } }]) {
      const bench = benchIn('fresh', options);
      const plan = bench.schedule();
      expect(plan.totalTokens).toBe(0);
      const empty = new Int32Array(0);
      const before = snapshot(bench.scheduler);
      expect(codeOf(() => update(bench, { tokens: empty, counts: detach(new Int32Array(3)) }))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
      expect(snapshot(bench.scheduler)).toEqual(before);
      update(bench, { tokens: empty, counts: empty });
      bench.step();
      bench.scheduler.verify();
    }
  });
});

describe('updateDraftTokens', () => {
  it.each(['running', 'draining'] as const)('refuses all bad drafts, when %s', (state) => {
    checkRefused(state, DRAFTS);
    checkRefused(state, DRAFTS, { log: { write() {} } });
  });

  it.each([{ numSpeculativeTokens: 0 }, { pipelineDepth: 2 as const }])('is refused with %j', (options) => {
    checkRefused(
      'running',
      each('drafts', [{}], (bench) => giveDrafts(bench, draftsOf(bench.plan))),
      options,
    );
  });

  it('uses the arrays that it checked', () => {
    const [bench, twin] = [benchIn('running'), benchIn('running')];
    const good = draftsOf(bench.plan);
    let reads = 0;
    const counts = () => (reads++ === 0 ? good.counts : Int32Array.of(50, 50, 50));
    giveDrafts(bench, Object.defineProperty({ ...good }, 'counts', { get: counts }));
    giveDrafts(twin, good);
    expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
  });
});

describe('replaceDraftTokens', () => {
  const ASYNC = { pipelineDepth: 2 as const };
  const replace = (bench: Bench, drafts: unknown) =>
    bench.scheduler.replaceDraftTokens(bench.plan, drafts as Drafts);
  const replaceWith = (field: keyof Drafts) => (bench: Bench, value: unknown) =>
    replace(bench, { ...draftsOf(bench.plan), [field]: value });

  it('refuses all bad drafts', () => {
    const misuses = [
      ...each('drafts', [...NO_OBJECTS, {}, []], replace),
      ...each('drafts', [throwingProxy({}), getter('tokens'), getter('counts')], replace, MINE),
      ...eachMade('counts', BAD_ARRAYS, replaceWith('counts')),
      ...eachMade('tokens', BAD_ARRAYS, replaceWith('tokens')),
      ...each('counts', [Int32Array.of(3, 0), Int32Array.of(1)], replaceWith('counts')),
      ...refusedPlans('replaceDraftTokens', (bench, plan) =>
        bench.scheduler.replaceDraftTokens(plan, draftsOf(bench.plan)),
      ),
    ];
    checkRefused('in flight', misuses, ASYNC);
    checkRefused('in flight', misuses, { ...ASYNC, log: { write() {} } });
  });

  it.each([{}, { pipelineDepth: 2 as const, numSpeculativeTokens: 0 }])('is refused with %j', (options) => {
    checkRefused(
      'in flight',
      each('drafts', [{}], (bench) => replace(bench, draftsOf(bench.plan))),
      options,
    );
  });
});

describe('the lists of a plan', () => {
  it('stay as they were when they were handed out, until the plan is reused', () => {
    const bench = benchIn('in flight');
    const { plan } = bench;
    const finished = [...plan.finished];
    bench.scheduler.abort(['a', 'c']);
    expect(plan.finished).toEqual(finished);
    bench.scheduler.update(plan, resultOf(plan));
    expect(plan.finished).toEqual(finished);
    expect(bench.schedule().finished).toEqual(['a', 'c']);
  });

  it('are the caller’s: what he does to them does not come back with a later plan', () => {
    const bench = benchIn('in flight');
    bench.plan.finished.push('mine');
    bench.plan.preempted.push('mine');
    bench.scheduler.failStep(bench.plan);
    const { finished, preempted } = bench.schedule();
    expect([...finished, ...preempted]).not.toContain('mine');
  });
});
