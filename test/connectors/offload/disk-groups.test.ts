// The disk tier of models with several KV cache groups: hits, reads, random lives.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../../src/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { share, thinned } from '../../support/share.js';
import { liveOverDisk } from './disk-life.js';
import { OffloadBench, SEED } from './support.js';

/** The disk tier of models with KV cache groups. */

const root = mkdtempSync(join(tmpdir(), 'blockstep-offload-groups-'));
let count = 0;
const directory = (): string => join(root, String(count++));

afterAll(() => rmSync(root, { recursive: true, force: true }));

const SIZES: readonly KvGroupOptions[] = [
  { type: 'full', blockSize: 16 },
  { type: 'sliding', blockSize: 4, window: 11 },
  { type: 'sliding', blockSize: 8, window: 3 },
];
const WINDOW: readonly KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 6 }];
const SHAPES: Readonly<Record<string, readonly KvGroupOptions[]>> = {
  'a window': WINDOW,
  'a window alone': [{ type: 'sliding', window: 9 }],
  'blocks of several sizes': SIZES,
  'states at the ends of blocks': [{ type: 'full' }, { type: 'mamba', mode: 'all' }],
  chunks: [{ type: 'full' }, { type: 'chunked', chunk: 12 }],
};
const PROMPT = wordy(50, 1);
const TEXT = unpagedText(PROMPT, 6, { seed: SEED });

interface With {
  readonly numRanks?: number;
  readonly hostBlocks?: number;
  readonly model?: string;
  /** Tokens of a step: blocks that a window passes within one step are not stored. Default 48. */
  readonly budget?: number;
}

function bench(path: string, kvGroups: readonly KvGroupOptions[], { model = 'm', ...more }: With = {}) {
  const { numRanks = 1, hostBlocks = 200, budget = 48 } = more;
  return new OffloadBench({
    numRanks,
    engine: { kvGroups: [...kvGroups], numBlocks: 200, maxNumBatchedTokens: budget },
    offload: { hostBlocks, disk: { path, model, budgetMs: 1e6 } },
  });
}

async function ask(on: OffloadBench): Promise<void> {
  const { tokens } = await on.serve({ prompt: PROMPT, maxTokens: 6 });
  expect([...tokens]).toEqual(TEXT);
  await on.restDisk();
  expect(on.executor.faults).toEqual([]);
  expect(on.leftovers()).toEqual([]);
}

/** The prompt of an engine that was here before. @returns blocks that it left on disk */
async function earlier(path: string, kvGroups: readonly KvGroupOptions[], more: With = {}): Promise<number> {
  const first = bench(path, kvGroups, more);
  // Blocks are written to disk when a request asks for them a second time.
  for (let i = 0; i < 2; i++) await ask(first);
  const written = first.connector.stats().disk?.writtenBlocks ?? 0;
  await first.close();
  return written;
}

describe('the disk tier of several KV cache groups', () => {
  it.each(
    thinned(Object.entries(SHAPES), 2).flatMap(([name, groups], i) =>
      share([1 + (i % 2)], [1 + (i % 2)], [1, 2]).map((ranks) => ({ name, groups, ranks })),
    ),
  )('survives a restart: $name, $ranks ranks', async ({ groups, ranks: numRanks }) => {
    const path = directory();
    await earlier(path, groups, { numRanks });
    const second = bench(path, groups, { numRanks });
    const { alignment } = second.engine.scheduler.config.kvGroups ?? { alignment: 1 };
    await ask(second);
    const { host, disk } = second.connector.stats();
    expect(host.hitTokens).toBe(alignment * Math.floor((PROMPT.length - 1) / alignment));
    expect(disk).toMatchObject({ lookups: 1, hits: 1, readBlocks: host.loads.blocks });
    await second.close();
  });

  it('reads what the match needs, and nothing of the windows before', async () => {
    const path = directory();
    const written = await earlier(path, SIZES);
    const second = bench(path, SIZES);
    await ask(second);
    // 48 tokens: 3 blocks of 16; of 4 tokens the last 3, of 8 tokens the last one.
    expect(second.connector.stats().disk).toMatchObject({ readBlocks: 3 + 3 + 1 });
    expect(written).toBeGreaterThan(3 + 3 + 1);
    await second.close();
  });

  const others = [
    ['other groups', [{ type: 'full' }, { type: 'sliding', window: 7 }], 'm'],
    ['one group', [{ type: 'full' }], 'm'],
    ['another model', WINDOW, 'n'],
  ] as const;
  it.each(thinned(others, 1))('finds nothing of an engine with %s', async (_, groups, model) => {
    const path = directory();
    await earlier(path, WINDOW);
    const second = bench(path, groups, { model });
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 0, readBlocks: 0 });
    await second.close();
  });

  it('finds nothing of before a reset', async () => {
    const path = directory();
    const first = bench(path, WINDOW);
    for (let i = 0; i < 2; i++) await ask(first);
    expect(first.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true });
    await first.close();
    const second = bench(path, WINDOW);
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 0 });
    await second.close();
  });

  it('is not asked where nothing can be loaded', async () => {
    const path = directory();
    const align: readonly KvGroupOptions[] = [{ type: 'full' }, { type: 'mamba', mode: 'align' }];
    expect(await earlier(path, align)).toBe(0);
    const second = bench(path, align);
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ lookups: 0 });
    await second.close();
  });

  it('takes what only one rank has for nothing', async () => {
    const path = directory();
    await earlier(path, WINDOW, { numRanks: 2 });
    rmSync(join(path, 'rank-1'), { recursive: true });
    const second = bench(path, WINDOW, { numRanks: 2 });
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ lookups: 1, hits: 0, readBlocks: 0 });
    await second.close();
  });

  it('brings back a shorter match where there is no room for the longest', async () => {
    const path = directory();
    await earlier(path, WINDOW, { budget: 8 });
    // Half of the tier may be read at once: 10 blocks. So 40 tokens are looked for; they need 10 blocks and 2 of the window, and half as many 5 and 2.
    const second = bench(path, WINDOW, { hostBlocks: 20 });
    await ask(second);
    const { host, disk } = second.connector.stats();
    expect([host.hitTokens, disk?.readBlocks]).toEqual([20, 7]);
    await second.close();
  });

  it('goes on from what the host tier has', async () => {
    const path = directory();
    await earlier(path, WINDOW);
    const second = bench(path, WINDOW);
    const short = PROMPT.slice(0, 21);
    await second.serve({ prompt: short, maxTokens: 1 });
    await second.restDisk();
    second.engine.resetPrefixCache();
    const before = second.connector.stats();
    await ask(second);
    const { host, disk } = second.connector.stats();
    expect(host.hitTokens - before.host.hitTokens).toBe(48);
    // 12 blocks, of which 5 were there; and the 2 of the window.
    expect((disk?.readBlocks ?? 0) - (before.disk?.readBlocks ?? 0)).toBe(12 - 5 + 2);
    // Now all is in the host tier, and the disk is not asked again.
    second.engine.resetPrefixCache();
    await ask(second);
    expect(second.connector.stats().disk?.lookups).toBe(disk?.lookups);
    await second.close();
  });

  it('an engine that ends in the middle leaves nothing that is wrong', async () => {
    const path = directory();
    for (let rounds = 1; rounds <= 12; rounds += share(6, 4, 1)) {
      const on = bench(path, SIZES);
      on.submit({ prompt: PROMPT, maxTokens: 6 })
        .result()
        .catch(() => {});
      for (let i = 0; i < rounds; i++) {
        on.engine.step();
        await on.compute();
        on.copyAll();
      }
      await on.close();
    }
    const last = bench(path, SIZES);
    await ask(last);
    await last.close();
  });

  it.each(
    thinned(
      Object.entries(SHAPES).map(([name, groups], i) => ({
        name,
        groups,
        pipelineDepth: (1 + (i % 3)) as 1 | 2 | 3,
      })),
      2,
      1,
    ),
  )(
    'gives the texts of an unlimited pool: $name, depth $pipelineDepth',
    async ({ groups, pipelineDepth }) => {
      await liveOverDisk(directory(), 3, { pipelineDepth, kvGroups: [...groups], numBlocks: 34 });
    },
  );
});
