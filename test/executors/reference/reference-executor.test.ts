// The reference executor's texts are those of an unpaged computation; drafts, memory, steps in
// flight.
import { describe, expect, it } from 'vitest';
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { BlockstepError, Scheduler } from '../../../src/index.js';
import { ADMITTED, handExecutor, handMade, PROMPT } from './hand.js';
import { run, sampled } from './hand-runs.js';
import { ReferenceDriver, unpagedText, wordy } from './support.js';

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
