// The executor of the cost model: sampling, draft tokens, virtual time.
import { describe, expect, it } from 'vitest';
import type { ExecutorPlan, FlatTokens } from '../../../src/engine/executor/executor.js';
import { DEFAULT_COST_MODEL, deviceMs } from '../../../src/executors/cost-model/cost-model.js';
import {
  CostModelExecutor,
  type CostModelExecutorOptions,
} from '../../../src/executors/cost-model/cost-model-executor.js';

const MODEL = { ...DEFAULT_COST_MODEL, stepOverheadMs: 1, prefillTokensPerSecond: 1000 };

/** One entry of a plan made by hand. */
interface Entry {
  slot: number;
  computed: number;
  scheduled: number;
  prompt: number;
  id?: string;
  handle?: number;
  drafts?: number[];
}

function plan(...entries: Entry[]): ExecutorPlan {
  const maxDrafts = 4;
  const draftTokens = new Int32Array(entries.length * maxDrafts);
  for (const [i, entry] of entries.entries()) draftTokens.set(entry.drafts ?? [], i * maxDrafts);
  return {
    numRequests: entries.length,
    totalTokens: entries.reduce((sum, entry) => sum + entry.scheduled, 0),
    requests: entries.map(({ id, slot, handle, prompt }) => ({
      id: id ?? `r${slot}`,
      handle: handle ?? slot + 2 ** 21,
      numPromptTokens: prompt,
    })),
    slots: Int32Array.from(entries, (entry) => entry.slot),
    numComputedTokens: Int32Array.from(entries, (entry) => entry.computed),
    numScheduledTokens: Int32Array.from(entries, (entry) => entry.scheduled),
    numDraftTokens: Int32Array.from(entries, (entry) => entry.drafts?.length ?? 0),
    draftTokens,
    maxDrafts,
  } as unknown as ExecutorPlan;
}

function executor(options: Partial<CostModelExecutorOptions> = {}): CostModelExecutor {
  const defaults = { model: MODEL, now: () => 0, seed: 1, acceptanceRate: 0.5, stepsInFlight: 1 };
  return new CostModelExecutor({ maxEntries: 8, maxDrafts: 4, ...defaults, ...options });
}

/** The tokens of each of the first entries. */
function rows({ tokens, counts }: FlatTokens, numEntries: number): number[][] {
  let at = 0;
  return Array.from({ length: numEntries }, (_, i) => {
    at += counts[i];
    return [...tokens.subarray(at - counts[i], at)];
  });
}

describe('sampling', () => {
  it('gives a token exactly when all known tokens are computed', () => {
    const exec = executor();
    const chunks = plan(
      { slot: 0, computed: 0, scheduled: 60, prompt: 100 },
      { slot: 1, computed: 0, scheduled: 9, prompt: 9 },
    );
    expect(rows(exec.execute(chunks), 2).map((tokens) => tokens.length)).toEqual([0, 1]);
    const next = plan(
      { slot: 0, computed: 60, scheduled: 40, prompt: 100 },
      { slot: 1, computed: 9, scheduled: 1, prompt: 9 },
    );
    expect(rows(exec.execute(next), 2).map((tokens) => tokens.length)).toEqual([1, 1]);
  });

  it('computes known outputs again after a preemption before it samples the next one', () => {
    const exec = executor();
    const [first] = rows(exec.execute(plan({ slot: 0, computed: 0, scheduled: 5, prompt: 5 })), 1);
    const [second] = rows(exec.execute(plan({ slot: 0, computed: 5, scheduled: 1, prompt: 5 })), 1);
    // Two outputs are known: 7 tokens, so 5 of them are only a part.
    expect(rows(exec.execute(plan({ slot: 0, computed: 0, scheduled: 5, prompt: 5 })), 1)).toEqual([[]]);
    const [third] = rows(exec.execute(plan({ slot: 0, computed: 5, scheduled: 2, prompt: 5 })), 1);
    expect(third).toHaveLength(1);
    expect(new Set([...first, ...second, ...third]).size).toBe(3);
  });

  it('depends on seed, id and output index, not on slot, batch or step', () => {
    const outputs = (exec: CostModelExecutor, slot: number, id: string): number[] => {
      const other = { slot: 7, computed: 0, scheduled: 3, prompt: 100 };
      const a = exec.execute(plan({ slot, id, computed: 0, scheduled: 4, prompt: 4 }, other));
      const first = a.tokens[0];
      const b = exec.execute(plan({ slot, id, computed: 4, scheduled: 1, prompt: 4 }));
      return [first, b.tokens[0]];
    };
    const a = outputs(executor(), 0, 'x');
    expect(outputs(executor(), 5, 'x')).toEqual(a);
    expect(outputs(executor(), 0, 'y')).not.toEqual(a);
    expect(outputs(executor({ seed: 2 }), 0, 'x')).not.toEqual(a);
  });

  it('starts anew when another request moves into a slot', () => {
    const exec = executor();
    const [first] = rows(
      exec.execute(plan({ slot: 3, id: 'a', handle: 11, computed: 0, scheduled: 4, prompt: 4 })),
      1,
    );
    exec.execute(plan({ slot: 3, id: 'a', handle: 11, computed: 4, scheduled: 1, prompt: 4 }));
    const [again] = rows(
      exec.execute(plan({ slot: 3, id: 'a', handle: 12, computed: 0, scheduled: 4, prompt: 4 })),
      1,
    );
    expect(again).toEqual(first);
  });
});

describe('draft tokens', () => {
  const prefill = plan({ slot: 0, computed: 0, scheduled: 4, prompt: 4 });

  /** The tokens of output index 1 on, sampled one by one. */
  function truth(count: number): number[] {
    const exec = executor();
    exec.execute(prefill);
    return Array.from({ length: count }, (_, k) => {
      const [token] = rows(exec.execute(plan({ slot: 0, computed: 4 + k, scheduled: 1, prompt: 4 })), 1)[0];
      return token;
    });
  }

  it('are accepted up to the first wrong one, and a token follows', () => {
    const right = truth(5);
    const sampled = (drafts: number[]): number[] => {
      const exec = executor();
      exec.execute(prefill);
      const step = plan({ slot: 0, computed: 4, scheduled: 1 + drafts.length, prompt: 4, drafts });
      return rows(exec.execute(step), 1)[0];
    };
    expect(sampled(right.slice(0, 4))).toEqual(right);
    expect(sampled([right[0], right[1] ^ 1, right[2]])).toEqual(right.slice(0, 2));
    expect(sampled([right[0] ^ 1, right[1]])).toEqual(right.slice(0, 1));
    expect(sampled([])).toEqual(right.slice(0, 1));
  });

  it.each([0, 0.5, 1])('are right at the acceptance rate %d, whoever knows them', (acceptanceRate) => {
    const known = executor({ acceptanceRate });
    const unknown = executor({ acceptanceRate });
    known.execute(prefill);
    unknown.execute(prefill);
    let computed = 4;
    let accepted = 0;
    let first = 0;
    for (let step = 0; step < 500; step++) {
      const drafts = [
        ...known.draft(plan({ slot: 0, computed, scheduled: 1, prompt: 4 })).tokens.subarray(0, 4),
      ];
      const entry = { slot: 0, computed, scheduled: 5, prompt: 4 };
      const [tokens] = rows(known.execute(plan({ ...entry, drafts })), 1);
      expect(rows(unknown.execute(plan({ ...entry, drafts: [-1, -1, -1, -1] })), 1)).toEqual([tokens]);
      computed += tokens.length;
      accepted += tokens.length - 1;
      if (tokens.length > 1) first++;
    }
    if (acceptanceRate === 0) expect(accepted).toBe(0);
    else if (acceptanceRate === 1) expect(accepted).toBe(4 * 500);
    else expect(Math.abs(first / 500 - 0.5)).toBeLessThan(0.07);
  });

  it('are not made for a request that is still prefilling', () => {
    const exec = executor();
    const step = plan(
      { slot: 0, computed: 0, scheduled: 4, prompt: 9 },
      { slot: 1, computed: 0, scheduled: 4, prompt: 4 },
    );
    exec.execute(step);
    expect([...exec.draft(step).counts.subarray(0, 2)]).toEqual([0, 4]);
  });
});

describe('virtual time', () => {
  it('weighs prefill and decode by what is really computed', () => {
    const exec = executor();
    const first = exec.execute(plan({ slot: 0, computed: 16, scheduled: 4, prompt: 20 }));
    expect(first).toMatchObject({ startMs: 1, finishMs: 5 });
    const mixed = exec.execute(
      plan(
        { slot: 0, computed: 20, scheduled: 1, prompt: 20 },
        { slot: 1, computed: 0, scheduled: 30, prompt: 50 },
      ),
    );
    const load = { prefillTokens: 30, decodes: 1, decodeContextTokens: 21 };
    expect(mixed.finishMs - mixed.startMs).toBeCloseTo(deviceMs(MODEL, load), 9);
  });

  it('counts tokens computed again after a preemption as prefill', () => {
    const exec = executor();
    exec.execute(plan({ slot: 0, computed: 0, scheduled: 5, prompt: 5 }));
    const again = exec.execute(plan({ slot: 0, computed: 0, scheduled: 6, prompt: 5 }));
    expect(again.finishMs - again.startMs).toBeCloseTo(6, 9);
  });

  it('hides the overhead of a step behind the device when steps are in flight', () => {
    let now = 0;
    const exec = executor({ now: () => now, stepsInFlight: 2 });
    const step = plan({ slot: 0, computed: 0, scheduled: 10, prompt: 100 });
    expect(exec.execute(step)).toMatchObject({ startMs: 1, finishMs: 11 });
    expect(exec.execute(step)).toMatchObject({ startMs: 11, finishMs: 21 });
    now = 11;
    expect(exec.execute(step)).toMatchObject({ startMs: 21, finishMs: 31 });
    now = 31;
    expect(exec.execute(step)).toMatchObject({ startMs: 32, finishMs: 42 });
  });

  it('takes no time for an empty plan', () => {
    expect(executor({ now: () => 7 }).execute(plan())).toMatchObject({ startMs: 7, finishMs: 7 });
  });

  it('keeps the results of the steps in flight apart', () => {
    const exec = executor({ stepsInFlight: 2 });
    const a = exec.execute(plan({ slot: 0, computed: 0, scheduled: 4, prompt: 4 }));
    const before = [a.counts[0], a.tokens[0]];
    exec.execute(plan({ slot: 1, computed: 0, scheduled: 4, prompt: 4 }));
    expect([a.counts[0], a.tokens[0]]).toEqual(before);
  });
});
