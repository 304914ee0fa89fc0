// A thread over a file.
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { done, there } from './support/drive.js';

const { done: DONE, missing: MISSING } = Outcome;

function embedded(maxBytes = 2 ** 24, folder = temporaryFolder()) {
  const staging = BlockArena.allocate({ numBlocks: 16, bytesPerBlock: 4096 });
  const thread = new StoreThread({
    store: { path: join(folder, 'kv.slots'), maxBytes },
    staging,
    timeoutMs: 20_000,
  });
  onTestFinished(async () => {
    await thread.close();
    staging.dispose();
  });
  return { folder, staging, thread };
}

test('what was put is found and read, byte by byte, also by a later thread', async () => {
  const { folder, staging, thread } = embedded();
  for (let i = 0; i < 4; i++) staging.block(i).fill(i + 1);
  expect(await done(thread, 'put', ['a', 'b', 'c', 'd'], [0, 1, 2, 3])).toEqual([DONE, DONE, DONE, DONE]);
  expect(await there(thread, ['a', 'x', 'd'])).toEqual([DONE, MISSING, DONE]);
  expect(await done(thread, 'get', ['d', 'y', 'a'], [8, 9, 10])).toEqual([DONE, MISSING, DONE]);
  expect(staging.block(8)).toEqual(staging.block(3));
  expect(staging.block(9).every((byte) => byte === 0)).toBe(true);
  expect(staging.block(10)).toEqual(staging.block(0));
  await thread.close();
  const later = embedded(2 ** 24, folder);
  expect(await done(later.thread, 'get', ['b'], [5])).toEqual([DONE]);
  expect(later.staging.block(5).every((byte) => byte === 2)).toBe(true);
  expect(later.thread.stats()).toMatchObject({ state: 'up', hits: 1, misses: 0, failures: 0, deaths: 0 });
});
