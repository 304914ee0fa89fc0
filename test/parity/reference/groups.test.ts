// The reference decides as vLLM did with KV cache groups; faults of vLLM, and the right behaviour.
import { describe, expect, it } from 'vitest';
import { replay } from '../driver.js';
import { faultFixtureNames, groupFixtureNames, readFixture } from '../fixtures.js';
import { report } from '../report.js';
import type { SubjectKvGroup, SubjectOptions } from '../subject.js';
import { checkTrace, type Trace } from '../trace.js';
import type { Faults } from './kv/faults.js';
import { generateGroupTrace } from './recorder.js';
import { groupsOf } from './room.js';
import { ReferenceScheduler } from './scheduler.js';

const ALL: Faults = { G1: true, G2: true, G3: true, G9: true, G17: true, partialHits: false };

/** A chunk that begins inside a block that is not cached: vLLM lets the hit end in the chunk before. */
const CHUNKS = 'h14_chunked_only_chunk_not_multiple_of_block';

const replayWith = (trace: Trace, faults: Partial<Faults>) =>
  replay(trace, (options) => new ReferenceScheduler(options, faults));

describe('the reference scheduler with KV cache groups', () => {
  it('has its fixtures', () => {
    expect(groupFixtureNames.length).toBe(34);
    expect(faultFixtureNames.length).toBe(9);
  });

  it.each(groupFixtureNames)('decides what vLLM decides in %s, with and without its faults', (name) => {
    const inAll = { G17: name === CHUNKS };
    for (const faults of [inAll, ALL]) {
      const trace = readFixture(name);
      const result = replayWith(trace, faults);
      expect(result.differences, report(result).join('\n')).toEqual([]);
      expect(result.steps).toBe(trace.steps.length);
      expect(result.comparisons).toBeGreaterThan(20 * result.steps);
    }
  });

  it.each([
    ['G1', 'x01_eagle_mamba_align_cut'],
    ['G2', 'x02_full_mla32_sliding_cut'],
    ['G9', 'x03_sliding_only_load_failures_cut'],
    ['G17', CHUNKS],
  ] as const)('has the fault %s, which %s shows, only if it is told to', (fault, name) => {
    const result = replayWith(readFixture(name), { [fault]: true });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(result.trace.steps.length);
    const others = { ...ALL, [fault]: false };
    for (const faults of [{}, others]) {
      expect(replayWith(readFixture(name), faults).differences.length).toBeGreaterThan(100);
    }
  });
});

const FULL: SubjectKvGroup = { type: 'full', blockSize: 64 };
const sliding = (window: number, more: Partial<SubjectKvGroup> = {}): SubjectKvGroup => ({
  type: 'sliding',
  window,
  ...more,
});

/** A scheduler to which requests of as many tokens were added, all with the same text. */
function begun(
  options: Partial<SubjectOptions>,
  lengths: readonly number[],
  faults: Partial<Faults> = {},
): ReferenceScheduler {
  const scheduler = new ReferenceScheduler({ ...DEFAULTS, ...options }, faults);
  for (const [i, length] of lengths.entries()) {
    const prompt = Int32Array.from({ length }, (_, token) => token);
    const stops = { maxTokens: 5, minTokens: 0, eosTokenId: -1, ignoreEos: true, stopTokenIds: [] };
    scheduler.add({ id: `r${i}`, prompt, ...stops, priority: 0, arrivalTime: 0 });
  }
  return scheduler;
}

const DEFAULTS: SubjectOptions = {
  numBlocks: 200,
  blockSize: 16,
  maxNumSeqs: 2,
  maxNumBatchedTokens: 1000,
  maxModelLen: 500,
  enablePrefixCaching: true,
  policy: 'fcfs',
  longPrefillTokenThreshold: 0,
  reserveFullIsl: true,
  enableChunkedPrefill: true,
  pipelineDepth: 1,
  numSpeculativeTokens: 0,
  maxLoras: 0,
  numRows: 2,
  hashSeed: 0,
  like: '28be48fa',
  deviations: false,
  deadlines: false,
  now: () => 0,
  strict: true,
};

/** Tokens that a request finds of an equal one before it, with a drafter. */
function hit(kvGroups: readonly SubjectKvGroup[], numTokens: number, faults: Partial<Faults> = {}): number {
  const drafts = { numSpeculativeTokens: 2, speculativeMethod: 'eagle' as const };
  const scheduler = begun({ kvGroups, ...drafts }, [numTokens, numTokens], faults);
  const { numComputedTokens } = scheduler.schedule();
  scheduler.verify();
  return numComputedTokens[1];
}

describe('a prefix that a drafter shares', () => {
  it.each([12, 17, 40])('is found again behind a window of %i whose places are masked', (window) => {
    expect(hit([FULL, sliding(window)], 300)).toBe(192);
    expect(hit([FULL, sliding(window)], 300, { G3: true })).toBe(0);
  });

  it('loses a block in every group whose spec has a flag, and in no other', () => {
    const flagged = sliding(20, { eagle: true });
    const full: SubjectKvGroup = { type: 'full' };
    expect(hit([full, flagged], 100)).toBe(80);
    expect(hit([full, sliding(20), flagged], 100)).toBe(80);
    expect(hit([full, sliding(20), sliding(21, { eagle: true })], 97)).toBe(80);
    expect(hit([{ ...full, eagle: true }, sliding(20)], 97)).toBe(80);
  });

  it('is found where each token attends to itself alone', () => {
    expect(hit([sliding(1)], 100)).toBe(80);
    expect(hit([{ type: 'full' }, sliding(1)], 100)).toBe(80);
  });

  it('ends on a multiple of all block sizes', () => {
    expect(hit([{ type: 'full' }, sliding(20, { blockSize: 32 })], 300)).toBe(256);
    expect(hit([{ type: 'full' }, sliding(20, { blockSize: 48 })], 300)).toBe(240);
  });
});

describe('hits inside blocks, with which vLLM of August is unsound', () => {
  const kvGroups = [{ type: 'full' }, { type: 'mamba', mode: 'align' }] as const;
  const inside: Partial<SubjectOptions> = { like: '017e9f444', kvGroups, blockSize: 8, hashBlockSize: 4 };
  const tokensOf = (scheduler: ReferenceScheduler, counts: readonly number[]) => {
    const plan = scheduler.schedule();
    const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7);
    scheduler.update(plan, { tokens, counts: Int32Array.from(counts) });
    scheduler.verify();
    return plan;
  };
  const add = (scheduler: ReferenceScheduler, id: string, prompt: Int32Array) => {
    const stops = { maxTokens: 5, minTokens: 0, eosTokenId: -1, ignoreEos: true, stopTokenIds: [] };
    scheduler.add({ id, prompt, ...stops, priority: 0, arrivalTime: 0 });
  };
  /** Thirty equal tokens, and six that nobody else has. */
  const alike = (own: number) => Int32Array.from({ length: 36 }, (_, i) => (i < 30 ? i : own + i));

  /** A prompt of 22 tokens has run, of which 20 have hashes. */
  function behindPrompt(faults: Partial<Faults>): ReferenceScheduler {
    const scheduler = begun(inside, [22], faults);
    const counts = faults.partialHits ? [[0], [0], [1]] : [[0], [1]];
    const plans = counts.map((of) => tokensOf(scheduler, of));
    const ends = plans.map(({ numComputedTokens: [before], totalTokens }) => before + totalTokens);
    expect(ends).toEqual(faults.partialHits ? [16, 20, 22] : [16, 22]);
    // The state behind the 20 tokens is kept in a block of its own, before its present block is
    // written again.
    const state = plans[1]?.requests[0].rows[1].blocks[2];
    expect(plans.flatMap(({ copies }) => copies.map(({ from }) => from))).toEqual(
      faults.partialHits ? [state] : [],
    );
    scheduler.abort('r0');
    return scheduler;
  }

  it('a prompt ends a step with its last hash, and is found up to there: blocks of which a part is found are copied', () => {
    const scheduler = behindPrompt({ partialHits: true });
    add(scheduler, 'a', alike(100));
    const { numComputedTokens, totalTokens, copies, requests } = tokensOf(scheduler, [0]);
    expect([...numComputedTokens, totalTokens]).toEqual([20, 4]);
    expect(copies.map(({ to }) => to)).toEqual(requests[0].rows.map(({ blocks }) => blocks[2]));
    const without = behindPrompt({});
    add(without, 'a', alike(100));
    expect([...tokensOf(without, [0]).numComputedTokens]).toEqual([16]);
  });

  it('a request copies what the same step is still to bring: the block of one before it, which is a copy itself', () => {
    const scheduler = behindPrompt({ partialHits: true });
    add(scheduler, 'a', alike(100));
    add(scheduler, 'b', alike(200));
    const { numComputedTokens, copies, requests } = tokensOf(scheduler, [0, 0]);
    expect([...numComputedTokens]).toEqual([20, 20]);
    const [a, b] = requests.map(({ rows }) => rows[0].blocks[2]);
    expect(copies.slice(0, 2)).toEqual([
      { from: copies[0].from, to: a },
      { from: a, to: b },
    ]);
  });

  it('with steps in flight the block that the next state is written to gets the key of the state before', () => {
    const scheduler = begun({ ...inside, pipelineDepth: 2 }, [20], { partialHits: true });
    const plans = [scheduler.schedule(), scheduler.schedule()];
    expect(plans.map(({ totalTokens }) => totalTokens)).toEqual([16, 4]);
    scheduler.update(plans[0], { tokens: new Int32Array(0), counts: Int32Array.of(0) });
    const { copies, requests } = scheduler.schedule();
    const running = requests[0].rows[1].blocks[2];
    expect(copies.map(({ from }) => from)).toEqual([running]);
    // The copy took its key along. But the token that this step goes on from is not known yet, so that the request ends where the state did.
    expect([...scheduler.core.published()]).toContain(running);
    expect(scheduler.core.publishedGroup?.(running)).toBe(1);
  });
});

describe('a long prompt', () => {
  it.each([
    [sliding(17), 4],
    [sliding(18), 5],
    [{ type: 'chunked', chunk: 32 }, 4],
    [{ type: 'chunked', chunk: 33 }, 5],
    [{ type: 'full' }, 13],
  ] as const)('begins if as many blocks are free as it holds at once: %o, %i', (group, most) => {
    const admitted = (numFree: number) => {
      const pool = { numBlocks: 1 + numFree, enablePrefixCaching: false };
      return begun({ kvGroups: [group], maxNumBatchedTokens: 32, ...pool }, [200]).schedule().numRequests;
    };
    expect([admitted(most - 1), admitted(most)]).toEqual([0, 1]);
  });
});

/** How often what matters happens in traces. */
function census(traces: readonly Trace[]): Map<string, number> {
  const counts = new Map<string, number>();
  const count = (what: string, n: number) => counts.set(what, (counts.get(what) ?? 0) + n);
  for (const { config, connector, steps } of traces) {
    const groups = groupsOf(config);
    const kinds = new Set(groups.map((group) => (group.type === 'mamba' ? group.mode : group.type)));
    const sizes = new Set(groups.map(({ block_size }) => block_size));
    count(`${groups.length} groups`, 1);
    count('block sizes', sizes.size > 1 ? 1 : 0);
    count('flags', groups.some(({ eagle }) => eagle === 1) ? 1 : 0);
    count('finer hashes', (config.hash_block_size as number) < Math.min(...sizes) ? 1 : 0);
    count('connector', connector === null ? 0 : 1);
    count('without prefix caching', config.enable_prefix_caching ? 0 : 1);
    count('steps in flight', config.async_scheduling ? 1 : 0);
    for (const kind of kinds) count(kind, 1);
    for (const { sched, upd } of steps) {
      const hits = sched?.new.filter(([, , computed]) => computed > 0).length ?? 0;
      for (const kind of kinds) if (config.enable_prefix_caching) count(`hits of ${kind}`, hits);
      const admitted = [...(sched?.new ?? []), ...(sched?.resumed ?? [])];
      const hasNull = ([, rows]: (typeof admitted)[number]) => rows.some((row) => [row].flat().includes(0));
      count('rows with nulls', admitted.filter(hasNull).length);
      count('preempted', sched?.preempted.length ?? 0);
      count('zeroed', sched?.zero?.length ?? 0);
      count('events', upd?.kv_events?.length ?? 0);
      count('failed loads', upd?.kv?.invalid ? 1 : 0);
    }
  }
  counts.delete('hits of none');
  return counts;
}

describe('generated traces with KV cache groups', () => {
  const traces = Array.from({ length: 100 }, (_, i) => generateGroupTrace(i + 1));

  it('are traces, and the reference decides the same again', () => {
    for (const trace of traces) {
      expect(checkTrace(trace)).toEqual([]);
      const result = replayWith(trace, {});
      expect(result.differences, report(result).join('\n')).toEqual([]);
      expect(result.steps).toBe(trace.steps.length);
    }
  });

  it('exercise everything that they are for', () => {
    const counts = census(traces);
    expect(counts.size).toBe(30);
    for (const [what, count] of counts) expect(count, what).toBeGreaterThan(2);
  });

  it('are the same for the same seed, and others for other faults', () => {
    expect(JSON.stringify(generateGroupTrace(7))).toBe(JSON.stringify(traces[6]));
    let others = 0;
    for (const trace of traces) if (others < 3 && replayWith(trace, ALL).differences.length > 0) others++;
    expect(others).toBe(3);
  });
});
