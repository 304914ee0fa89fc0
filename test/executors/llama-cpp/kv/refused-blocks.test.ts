// Saved blocks that an executor must not load: of another model, build, cache or size, and damaged ones.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import type { RefusedCopy } from '../../../../src/executors/llama-cpp/kv/copy-ends.js';
import type { LlamaExecutor } from '../../../../src/executors/llama-cpp/llama-executor.js';
import type { LlamaExecutorOptions } from '../../../../src/executors/llama-cpp/llama-options.js';
import { openLlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import { BlockArena } from '../../../../src/transfer/block-arena.js';
import { CompletionQueue } from '../../../../src/transfer/completion-queue.js';
import { Verdict } from '../../../../src/transfer/verdict.js';
import { writeRandomLora } from '../../../support/gguf/random-lora.js';
import { share } from '../../../support/share.js';
import { useTempFiles } from '../../../support/temp-file.js';
import { hasLlama, libraryFolder, useLlama } from '../use-llama.js';
import { BLOCKS, compute, executorFor, PLACES, PROMPT, Saved } from './saved-blocks.js';

/** Bytes of a header: magic number, five hashes, place and length, checksum. */
const HEADER = 64;
const FIELDS: readonly RefusedCopy[] = ['library', 'model', 'adapters', 'cache', 'shape'];

describe.skipIf(!hasLlama)('saved blocks of llama.cpp', () => {
  const use = useLlama();
  const write = useTempFiles();
  const executors: LlamaExecutor[] = [];
  let own: LlamaExecutor;
  let saved: Saved;
  let text: number[];

  const make = async (options: Parameters<typeof executorFor>[0]): Promise<LlamaExecutor> => {
    const executor = await executorFor(options);
    executors.push(executor);
    return executor;
  };

  beforeAll(async () => {
    own = await make({ model: await use.model() });
    text = await compute(own);
    saved = new Saved(own.kv);
    expect(await saved.save()).toBe(Verdict.ok);
  });
  afterAll(() => {
    saved.dispose();
    for (const executor of executors) executor.dispose();
  });

  /** Loads the saved bytes, maybe changed, in an executor. @returns the verdict, and the reasons that were counted */
  async function load(executor: LlamaExecutor, change: (bytes: Uint8Array) => void = () => {}) {
    const other = new Saved(executor.kv, 4);
    const before = executor.kv.stats();
    for (const place of PLACES) {
      const bytes = saved.arena.readBlock(place);
      const taken = new Uint8Array(executor.kv.bytesPerBlock);
      taken.set(bytes.subarray(0, taken.length));
      if (place === 1) change(taken);
      other.arena.writeBlock(place, taken);
    }
    const verdict = await other.load();
    other.dispose();
    const after = executor.kv.stats();
    const reasons = Object.entries(after.refused).filter(
      ([name, count]) => count > before.refused[name as RefusedCopy],
    );
    return { verdict, reasons: reasons.map(([name]) => name), loaded: after.loaded - before.loaded };
  }

  const refused = (...reasons: string[]) =>
    expect.objectContaining({ verdict: Verdict.failed, reasons: expect.arrayContaining(reasons) });

  it('are loaded by an executor with the same model, cache and block size, whatever its pool', async () => {
    expect(await load(own)).toEqual({ verdict: Verdict.ok, reasons: [], loaded: 3 });
    // The same bytes in another file, in an engine of another size.
    const again = await openLlamaModel({ path: use.path(), libraryFolder: libraryFolder() });
    const other = await make({ model: again, numBlocks: 65, maxNumSeqs: 2 });
    expect(other.kv.origin).toBe(own.kv.origin);
    expect(await load(other)).toEqual({ verdict: Verdict.ok, reasons: [], loaded: 3 });
    expect(other.stats().cells).toBe(48);
    again.dispose();
  });

  it.each<[RefusedCopy, string, () => Promise<Partial<LlamaExecutorOptions>>]>([
    ['model', 'other weights', async () => ({ model: await use.model({ seed: 2 }) })],
    ['model', 'other layers', async () => ({ model: await use.model({ layers: 2 }) })],
    ['adapters', 'an adapter', async () => ({ model: await withLora(1) })],
    ['cache', 'a cache of another type', async () => ({ cacheType: 'f16' })],
    ['cache', 'flash attention', async () => ({ flashAttention: 'on' })],
    ['shape', 'another block size', async () => ({ blockSize: 8, numBlocks: 66 })],
  ])('are refused for %s: %s', async (reason, _, options) => {
    const other = await make({ model: await use.model(), ...(await options()) });
    expect((await load(other)).reasons).toContain(reason);
    expect(other.kv.stats().refused).toMatchObject({ llama: 0, damaged: 0 });
    // Nothing of it is left.
    if (reason !== 'shape') expect(other.stats().cells).toBe(0);
  });

  it('are refused behind the end of the longest text', async () => {
    const long = Int32Array.from({ length: 100 }, (_, i) => 5 + ((i * 17) % 300));
    await compute(own, long);
    const sixth = new Saved(own.kv, 1);
    // Its first blocks have other ids than the prompt's.
    const ids = Int32Array.from({ length: 32 }, (_, i) => i + 1);
    const places: number[] = [];
    for (const id of ids) {
      if ((await sixth.save(Int32Array.of(id), Int32Array.of(0))) !== Verdict.ok) continue;
      const short = await make({ model: await use.model(), maxModelLen: 10 });
      const other = new Saved(short.kv, 1);
      other.arena.writeBlock(0, sixth.arena.readBlock(0));
      const verdict = await other.load(Int32Array.of(0), Int32Array.of(1));
      // The position follows the magic number and the hashes.
      const place = new DataView(sixth.arena.readBlock(0).buffer).getInt32(48, true) / 16;
      places.push(place);
      expect(verdict).toBe(place < 3 ? Verdict.ok : Verdict.failed);
      expect(short.kv.stats().refused.shape).toBe(place < 3 ? 0 : 1);
      other.dispose();
    }
    sixth.dispose();
    expect(places).toEqual(expect.arrayContaining([0, 1, 2, 3, 4, 5]));
  });

  async function withLora(seed: number) {
    const path = write(`${seed}.lora`, '');
    writeRandomLora(path, { seed });
    const loras = { poems: path };
    const model = await openLlamaModel({ path: use.path(), loras, libraryFolder: libraryFolder() });
    onTestFinished(() => model.dispose());
    return model;
  }

  it('name the content of an adapter, and not only its name', async () => {
    const origins = new Set<string>([own.kv.origin]);
    for (const seed of [1, 2]) origins.add((await make({ model: await withLora(seed) })).kv.origin);
    expect(origins.size).toBe(3);
  });

  it.each(FIELDS.map((name, i) => [name, i] as const))(
    'are refused if their %s is another',
    async (name, i) => {
      const end = await load(own, (bytes) => {
        bytes[8 + 8 * i] ^= 1;
      });
      expect(end).toEqual(refused(name));
    },
  );

  it('are refused with any bit of the header changed', async () => {
    for (let bit = 0; bit < 8 * HEADER; bit += share(7, 3, 1)) {
      const end = await load(own, (bytes) => {
        bytes[bit >> 3] ^= 1 << (bit & 7);
      });
      if (end.verdict !== Verdict.failed) throw new Error(`bit ${bit}: ${JSON.stringify(end)}`);
    }
    expect(own.kv.stats().refused.llama).toBe(0);
  });

  it('are refused with any bit behind it changed', async () => {
    const random = new Random(1);
    const numBits = 8 * (own.kv.bytesPerBlock - HEADER);
    const bits = [0, 1, numBits - 1, ...Array.from({ length: share(40, 200) }, () => random.below(numBits))];
    for (const bit of bits) {
      const end = await load(own, (bytes) => {
        bytes[HEADER + (bit >> 3)] ^= 1 << (bit & 7);
      });
      expect(end, `bit ${bit}`).toEqual(refused('damaged'));
    }
    // llama.cpp had none of them.
    expect(own.kv.stats().refused.llama).toBe(0);
  });

  it('are refused if they are cut off, empty, zeros or random', async () => {
    const random = new Random(2);
    const noise = (bytes: Uint8Array): void => {
      for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
    };
    expect(await load(own, (bytes) => bytes.fill(0, bytes.length - 1))).toEqual(refused('damaged'));
    expect(await load(own, (bytes) => bytes.fill(0, bytes.length >> 1))).toEqual(refused('damaged'));
    expect(await load(own, (bytes) => bytes.fill(0, HEADER))).toEqual(refused('damaged'));
    expect(await load(own, (bytes) => bytes.fill(0))).toEqual(refused('noBlock'));
    expect(await load(own, noise)).toEqual(refused('noBlock'));
    expect(await load(own, (bytes) => noise(bytes.subarray(HEADER)))).toEqual(refused('damaged'));
  });

  it('leave the executor as it was, whatever came of them', async () => {
    expect(await compute(own)).toEqual(text);
    expect(
      await compute(
        own,
        PROMPT.map((token) => token + 1),
      ),
    ).toHaveLength(4);
    expect(await load(own)).toEqual({ verdict: Verdict.ok, reasons: [], loaded: 3 });
  });

  it('are not made of blocks without cells', async () => {
    const fresh = await make({ model: await use.model() });
    const out = new Saved(fresh.kv);
    expect(await out.save()).toBe(Verdict.failed);
    expect(fresh.kv.stats()).toMatchObject({ saved: 0, refused: { gone: 1 } });
    // The bytes there are no block.
    expect(await out.load()).toBe(Verdict.failed);
    out.dispose();
  });

  it('are only of models whose cache can be cut into blocks', async () => {
    const bad = (message: RegExp) =>
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringMatching(message) });
    const window = await use.model({ architecture: 'gemma3', window: 24 });
    await expect(executorFor({ model: window })).rejects.toEqual(bad(/sliding window/));
    for (const architecture of ['mamba', 'lfm2'] as const) {
      const model = await use.model({ architecture });
      await expect(executorFor({ model })).rejects.toEqual(bad(/states/));
    }
    const model = await use.model();
    await expect(executorFor({ model, cachedSequences: 0 })).rejects.toEqual(bad(/cachedSequences/));
    await expect(executorFor({ model, kvTransfer: 1 as never })).rejects.toEqual(bad(/kvTransfer/));
    // All sequences of llama.cpp but the one for copies.
    await expect(executorFor({ model, maxNumSeqs: 255, cachedSequences: 1 })).rejects.toEqual(
      bad(/cachedSequences/),
    );
    const plain = await make({ model, kvTransfer: false });
    expect(() => plain.kv).toThrow(bad(/kvTransfer/));
  });

  it('go only to arenas of the host with blocks of their size', () => {
    const queue = new CompletionQueue();
    const bad = expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG' });
    const arena = BlockArena.allocate({ numBlocks: 2, bytesPerBlock: own.kv.bytesPerBlock + 1 });
    expect(() => own.kv.laneTo(queue, arena)).toThrow(bad);
    expect(() => own.kv.laneFrom(queue, {} as never)).toThrow(bad);
    expect(() => own.kv.laneTo({} as never, saved.arena)).toThrow(bad);
    const { out, back } = saved;
    expect(() => out.submit(Int32Array.of(1, 2), Int32Array.of(0))).toThrow(bad);
    expect(() => out.submit(Int32Array.of(33), Int32Array.of(0))).toThrow(bad);
    expect(() => out.submit(BLOCKS, Int32Array.of(0, 1, 8))).toThrow(bad);
    expect(() => back.submit(PLACES, Int32Array.of(1, 2, 1))).toThrow(bad);
    expect(() => back.submit(PLACES, Int32Array.of(1, 2, -1))).toThrow(bad);
    arena.dispose();
    queue.dispose();
  });
});
