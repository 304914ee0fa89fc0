// The faults that the reference executor finds: foreign, stale and unwritten reads, foreign writes,
// wrong plans.
import { describe, expect, it } from 'vitest';
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import { describeFault, type ReferenceFault } from '../../../src/executors/reference/faults.js';
import { BlockstepError } from '../../../src/index.js';
import { ADMITTED, handExecutor, handMade, PROMPT } from './hand.js';
import { run, sampled } from './hand-runs.js';

function faultsOf(act: () => unknown): ReferenceFault[] {
  try {
    act();
  } catch (error) {
    if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_KV_MISMATCH')
      return error.cause as ReferenceFault[];
    throw error;
  }
  return [];
}

const kindsOf = (act: () => unknown) => faultsOf(act).map(({ kind }) => kind);

describe('what a reference executor finds', () => {
  it('a foreign write, by him who writes; and a foreign read, by him whose block it was', () => {
    using executor = handExecutor({ onMismatch: 'report' });
    run(executor, ADMITTED, { ...ADMITTED, handle: 2, blocks: [3, 4] });
    const { plan, tables } = handMade([
      { handle: 1, computed: 5, input: [7], blocks: [1, 2] },
      { handle: 2, computed: 5, input: [7], blocks: [3, 4] },
    ]);
    tables.slotMapping[0] = 4n * 4n + 1n;
    executor.execute(plan, tables);
    expect(executor.faults.map(describeFault)).toEqual([
      'foreign-write by entry 0 ("h1", handle 1) at position 5 in block 4, owner 2, generation 1',
      'unwritten-read by entry 0 ("h1", handle 1) at position 5 in block 2, expected 7, generation 1',
    ]);
    run(executor, { handle: 2, computed: 6, input: [5], blocks: [3, 4] });
    expect(executor.numFaults).toBe(2); // the later writes there were its own
    const { plan: again, tables: wrong } = handMade([{ handle: 1, computed: 6, input: [5], blocks: [3, 2] }]);
    executor.execute(again, wrong);
    expect(executor.faults.slice(2, 4)).toMatchObject([
      { kind: 'moved-block', position: 0, block: 3, expected: 1, found: 3 },
      { kind: 'foreign-read', id: 'h1', handle: 1, position: 0, block: 3, owner: 2, expected: 5, found: 5 },
    ]);
  });

  it('equal content of another owner is shared where it came from the cache, and wrong anywhere else', () => {
    using executor = handExecutor();
    run(executor, ADMITTED);
    // The first block is a hit, the second its own.
    const sharer = { ...ADMITTED, handle: 2, computed: 4, input: PROMPT.slice(4), blocks: [1, 3] };
    expect(faultsOf(() => run(executor, sharer))).toEqual([]);
    const thief = { handle: 2, computed: 5, input: [7], blocks: [1, 3] };
    const { plan, tables } = handMade([thief]);
    tables.blockTable[1] = 2; // the same token at the same place, but of request 1
    expect(kindsOf(() => executor.execute(plan, tables))).toEqual(['moved-block', 'foreign-read']);
  });

  it('the content of another prefix, adapter or salt, although the tokens are equal', () => {
    using executor = handExecutor();
    run(executor, ADMITTED);
    const other = (change: object) => {
      const { plan, tables } = handMade([
        { ...ADMITTED, handle: 2, computed: 4, input: PROMPT.slice(4), blocks: [1, 3] },
      ]);
      Object.assign(plan.requests[0], change);
      return kindsOf(() => executor.execute(plan, tables));
    };
    expect(other({})).toEqual([]);
    for (const change of [{ adapter: 'a' }, { cacheSalt: 'a' }])
      expect(other(change)).toEqual(['foreign-read']);
    const longer = [9, 5, 6, 7, 5, 6, 7, 5, 6];
    const shifted = { ...ADMITTED, handle: 3, known: longer, computed: 8, input: [6], blocks: [5, 1, 6] };
    expect(kindsOf(() => run(executor, shifted))).toEqual(['unwritten-read', 'foreign-read']);
  });

  it('a read of what was written before the block was taken again', () => {
    using executor = handExecutor();
    run(executor, ADMITTED);
    run(executor, { ...ADMITTED, handle: 2, blocks: [2, 3], input: PROMPT.slice(0, 2), samples: false });
    const stale = { handle: 1, computed: 5, input: [7], blocks: [1, 2] };
    const [foreignWrite, wrong] = faultsOf(() => run(executor, stale));
    expect([foreignWrite.kind, wrong.kind, wrong.owner]).toEqual(['foreign-write', 'foreign-read', 2]);
    using other = handExecutor();
    run(other, ADMITTED);
    // Taken by a request that has not written into it yet: the data there looks right.
    run(other, { ...ADMITTED, handle: 2, blocks: [3, 1], input: PROMPT.slice(0, 2), samples: false });
    expect(faultsOf(() => run(other, stale))).toMatchObject([
      { kind: 'stale-read', position: 0, block: 1, owner: 1, generation: 2, foundGeneration: 1 },
    ]);
  });

  it('a running request that was never ADMITTED, drafts that nobody made, and a plan for other tokens than there are', () => {
    using executor = handExecutor({ pipelineDepth: 2 });
    const stranger = { handle: 9, computed: 5, input: [7], blocks: [1, 2] };
    expect(kindsOf(() => run(executor, stranger))).toEqual(['unknown-request']);
    run(executor, { ...ADMITTED, input: PROMPT.slice(0, 4), samples: false });
    const draft = { handle: 1, computed: 4, input: [6, -1], blocks: [1, 2], drafts: [-1] };
    expect(kindsOf(() => run(executor, draft))).toEqual(['missing-draft']);
    run(executor, { ...ADMITTED, handle: 2, blocks: [3, 4] });
    const tooMany = { handle: 2, computed: 5, input: [-1, -1], blocks: [3, 4] };
    expect(faultsOf(() => run(executor, tooMany))).toMatchObject([
      { kind: 'scheduled-tokens', expected: 1, found: 2 },
    ]);
  });

  it('goes into the text where it is only reported: what is sampled comes from what was read', () => {
    const text = (block: number) => {
      using executor = handExecutor({ onMismatch: 'report' });
      run(executor, ADMITTED, {
        ...ADMITTED,
        handle: 2,
        known: [5, 6, 7, 9, 6],
        input: [5, 6, 7, 9, 6],
        blocks: [3, 4],
      });
      const { plan, tables } = handMade([{ handle: 1, computed: 5, input: [7], blocks: [1, 2] }]);
      tables.slotMapping[0] = 9n;
      tables.blockTable[0] = block;
      return [...(executor.execute(plan, tables) as ExecutorResult).tokens.subarray(0, 1)];
    };
    expect(text(1)).toEqual([5]); // 5 6 7 5 | 6 7
    expect(text(3)).toEqual([9]); // 5 6 7 9 | 6 7
  });

  it('computed tokens that are neither those of the copy nor those that rejected drafts explain', () => {
    const decode = (computed: number) => ({
      handle: 1,
      computed,
      input: [-1, -1, -1],
      blocks: [1, 2, 3, 4],
      drafts: [-1, -1],
    });
    // Both drafts of two steps in flight are rejected: after them 7 tokens are computed, and plans may say 9 or 11.
    for (const [computed, kinds] of [
      [7, []],
      [8, ['computed-tokens', 'sequence-length']],
      [9, []],
      [10, ['computed-tokens', 'sequence-length']],
      [11, []],
      [12, ['computed-tokens', 'sequence-length']],
      [6, ['computed-tokens', 'sequence-length']],
    ] as const) {
      using executor = handExecutor({ pipelineDepth: 3, draftErrorRate: 1, onMismatch: 'report' });
      run(executor, { ...ADMITTED, blocks: [1, 2, 3, 4], newBlocks: 4 });
      run(executor, decode(5));
      run(executor, decode(8));
      expect(executor.numFaults).toBe(0);
      run(executor, decode(computed));
      expect(executor.faults.map(({ kind }) => kind).slice(0, 2), String(computed)).toEqual(kinds);
    }
  });

  it('nothing in a block that a request goes on to fill when it is ADMITTED again', () => {
    using executor = handExecutor();
    run(executor, ADMITTED);
    const known = [...PROMPT, 9, 9];
    run(executor, { ...ADMITTED, kind: 1, computed: 5, known, input: [9, 9], blocks: [1, 2] });
    expect(executor.numFaults).toBe(0);
  });

  it('nothing of a failed step when its request is ADMITTED again', () => {
    using executor = handExecutor({ onMismatch: 'fail-row', pipelineDepth: 3, draftErrorRate: 0 });
    run(executor, { ...ADMITTED, blocks: [1, 2, 3], newBlocks: 3 });
    const { plan, tables } = handMade([
      { handle: 1, computed: 5, input: [-1, -1, -1], blocks: [1, 2, 3], drafts: [-1, -1] },
    ]);
    tables.seqLens[0]++;
    executor.execute(plan, tables);
    expect(executor.numFaults).toBe(1);
    // The scheduler knows one token more than the prompt, and there is nothing that it does not know.
    const again = {
      ...ADMITTED,
      kind: 2,
      known: [...PROMPT, 7],
      input: [...PROMPT, 7],
      blocks: [4, 5],
      samples: false,
    };
    run(executor, again);
    const next = { handle: 1, computed: 6, input: [-1], blocks: [4, 5] };
    expect(kindsOf(() => run(executor, next))).toEqual([]);
    expect(executor.faults.at(-1)).toMatchObject({ kind: 'scheduled-tokens', expected: 0, found: 1 });
  });

  it('a slot of the null block, which nobody may write into', () => {
    for (const slot of [0n, 3n, -1n, 40n, 2n ** 40n]) {
      using executor = handExecutor();
      const { plan, tables } = handMade([ADMITTED]);
      tables.slotMapping[2] = slot;
      expect(faultsOf(() => executor.execute(plan, tables))).toMatchObject([
        { kind: 'slot', position: 2, found: slot < 0n ? null : Number(slot) },
        { kind: 'unwritten-read', position: 2, block: 1 },
      ]);
    }
  });

  it('makes a step fail, with an error that names the first and lists all', () => {
    using executor = handExecutor();
    const { plan, tables } = handMade([ADMITTED]);
    tables.blockTable.fill(9, 0, 2);
    let error: BlockstepError | undefined;
    try {
      executor.execute(plan, tables);
    } catch (thrown) {
      error = thrown as BlockstepError;
    }
    expect(error?.code).toBe('ERR_BLOCKSTEP_KV_MISMATCH');
    expect(error?.message).toBe(
      'step 0: foreign-write by entry 0 ("h1", handle 1) at position 0 in block 1, generation 0; ' +
        'foreign-write by entry 0 ("h1", handle 1) at position 4 in block 2, generation 0; ' +
        'unwritten-read by entry 0 ("h1", handle 1) at position 0 in block 9, expected 5, generation 2; and 1 more',
    );
    expect(error?.cause).toEqual(executor.faults);
  });

  it('can fail rows alone; either way the request is not heard of until it is ADMITTED again', () => {
    for (const onMismatch of ['fail-row', 'fail-step'] as const) {
      using executor = handExecutor({ onMismatch });
      run(executor, ADMITTED, { ...ADMITTED, handle: 2, blocks: [3, 4] });
      const decode = (handle: number, computed: number, token: number, first: number) => ({
        handle,
        computed,
        input: [token],
        blocks: [first, first + 1],
      });
      const { plan, tables } = handMade([decode(1, 5, 7, 1), decode(2, 5, 7, 3)]);
      tables.blockTable[0] = 8;
      if (onMismatch === 'fail-step') expect(faultsOf(() => executor.execute(plan, tables))).toHaveLength(2);
      else {
        const result = executor.execute(plan, tables) as ExecutorResult;
        expect([...(result.errors ?? []).slice(0, 2)]).toEqual([1, 0]);
        expect(sampled(result, 2)).toEqual([[], [5]]);
      }
      const later = run(executor, decode(1, 6, 5, 1), decode(2, 6, 5, 3));
      expect([...(later.errors ?? []).slice(0, 2)]).toEqual([1, 0]);
      const again = run(executor, { ...ADMITTED, kind: 2 });
      expect([again.errors, sampled(again, 1)]).toEqual([undefined, [[7]]]);
      expect(executor.numFaults).toBe(2);
    }
  });

  it('is remembered within bounds', () => {
    using executor = handExecutor({ onMismatch: 'report' });
    for (let i = 0; i < 3000; i++) {
      const { plan, tables } = handMade([ADMITTED], i);
      tables.blockTable.fill(9, 0, 2);
      executor.execute(plan, tables);
    }
    expect(executor.numFaults).toBeGreaterThan(3000);
    expect(executor.faults.length).toBeLessThan(1100);
    expect(executor.faults.at(-1)?.step).toBe(2999);
  });
});
