// A served model keeps KV beyond its cache, on disk over a restart.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeRandomModel } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { serveModel } from './served-model.js';

const PROMPTS = ['a', 'b', 'c', 'd'].map((letter) =>
  Array.from({ length: 40 }, (_, i) => `${letter} ${i}`).join(' '),
);

/** Servers that are started one after another over the same folder, at most. */
const MOST_STARTS = 8;

interface Answer {
  readonly choices: readonly { readonly text: string }[];
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
}

const cachedTokens = ({ usage }: Answer): number => usage.prompt_tokens_details.cached_tokens;

describe.skipIf(llamaForTests().folder === null)('blockstep serve --kv-offloading-path', () => {
  it('finds the KV of a prefix after a restart, and answers the same', async () => {
    const folder = temporaryFolder();
    const model = join(folder, 'my-model.gguf');
    writeRandomModel(model);
    const tier = join(folder, 'kv');
    const flags = ['--threads', '1', '--kv-offloading-size', '0.05', '--kv-offloading-path', tier];
    const complete = async (served: Awaited<ReturnType<typeof serveModel>>, prompt: string) =>
      (await served.ask('/v1/completions', { prompt, max_tokens: 12, temperature: 0 })) as Answer;
    const texts: string[] = [];
    // The server does not wait for a disk that is slower than computing. On a busy machine more than
    // one restart may be needed until a prefix was written and read in time.
    let mostCached = 0;
    for (let start = 0; start < MOST_STARTS && mostCached <= 64; start++) {
      const served = await serveModel(model, ...flags);
      expect(served.said.stdout).toContain(
        `KV beyond the cache: 51 MiB of host memory, and prefixes that come again on disk in ${tier}.`,
      );
      for (const [i, prompt] of PROMPTS.entries()) {
        const answer = await complete(served, prompt);
        texts[i] ??= answer.choices[0].text;
        expect(answer.choices[0].text).toBe(texts[i]);
        if (start === 0) expect(cachedTokens(answer)).toBe(0);
        mostCached = Math.max(mostCached, cachedTokens(answer));
        expect(cachedTokens(await complete(served, prompt))).toBeGreaterThan(64);
      }
      // The last blocks are written with later steps.
      for (let k = 0; k < 5; k++) await complete(served, `Another text ${k}`);
      served.child.kill('SIGTERM');
      expect(await served.ended).toEqual([0, null]);
    }
    expect(mostCached).toBeGreaterThan(64);
    // The tier belongs to one server.
    await serveModel(model, ...flags);
    const other = await serveModel(model, ...flags);
    expect(await other.ended).toEqual([2, null]);
    expect(other.said.stderr).toContain('another engine has it open');
  });

  it('refuses models whose KV cannot be cut into blocks', async () => {
    const folder = temporaryFolder();
    const model = join(folder, 'my-model.gguf');
    for (const [architecture, why] of [
      ['gemma3', 'sliding window'],
      ['mamba', 'states'],
    ] as const) {
      writeRandomModel(model, { architecture });
      const { ended, said } = await serveModel(model, '--kv-offloading-size', '0.1');
      expect(await ended).toEqual([2, null]);
      expect(said.stderr).toContain(why);
    }
  });
});
