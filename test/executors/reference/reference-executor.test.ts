import { describe, expect, it } from 'vitest';
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import { describeFault, type ReferenceFault } from '../../../src/executors/reference/faults.js';
import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { BlockstepError, Scheduler } from '../../../src/index.js';
import { ADMITTED, type HandEntry, handExecutor, handMade, PROMPT } from './hand.js';
import { ReferenceDriver, unpagedText, wordy } from './support.js';

function run(executor: ReferenceExecutor, ...entries: HandEntry[]): ExecutorResult {
  const { plan, tables } = handMade(entries);
  return executor.execute(plan, tables) as ExecutorResult;
}

/** Tokens that each entry got. */
function sampled({ tokens, counts }: ExecutorResult, entries: number): number[][] {
  let at = 0;
  return Array.from({ length: entries }, (_, i) => {
    at += counts[i];
    return [...tokens.subarray(at - counts[i], at)];
  });
}

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

describe('the text of a reference executor', () => {
  it('goes on as it went on before: what followed the longest earlier occurrence of its end', () => {
    const text = (prompt: string, count: number, eosTokenId?: number) => {
      const ids = Int32Array.from(Buffer.from(prompt));
      const model = eosTokenId === undefined ? {} : { eosTokenId };
      return Buffer.from(unpagedText(ids, count, model)).toString();
    };
    expect(text('the cat sat on the mat; the dog sat on', 9)).toBe(' the mat;');
    expect(text('ab ax ab', 3)).toBe(' ax');
    expect(text('one two. one', 10, 0)).toBe(' two. one\0');
  });

  it('is that of an unpaged computation, whatever is beside it', async () => {
    using driver = new ReferenceDriver();
    const handles = [5, 10, 30].map((n, i) =>
      driver.add({ id: `r${i}`, prompt: wordy(n, i), maxTokens: 12 }),
    );
    await driver.run();
    for (const handle of handles) {
      expect(driver.texts.get(handle)).toHaveLength(12);
      expect(driver.texts.get(handle)).toEqual(driver.expectedText(handle));
    }
  });

  it('depends on the seed where nothing is to be copied, and on nothing else', () => {
    const tokens = (seed: number) => {
      using executor = handExecutor({ seed });
      return sampled(run(executor, { ...ADMITTED, known: [1, 2, 3, 4, 9], input: [1, 2, 3, 4, 9] }), 1)[0];
    };
    const all = Array.from({ length: 30 }, (_, seed) => tokens(seed));
    expect(all).toEqual(
      Array.from({ length: 30 }, (_, seed) => unpagedText(Int32Array.of(1, 2, 3, 4, 9), 1, { seed })),
    );
    expect(new Set(all.map(([token]) => token)).size).toBe(5);
  });

  it('ends where it would begin to repeat itself, if there is a token for that', async () => {
    using driver = new ReferenceDriver({}, { eosTokenId: 2 });
    const prompt = Int32Array.from([11, 12, 13, 14, 11]);
    const handle = driver.add({ id: 'a', prompt, maxTokens: 30, eosTokenId: 2 });
    await driver.run();
    expect(driver.texts.get(handle)).toEqual([12, 13, 14, 11, 2]);
    expect(driver.ends.get(handle)).toBe('stop');
  });

  it('a row that computes only part of a prompt gets none', () => {
    using executor = handExecutor();
    const first = { ...ADMITTED, input: PROMPT.slice(0, 3), samples: false };
    expect(sampled(run(executor, first), 1)).toEqual([[]]);
    const rest = { handle: 1, computed: 3, input: PROMPT.slice(3), blocks: [1, 2] };
    expect(sampled(run(executor, rest), 1)).toEqual([[7]]);
  });
});

describe('drafts of a reference executor', () => {
  it('those that it agrees with are accepted, up to the first that it does not', () => {
    for (const [drafts, tokens] of [
      [
        [7, 5],
        [7, 5, 6],
      ],
      [
        [7, 9],
        [7, 5],
      ],
      [[9, 5], [7]],
      [[-1, 5], [7]],
    ]) {
      using executor = handExecutor();
      run(executor, { ...ADMITTED, input: PROMPT.slice(0, 4), samples: false });
      const entry = { handle: 1, computed: 4, input: [6, -1, -1], blocks: [1, 2], drafts };
      expect(sampled(run(executor, entry), 1)).toEqual([tokens]);
      const next = {
        handle: 1,
        computed: 4 + tokens.length,
        input: [tokens.at(-1) as number],
        blocks: [1, 2],
      };
      expect(sampled(run(executor, next), 1)[0]).toHaveLength(1);
    }
  });

  it('that a grammar does not allow are not accepted, although it would have said the same', () => {
    for (const pipelineDepth of [1, 2]) {
      using executor = handExecutor({ pipelineDepth, draftErrorRate: 0 });
      run(executor, ADMITTED);
      const drafts = pipelineDepth === 1 ? [5, 6] : [-1, -1];
      const { plan, tables } = handMade([
        { handle: 1, computed: 5, input: [7, -1, -1], blocks: [1, 2], drafts },
      ]);
      plan.numInvalidDraftTokens[0] = 1;
      expect(sampled(executor.execute(plan, tables) as ExecutorResult, 1)).toEqual([[5, 6]]);
    }
  });

  it('are right as often as asked', async () => {
    const accepted = async (draftErrorRate: number) => {
      using driver = new ReferenceDriver({ numSpeculativeTokens: 3, numBlocks: 65 }, { draftErrorRate });
      for (let i = 0; i < 6; i++) driver.add({ id: `r${i}`, prompt: wordy(12, i), maxTokens: 80 });
      await driver.run();
      for (const handle of driver.texts.keys())
        expect(driver.texts.get(handle)).toEqual(driver.expectedText(handle));
      const { specDraftTokens, specAcceptedTokens } = driver.scheduler.stats();
      return specAcceptedTokens / specDraftTokens;
    };
    expect(await accepted(0)).toBe(1);
    expect(await accepted(1)).toBe(0);
    const half = await accepted(0.4);
    expect(half).toBeGreaterThan(0.2);
    expect(half).toBeLessThan(0.6);
  });

  it('that it made itself are verified where the plan was made before them', () => {
    using executor = handExecutor({ pipelineDepth: 2, draftErrorRate: 0 });
    const result = run(executor, ADMITTED);
    expect([...(result.drafts?.tokens ?? [])].slice(0, 2)).toEqual([5, 6]);
    const entry = { handle: 1, computed: 5, input: [-1, -1, -1], blocks: [1, 2], drafts: [-1, -1] };
    expect(sampled(run(executor, entry), 1)).toEqual([[5, 6, 7]]);
  });
});

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
    expect(executor.numFaults).toBe(2); // what it wrote there later was its own
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
    // Taken by a request that has not written into it yet: what stands there looks right.
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

describe('the memory of a reference executor', () => {
  it('is as stated, and is that of the requests that still have a slot', () => {
    using executor = handExecutor();
    expect(executor.memory()).toEqual({ arenaBytes: 10 * 4 * 32 + 10 * 16, numSequences: 0, pinnedBytes: 0 });
    for (let generation = 1; generation <= 50; generation++) {
      run(executor, { ...ADMITTED, handle: 3 + generation * 2 ** 21 });
      expect(executor.memory().numSequences).toBeLessThanOrEqual(2);
    }
  });

  it('is taken where it is written', () => {
    const before = process.memoryUsage().rss;
    using executor = new ReferenceExecutor({ numBlocks: 2 ** 20, blockSize: 16 });
    expect(executor.memory().arenaBytes).toBeGreaterThan(2 ** 29);
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 27);
  });
});

describe('steps in flight', () => {
  const options = { numBlocks: 4, blockSize: 4, maxNumSeqs: 2, maxModelLen: 12, pipelineDepth: 2 as const };

  /** A decode whose request is aborted while it is in flight, and the admission of another into its blocks. */
  function reuse() {
    const scheduler = new Scheduler({ ...options, hashSeed: 1 });
    const executor = new ReferenceExecutor({ ...options, onMismatch: 'report' });
    const submit = () => {
      const plan = scheduler.schedule();
      const tables = scheduler.core.gather(plan.frame, plan.numRequests);
      return { plan, execute: () => executor.execute(plan, tables) as ExecutorResult };
    };
    const finish = ({ plan, execute }: ReturnType<typeof submit>) => scheduler.update(plan, execute());
    scheduler.add({ id: 'first', prompt: wordy(9, 1), maxTokens: 3 });
    finish(submit());
    const decode = submit();
    scheduler.abort('first');
    scheduler.add({ id: 'second', prompt: wordy(10, 2), maxTokens: 2 });
    const prefill = submit();
    expect(prefill.plan.requests[0].id).toBe('second');
    return { executor, decode, prefill, finish, submit };
  }

  it('may have their blocks given to others at once, as they run in order', () => {
    const { executor, decode, prefill, finish, submit } = reuse();
    finish(decode);
    finish(prefill);
    finish(submit());
    expect(executor.faults).toEqual([]);
  });

  it('must not run out of order: then they read and write what others own now', () => {
    const { executor, decode, prefill } = reuse();
    prefill.execute();
    expect(executor.faults).toEqual([]);
    const second = prefill.plan.requests[0].handle;
    decode.execute();
    const kinds = executor.faults.map(({ kind, id, owner }) => [kind, id, owner]);
    expect(kinds).toContainEqual(['foreign-write', 'first', second]);
    expect(kinds).toContainEqual(['foreign-read', 'first', second]);
  });

  it('are computed later, in the order of submission, by whoever was asked to', async () => {
    const waiting: (() => void)[] = [];
    using executor = handExecutor({ pipelineDepth: 2, defer: (compute) => waiting.push(compute) });
    const first = handMade([ADMITTED]);
    const second = handMade([{ handle: 1, computed: 5, input: [-1], blocks: [1, 2] }]);
    const order: number[] = [];
    const answers = [first, second].map(async ({ plan, tables }, i) => {
      const { counts } = await executor.execute(plan, tables);
      order.push(i);
      return counts[0];
    });
    expect(() => executor.execute(first.plan, first.tables)).toThrow('2 steps wait');
    const [a, b] = waiting;
    b();
    expect(executor.memory().numSequences).toBe(1);
    b();
    a();
    a();
    expect(await Promise.all(answers)).toEqual([1, 1]);
    expect(order).toEqual([0, 1]);
  });

  it('are computed at once where the caller says so, and not at all where he throws', async () => {
    using prompt = handExecutor({ defer: (compute) => compute() });
    const { plan, tables } = handMade([ADMITTED]);
    const answer = prompt.execute(plan, tables);
    expect(prompt.memory().numSequences).toBe(1);
    expect((await answer).counts[0]).toBe(1);
    const waiting: (() => void)[] = [];
    const mine = new Error('mine');
    using throwing = handExecutor({
      defer: (compute) => {
        waiting.push(compute);
        if (waiting.length === 1) throw mine;
      },
    });
    expect(() => throwing.execute(plan, tables)).toThrow(mine);
    waiting[0]();
    expect(throwing.memory().numSequences).toBe(0);
    const second = throwing.execute(plan, tables);
    waiting[0]();
    expect((await second).counts[0]).toBe(1);
  });

  it('are computed after a while', async () => {
    using executor = handExecutor({ pipelineDepth: 2, latencyMs: 5 });
    const { plan, tables } = handMade([ADMITTED]);
    const answer = executor.execute(plan, tables);
    expect(executor.memory().numSequences).toBe(0);
    expect((await answer).counts[0]).toBe(1);
  });

  it('fail when the executor is disposed, and so does everything after', async () => {
    const executor = handExecutor({ defer: () => {} });
    const { plan, tables } = handMade([ADMITTED]);
    const answer = executor.execute(plan, tables);
    executor.dispose();
    executor.dispose();
    await expect(answer).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(() => executor.execute(plan, tables)).toThrow(BlockstepError);
    expect(() => executor.memory()).toThrow(BlockstepError);
    expect(executor.faults).toEqual([]);
  });

  it('whose mismatch nobody waits for do not end the process', async () => {
    using executor = handExecutor({ latencyMs: 0 });
    const { plan, tables } = handMade([ADMITTED]);
    tables.blockTable[0] = 9;
    void executor.execute(plan, tables);
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(executor.numFaults).toBeGreaterThan(0);
  });
});
