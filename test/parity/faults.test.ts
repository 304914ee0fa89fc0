// Faults of vLLM in recorded traces, and the right behaviour.
import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../../src/scheduler/options/deviations.js';
import { replay } from './driver.js';
import { readFixture } from './fixtures.js';
import { faultIn } from './known-faults.js';
import { generateGroupTrace } from './reference/recorder.js';
import { makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject } from './subject.js';

/** With one deviation on, which a replay has off. */
const makeWith =
  (name: (typeof DEVIATIONS)[number]): MakeSubject =>
  (options) =>
    makeScheduler({
      ...options,
      deviations: DEVIATIONS.filter((each) => each !== name),
    });

/** The faults of vLLM that a scheduler without deviations has. */
const VLLM = { G2: true, G3: true, G9: true, G17: true };

const firstOf = (name: string, make: MakeSubject = makeScheduler) => {
  const [first] = replay(readFixture(name), make).differences;
  return first === undefined ? null : { path: first.path, expected: first.expected, got: first.got };
};

/**
 * vLLM admits r6 with a row of the second kind that is longer than its hit. It asks its pool for a
 * negative number of blocks.
 */
const G2 = {
  path: 'steps[14].sched.new[0]',
  expected: [
    'r6',
    [
      [37, 31, 30, 7],
      [5, 3],
      [4, 11, 8, 35],
    ],
    0,
  ],
  got: '(absent)',
};
/** vLLM goes on from the failed block, whose window was never loaded; here the request gives its five blocks back. */
const G9 = { path: 'steps[0].upd.free', expected: 17, got: 22 };

const CHUNKS = 'h14_chunked_only_chunk_not_multiple_of_block';
/**
 * The hit of 32 tokens ends in the first chunk of 40 tokens. vLLM finds no block of that chunk,
 * because it looks at the second chunk alone.
 */
const G17 = { path: 'steps[2].sched.new[0][1][0][0]', expected: 0, got: 10 };

describe('faults of vLLM in recorded traces are not copied', () => {
  it('G1: a drafter does not widen the hit of a state, so no block is taken for computed that never was', () => {
    // vLLM finds the state of r1 one block too far, in a step that has not made it yet, and ends the admission. Here the hit is shorter.
    expect(firstOf('x01_eagle_mamba_align_cut')).toEqual({
      path: 'steps[0].sched.new[1]',
      expected: '(absent)',
      got: ['r1', [[7], [8, 9, 10]], 0],
    });
  });

  it('G2: with cutAllHits no kind of full attention holds more than the hit', () => {
    expect(firstOf('x02_full_mla32_sliding_cut')).toBe(null);
    expect(firstOf('x02_full_mla32_sliding_cut', makeWith('cutAllHits'))).toEqual(G2);
  });

  it('G9: with recomputeWindows a request computes again from its first token where its window was never loaded', () => {
    expect(firstOf('x03_sliding_only_load_failures_cut')).toBe(null);
    const first = firstOf('x03_sliding_only_load_failures_cut', makeWith('recomputeWindows'));
    expect(first).toEqual(G9);
  });

  it('G17: with chunkHits a hit has the blocks of the chunk in which it ends', () => {
    expect(firstOf(CHUNKS)).toBe(null);
    expect(firstOf(CHUNKS, makeWith('chunkHits'))).toEqual(G17);
    for (const seed of [1039, 1046]) {
      const rightly = generateGroupTrace(seed, { ...VLLM, G17: false });
      expect(replay(rightly, makeWith('chunkHits')).differences).toEqual([]);
      expect(replay(rightly, makeScheduler).differences).not.toEqual([]);
    }
  });

  it('with holdAllHits blocks to load into are never taken from the hits of another group', () => {
    expect(firstOf('x04_shared_hit_cut')).toBe(null);
    expect(firstOf('x04_shared_hit_cut', makeWith('holdAllHits'))?.path).toBe(
      'steps[33].sched.new[0][1][0][1]',
    );
    const recorded = generateGroupTrace(2182, VLLM);
    // vLLM takes block 18 for one group, and then holds it as a hit of the next one.
    expect(replay(recorded, makeScheduler).differences).toEqual([]);
    expect(replay(recorded, makeWith('holdAllHits')).differences[0]).toMatchObject({
      path: 'steps[156].sched.resumed[0][1][0][0]',
      expected: 16,
      got: 4,
    });
  });

  it.each([
    ['x05_padded_chunk_cut', 'paddedChunk'],
    ['x06_late_failure_states_cut', 'lateFailure'],
    ['x07_late_failure_window_cut', 'lateFailure'],
    ['x08_foreign_failure_cut', 'foreignFailure'],
    ['x09_partial_hits_cut', 'partialHits'],
  ])('%s is told as the fault %s', (name, fault) => {
    const trace = readFixture(name);
    const { differences } = replay(trace, makeScheduler);
    expect(faultIn(trace, differences)).toMatchObject({ fault });
    const version = trace.vllm_commit.startsWith('017e') ? '28be48fa' : '017e9f444';
    expect(faultIn({ ...trace, vllm_commit: version }, differences)).toBe(null);
    expect(faultIn({ ...trace, name: 'another' }, differences)).toBe(null);
    expect(faultIn(trace, [{ ...differences[0], path: 'steps[9].upd' }])).toBe(null);
    expect(faultIn(trace, [{ ...differences[0], expected: 'no error', got: 'TypeError: broken' }])).toBe(
      null,
    );
    const falsified = structuredClone(trace);
    Object.assign(falsified.steps[0].sched ?? {}, { free: 999 });
    expect(faultIn(falsified, differences)).toBe(null);
  });
});
