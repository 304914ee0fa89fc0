// `finishReasonOf`, `purgeUntracked` and `CostModelExecutor`.
import { describe, expect, it } from 'vitest';
import { purgeUntracked } from '../../src/borrow.js';
import { CostModelExecutor } from '../../src/executors/cost-model/cost-model-executor.js';
import { type ExecutorPlan, FinishCode, finishReasonOf, type Plan, type Request } from '../../src/index.js';
import { hostile, MINE, NO_COUNTS, NO_FINITE_NUMBERS, NO_NUMBERS } from './bad-values.js';
import { benchIn, codeOf, errorOf, resultOf, snapshot } from './bench.js';
import { describeValue } from './misuse.js';

describe('finishReasonOf', () => {
  it('names every reason and refuses all else', () => {
    const names = Object.values(FinishCode).map((reason) => finishReasonOf(reason));
    expect(names).toEqual([null, 'stop', 'length', 'abort', 'error']);
    for (const value of [...NO_COUNTS, undefined, 5, 'length', 'map', '__proto__']) {
      expect(
        codeOf(() => finishReasonOf(value as number)),
        describeValue(value),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });
});

describe('why a request ended', () => {
  it('is one of four words, or null while it goes on, wherever one request is spoken of', () => {
    const bench = benchIn('fresh');
    const [length, stop, abort] = ['length', 'stop', 'abort'].map((id) => {
      const handle = bench.add(id, 3, {
        maxTokens: 1,
        ...(id === 'stop' ? { maxTokens: 9, eosTokenId: 7 } : {}),
      });
      return bench.scheduler.getByHandle(handle) as Request;
    });
    expect([length, stop, abort].map(({ finishReason }) => finishReason)).toEqual([null, null, null]);
    bench.scheduler.abort('abort');
    const plan = bench.schedule();
    const { counts } = resultOf(plan);
    const outputs = bench.scheduler.update(plan, { counts, tokens: Int32Array.of(1, 7) });
    expect([length, stop, abort].map(({ finishReason }) => finishReason)).toEqual([
      'length',
      'stop',
      'abort',
    ]);
    expect([length, stop, abort].map(({ status }) => status)).toEqual(Array(3).fill('FINISHED'));
    expect([0, 1].map((row) => outputs.finishReason(row))).toEqual(['length', 'stop']);
    expect([0, 1].map((row) => finishReasonOf(outputs.finishReasons[row]))).toEqual(['length', 'stop']);
    for (const row of [...NO_COUNTS, undefined, outputs.length]) {
      expect(
        codeOf(() => outputs.finishReason(row as number)),
        describeValue(row),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('of a session is null while only its answers end', () => {
    const bench = benchIn('fresh');
    bench.add('s', 3, { maxTokens: 1, resumable: true });
    const plan = bench.schedule();
    const outputs = bench.scheduler.update(plan, resultOf(plan));
    expect([outputs.finishReason(0), outputs.continues[0]]).toEqual(['length', 1]);
    expect(bench.scheduler.get('s')?.finishReason).toBe(null);
  });
});

describe('purgeUntracked', () => {
  /** Two live requests among three that nobody tracks any more. */
  function parked(): { requests: Request[]; live: Map<string, Request> } {
    const { scheduler } = benchIn('running');
    const all = ['a', 'b', 'c'].map((id) => scheduler.get(id)!);
    const gone = ['d', 'e', 'f'].map((id) => ({ ...all[0], id, isFinished: true }) as Request);
    const live = new Map(all.slice(0, 2).map((request) => [request.id, request]));
    return { requests: [gone[0], all[0], gone[1], all[1], all[2]], live };
  }

  it('refuses what is no list, no map and no function, and changes nothing', () => {
    const { requests, live } = parked();
    const before = [...requests];
    for (const value of [undefined, null, 1, 'x', {}, Symbol('s'), new Set()]) {
      expect(codeOf(() => purgeUntracked(value as Request[], live, () => {}))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect(codeOf(() => purgeUntracked(requests, value as typeof live, () => {}))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
      expect(codeOf(() => purgeUntracked(requests, live, value as () => void))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(requests).toEqual(before);
  });

  it('loses and doubles nothing when the callback throws', () => {
    for (let n = 1; n <= 3; n++) {
      const { requests, live } = parked();
      const before = [...requests];
      let calls = 0;
      const error = errorOf(() =>
        purgeUntracked(requests, live, () => (++calls === n ? hostile() : undefined)),
      );
      expect(error).toBe(MINE);
      expect(new Set(requests).size).toBe(requests.length);
      for (const request of live.values()) expect(requests).toContain(request);
      expect(before).toEqual(expect.arrayContaining(requests));
    }
  });

  it('keeps what the callback parks', () => {
    const { requests, live } = parked();
    const late = live.get('a') as Request;
    const other = { ...late, id: 'late', isFinished: false } as Request;
    live.set('late', other);
    let parkedLate = false;
    purgeUntracked(requests, live, () => {
      if (!parkedLate) requests.push(other);
      parkedLate = true;
    });
    expect(requests.map((request) => request.id)).toEqual(['a', 'b', 'late']);
  });
});

describe('CostModelExecutor', () => {
  const model = {
    stepOverheadMs: 1,
    prefillTokensPerSecond: 1e4,
    weightBytes: 1e9,
    kvBytesPerToken: 1e5,
    memoryBytesPerSecond: 1e12,
  };
  const good = {
    model,
    now: () => 0,
    seed: 1,
    acceptanceRate: 0.5,
    maxEntries: 4,
    maxDrafts: 2,
    stepsInFlight: 1,
  };
  const BAD: Record<string, unknown[]> = {
    model: [undefined, null, 1, 'x', {}, [], () => model],
    now: [undefined, null, 1, {}, 'x'],
    seed: [...NO_FINITE_NUMBERS, undefined],
    acceptanceRate: [...NO_FINITE_NUMBERS, undefined, -0.1, 1.1],
    maxEntries: [...NO_COUNTS, undefined, 0],
    maxDrafts: [...NO_COUNTS, undefined],
    stepsInFlight: [...NO_COUNTS, undefined, 0],
  };

  it.each(Object.keys(BAD))('refuses every bad %s', (name) => {
    for (const value of BAD[name]) {
      const make = () => new CostModelExecutor({ ...good, [name]: value } as typeof good);
      expect(codeOf(make), describeValue(value)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('refuses a model whose figures make no sense, and what is no options object', () => {
    for (const name of Object.keys(model)) {
      for (const value of [...NO_NUMBERS, undefined, Number.NaN, -1, Infinity]) {
        const make = () =>
          new CostModelExecutor({ ...good, model: { ...model, [name]: value } } as typeof good);
        expect(codeOf(make), `${name} ${describeValue(value)}`).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    for (const value of [undefined, null, 1, 'x', []]) {
      expect(codeOf(() => new CostModelExecutor(value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('refuses a plan that is larger than it was made for, and touches no plan', () => {
    const bench = benchIn('in flight');
    const before = snapshot(bench.scheduler);
    const small = new CostModelExecutor({ ...good, maxEntries: 1 });
    expect(codeOf(() => small.execute(bench.plan))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => small.draft(bench.plan))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    for (const plan of [undefined, null, 1, 'x', {}, { numRequests: 0 }, { numRequests: 1, maxDrafts: 0 }]) {
      expect(codeOf(() => small.execute(plan as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect(codeOf(() => small.draft(plan as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(snapshot(bench.scheduler)).toEqual(before);
  });

  it('refuses a plan with more drafts than it was made for, or with columns that are too short', () => {
    const { plan } = benchIn('in flight');
    const few = new CostModelExecutor({ ...good, maxDrafts: 1 });
    expect(codeOf(() => few.execute(plan))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const whole = new CostModelExecutor(good);
    const columns = ['slots', 'numScheduledTokens', 'numComputedTokens', 'numDraftTokens', 'draftTokens'];
    for (const column of ['requests', ...columns]) {
      for (const value of [undefined, null, 5, [], new Int32Array(plan.numRequests - 1)]) {
        const call = () => whole.execute({ ...copyOf(plan), [column]: value });
        expect(codeOf(call), `${column} ${describeValue(value)}`).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    const result = whole.execute(copyOf(plan));
    expect(result).toEqual(new CostModelExecutor(good).execute(plan));
  });

  it('does not keep the options of the caller', () => {
    const { plan } = benchIn('in flight');
    const options = { ...good, model: { ...model } };
    const executor = new CostModelExecutor(options);
    Object.assign(options, { now: hostile, maxEntries: 0, acceptanceRate: 'x' });
    Object.assign(options.model, { stepOverheadMs: Number.NaN, memoryBytesPerSecond: 0 });
    expect(executor.execute(plan)).toEqual(new CostModelExecutor(good).execute(plan));
  });

  function copyOf(plan: Plan): ExecutorPlan {
    const { numRequests, totalTokens, requests, maxDrafts, slots } = plan;
    const { numScheduledTokens, numComputedTokens, numDraftTokens, draftTokens } = plan;
    const columns = { slots, numScheduledTokens, numComputedTokens, numDraftTokens, draftTokens };
    return {
      numRequests,
      totalTokens,
      requests,
      maxDrafts,
      ...columns,
    } as Partial<ExecutorPlan> as ExecutorPlan;
  }
});
