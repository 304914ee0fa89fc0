// Copies of blocks between steps: their order, their ends, and requests that end meanwhile.
import { afterAll, describe, expect, it } from 'vitest';
import { offload } from '../../../../src/connectors/offload/offload.js';
import { Engine } from '../../../../src/engine/engine.js';
import type { LlamaExecutor } from '../../../../src/executors/llama-cpp/llama-executor.js';
import { LlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import type { NativeContext } from '../../../../src/executors/llama-cpp/native/binding.js';
import { Verdict } from '../../../../src/transfer/verdict.js';
import { hasLlama, useLlama } from '../use-llama.js';
import { BLOCKS, compute, executorFor, PLACES, Saved } from './saved-blocks.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const one = (number: number): Int32Array => Int32Array.of(number);
const prompt = (first: number, length = 60): Int32Array =>
  Int32Array.from({ length }, (_, i) => 5 + ((i * 13 + first * 41) % 300));

describe.skipIf(!hasLlama)('copies of blocks of llama.cpp', () => {
  const use = useLlama();
  const made: { dispose(): void }[] = [];
  const engines: Engine[] = [];
  afterAll(async () => {
    for (const engine of engines) await engine.shutdown({ drainMs: 0 });
    for (const each of made.reverse()) each.dispose();
  });

  async function make(numArenaBlocks = 8): Promise<{ executor: LlamaExecutor; saved: Saved }> {
    const executor = await executorFor({ model: await use.model() });
    const saved = new Saved(executor.kv, numArenaBlocks);
    made.push(executor, saved);
    return { executor, saved };
  }

  /** An engine whose blocks go to host memory. */
  async function engineWith(change: (context: NativeContext) => NativeContext = (context) => context) {
    const model = await use.model();
    const { native } = LlamaModel.nativeOf(model);
    const value: typeof native.createContext = async (given) => {
      const context = await Reflect.apply(Object.getPrototypeOf(native).createContext, native, [given]);
      return change(context as NativeContext);
    };
    Object.defineProperty(native, 'createContext', { value, configurable: true });
    const executor = await executorFor({ model, numBlocks: 9 });
    Reflect.deleteProperty(native, 'createContext');
    const tiers = offload({ memory: executor, hostBlocks: 64, storeEvery: 1, maxPinnedBlocks: 4 });
    const engine = new Engine({ numBlocks: 9, executor, ...tiers, loadFailurePolicy: 'recompute' });
    engines.push(engine);
    engine.run();
    const ask = async (first: number, maxTokens = 4) => {
      const { tokens, numCachedTokens } = await engine
        .submit({ prompt: prompt(first), maxTokens, ignoreEos: true })
        .result();
      return { tokens: [...tokens], cached: numCachedTokens };
    };
    return { engine, executor, tiers, ask };
  }

  it('wait for their step, and are made in the order of the steps', async () => {
    const { executor, saved } = await make();
    await compute(executor);
    expect(await saved.save()).toBe(Verdict.ok);
    const { back, queue } = saved;
    const late = back.submit(one(0), one(4), 7);
    const early = back.submit(one(1), one(5), 3);
    expect(back.counts()).toEqual({ pending: 2, waiting: 2, bytes: 0, copies: 0 });
    for (let k = 0; k < 20; k++) await turn();
    expect(queue.drain(() => {})).toBe(0);
    back.settle(3);
    expect(await saved.end(early)).toBe(Verdict.ok);
    expect(back.counts()).toMatchObject({ pending: 1, waiting: 1, copies: 1 });
    back.settle(2);
    back.settle(9);
    expect(await saved.end(late)).toBe(Verdict.ok);
    expect(back.counts()).toMatchObject({ pending: 0, copies: 2, bytes: 2 * executor.kv.bytesPerBlock });
    expect(back.submit(one(0), one(4), 9)).toBeGreaterThan(late);
  });

  it('are cancelled before they begin, by cancel, flush, fence and dispose', async () => {
    const { executor, saved } = await make();
    await compute(executor);
    const { out, back } = saved;
    expect(await saved.save()).toBe(Verdict.ok);
    const cancelled = out.submit(one(1), one(3));
    expect(out.cancel(cancelled)).toBe(true);
    expect(out.cancel(cancelled)).toBe(false);
    expect(back.cancel(cancelled)).toBe(false);
    expect(await saved.end(cancelled)).toBe(Verdict.cancelled);
    const waiting = back.submit(one(1), one(4), 5);
    expect(() => back.flush(one(waiting))).toThrow(/waits for a step/);
    expect(back.cancel(waiting)).toBe(true);
    const flushed = out.submit(one(1), one(3));
    out.flush(one(flushed));
    const fenced = [back.submit(one(1), one(4), 6), back.submit(one(0), one(5))];
    back.fence();
    const ends: Verdict[] = [];
    saved.queue.drain((_, verdict) => ends.push(verdict));
    expect(ends).toEqual([Verdict.cancelled, Verdict.cancelled, Verdict.cancelled, Verdict.cancelled]);
    expect(fenced.length + ends.length).toBe(6);
    expect(executor.kv.stats()).toMatchObject({ saved: 3, loaded: 0 });
    out.dispose();
    out.dispose();
    expect(() => out.submit(one(1), one(3))).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_DISPOSED' }),
    );
    expect(() => out.counts()).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_DISPOSED' }));
  });

  it('are waited for once they have begun', async () => {
    const { executor, saved } = await make();
    await compute(executor);
    for (let k = 0; k < 50; k++) {
      const job =
        k % 2 === 0 ? saved.out.submit(BLOCKS, PLACES) : saved.back.submit(PLACES, Int32Array.of(4, 5, 6));
      for (let wait = 0; wait < k % 5; wait++) await turn();
      if (k % 3 === 0) saved.out.fence();
      else saved.out.flush(one(job));
      if (k % 3 === 1) saved.back.fence();
      if (k % 2 === 1 && k % 3 !== 1) await saved.end(job);
      else {
        const ends: number[] = [];
        saved.queue.drain((ended) => ends.push(ended));
        // Whether the job had begun or not, it is over at once.
        expect(ends, `round ${k}`).toEqual([job]);
      }
    }
    expect(await saved.save()).toBe(Verdict.ok);
  });

  it('end with the executor', async () => {
    const { executor, saved } = await make();
    await compute(executor);
    const jobs = [saved.out.submit(BLOCKS, PLACES), saved.back.submit(one(0), one(4), 3)];
    await turn();
    executor.dispose();
    expect(await saved.end(jobs[0])).not.toBe(undefined);
    saved.back.fence();
    expect(await saved.end(jobs[1])).toBe(Verdict.cancelled);
    expect(await saved.end(saved.out.submit(one(1), one(1)))).toBe(Verdict.cancelled);
  });

  it('are shared by requests with the same prefix', async () => {
    const { engine, executor, ask } = await engineWith();
    const { tokens } = await ask(0);
    for (const other of [1, 2, 3]) await ask(other);
    const before = executor.kv.stats().loaded;
    const shared = prompt(0);
    const twice = [shared, Int32Array.from([...shared.subarray(0, 50), 9, 9])].map((each) =>
      engine.submit({ prompt: each, maxTokens: 4, ignoreEos: true }).result(),
    );
    const [first, second] = await Promise.all(twice);
    expect([...first.tokens]).toEqual(tokens);
    expect([first.numCachedTokens, second.numCachedTokens]).toEqual([48, 48]);
    expect(executor.kv.stats().loaded - before).toBe(3);
    expect(executor.stats().recomputed).toBe(0);
  });

  it('survive the abort of their request at any moment', async () => {
    const { engine, ask } = await engineWith();
    const texts = [];
    for (const first of [0, 1, 2, 3]) texts.push((await ask(first)).tokens);
    for (let k = 0; k < 40; k++) {
      const stream = engine.submit({ prompt: prompt(k % 4), maxTokens: 4, ignoreEos: true });
      for (let wait = 0; wait < k % 9; wait++) await turn();
      stream.abort();
      await stream.result().catch(() => null);
      if (k % 5 === 0) expect((await ask((k + 1) % 4)).tokens).toEqual(texts[(k + 1) % 4]);
    }
    for (const [first, text] of texts.entries()) expect((await ask(first)).tokens).toEqual(text);
  });

  it('are not made of what a failed step computed', async () => {
    let fails = false;
    const { executor, tiers, ask } = await engineWith((context) => {
      const compute = context.compute.bind(context);
      Object.defineProperty(context, 'compute', {
        value: async (...given: Parameters<NativeContext['compute']>) => {
          const answer = await compute(...given);
          return fails ? { ...answer, callsDone: 0, failure: 'planted' } : answer;
        },
      });
      return context;
    });
    fails = true;
    await expect(ask(0)).rejects.toThrow(/planted/);
    fails = false;
    const { tokens } = await ask(1);
    expect(executor.kv.stats().saved).toBe(3);
    expect(tiers.connector.stats().host.blocks).toBe(3);
    expect((await ask(0)).cached).toBe(0);
    expect((await ask(1)).tokens).toEqual(tokens);
  });

  it('cost a recomputed prompt if llama.cpp fails to make them', async () => {
    let fails = false;
    const { executor, ask } = await engineWith((context) => {
      const copy = context.copy.bind(context);
      Object.defineProperty(context, 'copy', {
        value: async (...given: Parameters<NativeContext['copy']>) => {
          // The blocks are not loaded: the moves and saves are made alone.
          if (!fails) return copy(...given);
          const kept: number[] = [];
          let loads = 0;
          for (let at = 0; at < given[1]; at += 5) {
            const move = given[0].subarray(at, at + 5);
            if (move[0] === 3) loads++;
            else kept.push(...move);
          }
          const { ends, failure } = await copy(Int32Array.from(kept), kept.length);
          return { ends: Int32Array.from([...ends, ...new Array(loads).fill(8)]), failure };
        },
      });
      return context;
    });
    const { tokens } = await ask(0);
    for (const other of [1, 2, 3]) await ask(other);
    fails = true;
    expect(await ask(0)).toEqual({ tokens, cached: 0 });
    expect(executor.kv.stats().refused.llama).toBe(3);
    expect(executor.kv.stats().loaded).toBe(0);
    fails = false;
    for (const other of [1, 2, 3]) await ask(other);
    expect(await ask(0)).toEqual({ tokens, cached: 48 });
  });

  it('break the executor if cells cannot be moved', async () => {
    let fails = false;
    const { ask } = await engineWith((context) => {
      const copy = context.copy.bind(context);
      Object.defineProperty(context, 'copy', {
        value: async (...given: Parameters<NativeContext['copy']>) => {
          const copies = await copy(...given);
          return fails ? { ...copies, failure: 'planted' } : copies;
        },
      });
      return context;
    });
    await ask(0);
    fails = true;
    await expect(ask(1).then(() => ask(2))).rejects.toThrow(/executor|planted/);
  });
});
