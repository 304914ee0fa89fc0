// KV of llama.cpp on disk over a restart of the process: equal texts, and files that were changed meanwhile.
import { execFile } from 'node:child_process';
import { cpSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useCompiled } from '../../../misuse/process/compiled.js';
import { writeRandomLora } from '../../../support/gguf/random-lora.js';
import { writeRandomModel } from '../../../support/gguf/random-model.js';
import { isQuick, thinned } from '../../../support/share.js';
import { useTempFiles, useTempFolders } from '../../../support/temp-file.js';
import { hasLlama, libraryFolder } from '../use-llama.js';

const run = promisify(execFile);
/** A hang, and no machine that others use. */
const MOST_MS = 240_000;
const SHARED = Array.from({ length: 70 }, (_, i) => 5 + ((i * 29) % 300));
const OTHER = Array.from({ length: 60 }, (_, i) => 9 + ((i * 31) % 300));
/**
 * Two prompts with a beginning of 70 tokens, and one that is asked for twice. The disk keeps what was
 * asked for again.
 */
const PROMPTS = [[...SHARED, 7, 8, 9], [...SHARED, 200, 201], OTHER, OTHER];

/** Caches and kernels. The first one is tried always. */
const NUMBERS: readonly [string, Record<string, string>][] = [
  ['F16, our attention', { cacheType: 'f16', flashAttention: 'on' }],
  ['F32, flash attention off', { cacheType: 'f32', flashAttention: 'off' }],
  ['F32, our attention', { cacheType: 'f32', flashAttention: 'on' }],
  ["F32, llama.cpp's flash attention", { cacheType: 'f32', flashAttention: 'on', attention: 'llama' }],
  ["F16, llama.cpp's flash attention", { cacheType: 'f16', flashAttention: 'on', attention: 'llama' }],
  ['F16, flash attention off', { cacheType: 'f16', flashAttention: 'off' }],
  ['Q8_0, our attention', { cacheType: 'q8_0', flashAttention: 'on' }],
];

/** Cached tokens of an engine that finds the blocks on disk. */
const AGAIN = [64, 64, 48, 48];

interface Life {
  readonly texts: readonly (readonly number[])[];
  readonly cached: readonly number[];
  readonly kv: { saved: number; loaded: number; refused: Record<string, number> } | null;
  readonly kernel: string;
}

describe.skipIf(!hasLlama)('KV of llama.cpp on disk', { timeout: MOST_MS }, () => {
  const compiled = useCompiled();
  const write = useTempFiles();
  const makeFolder = useTempFolders(write);
  let numFiles = 0;

  function modelFile(seed = 1): string {
    const path = write(`${numFiles++}.gguf`, '');
    // Heads of 32 numbers, which Q8_0 needs.
    writeRandomModel(path, { seed, width: 128 });
    return path;
  }

  /** One life in a process of its own. */
  async function live(folder: string | null, options: Record<string, unknown> = {}): Promise<Life> {
    const settings = {
      ...{ path: '', loras: {}, attention: 'auto', cacheType: 'f32', flashAttention: 'off' },
      ...{ blockSize: 16, numBlocks: 33, prompts: PROMPTS, adapter: null },
      ...options,
      folder,
    };
    const { stdout, stderr } = await run(
      process.execPath,
      [join(import.meta.dirname, 'restart.mjs'), JSON.stringify(settings)],
      {
        env: { ...compiled.env, BLOCKSTEP_LLAMA_LIBRARY: libraryFolder() },
        timeout: MOST_MS - 5000,
      },
    );
    expect(stderr).toBe('');
    return JSON.parse(stdout) as Life;
  }

  const sum = (counts: Record<string, number> | undefined): number =>
    Object.values(counts ?? {}).reduce((all, count) => all + count, 0);

  it.each(thinned(NUMBERS, 1, 0, 7))('gives the same texts after a restart: %s', async (_, numbers) => {
    const options = { path: modelFile(), ...numbers };
    const folder = makeFolder();
    const without = await live(null, options);
    const first = await live(folder, options);
    const second = await live(folder, options);
    for (const life of [first, second]) expect(life.texts).toEqual(without.texts);
    expect('attention' in numbers ? second.kernel === 'llama' : true).toBe(true);
    expect(first.cached).toEqual([0, 64, 0, 48]);
    expect(second.cached).toEqual(AGAIN);
    expect(second.kv?.loaded).toBe(7);
    expect(sum(second.kv?.refused)).toBe(0);
  });

  // The blocks themselves are tried in `refused-blocks.test.ts`.
  it.skipIf(isQuick)('is not used by another model, cache, block size or adapter', async () => {
    const [path, folder] = [modelFile(), makeFolder()];
    const lora = (seed: number): string => {
      const file = write(`${numFiles++}.lora`, '');
      writeRandomLora(file, { seed }, { width: 128 });
      return file;
    };
    const [one, two] = [lora(1), lora(2)];
    const others = [
      { path: modelFile(2) },
      { path, cacheType: 'f16' },
      { path, blockSize: 8, numBlocks: 66 },
      // The name of an adapter that has become another.
      { path, loras: { poems: one }, adapter: 'poems' },
      { path, loras: { poems: two }, adapter: 'poems' },
    ];
    for (const options of others) {
      await live(folder, { path });
      const life = await live(folder, options);
      expect(life.cached[0]).toBe(0);
      expect(life.texts).toEqual((await live(null, options)).texts);
    }
  });

  it('costs hits alone if its file was changed', async () => {
    const [path, folder] = [modelFile(), makeFolder()];
    const file = join(folder, 'rank-0', 'blocks.slots');
    await live(folder, { path });
    const older = join(dirname(folder), 'older');
    cpSync(folder, older, { recursive: true });
    const right = await live(folder, { path });
    expect(right.cached).toEqual(AGAIN);
    const changes: readonly [string, () => void, cached?: readonly number[]][] = [
      ['empty', () => writeFileSync(file, '')],
      ['cut off', () => truncateSync(file, readFileSync(file).length >> 1)],
      [
        'flipped',
        () => {
          const bytes = readFileSync(file);
          for (let at = 5000; at < bytes.length; at += 997) bytes[at] ^= 1;
          writeFileSync(file, bytes);
        },
      ],
      ['zeros', () => writeFileSync(file, Buffer.alloc(readFileSync(file).length))],
      ['an older copy', () => cpSync(older, folder, { recursive: true }), AGAIN],
    ];
    for (const [name, change, cached] of thinned(changes, 1, 0, 3)) {
      cpSync(older, folder, { recursive: true });
      change();
      const life = await live(folder, { path });
      expect(life.texts, name).toEqual(right.texts);
      if (cached !== undefined) expect(life.cached, name).toEqual(cached);
    }
  });
});
