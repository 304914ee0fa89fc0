// An engine's process ends in the middle of a write, in every way; the users of a file share a
// thread.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { unseal } from '../../../src/connectors/store/stores/sealed-value.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { share, thinned } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { until } from '../../support/waiting.js';
import { done, there } from './support/drive.js';
import { openSlots } from './support/slots.js';

const ENDING = scriptArguments(import.meta.url, 'support/ending');
/** How often each end is tried: the thread is not always in the middle of a write. */
const TIMES = share(1, 1, 3);
const KEYS = Array.from({ length: 200 }, (_, i) => `k${i}`);

/** Starts a process that stores values, and waits until it does. */
async function storing(path: string, way: string) {
  const child = spawn(process.execPath, [...ENDING, path, way], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let [said, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>;
  await until(
    () => said.includes('stores'),
    () => `values on their way: ${said} ${errors}`,
  );
  return { child, exit };
}

describe('an engine that ends in the middle of a write', () => {
  it.each(
    thinned(
      [
        ['exit', [7, null]],
        ['throw', [1, null]],
        ['worker-exit', [7, null]],
        ['worker', [7, null]],
      ] as const,
      2,
    ),
  )('ends at once (%s), and leaves a file that can be used', async (way, end) => {
    const path = join(temporaryFolder(), 'kv.slots');
    for (let i = 0; i < TIMES; i++) {
      const { exit } = await storing(path, way);
      expect(await exit).toEqual(end);
      const slots = openSlots(path, 2 ** 23);
      expect([...(await slots.store.has(KEYS))]).toContain(Outcome.done);
      let good = 0;
      await slots.store.get(KEYS, (at, value) => {
        if (value !== null && unseal(KEYS[at], value, 65_536) !== null) good++;
      });
      expect(good).toBeGreaterThan(0);
      slots.close();
    }
  });
});

describe('threads of one file', () => {
  it('are one thread, which goes on while one of its users is left', async () => {
    const path = join(temporaryFolder(), 'kv.slots');
    const staging = BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 512 });
    const open = (): StoreThread => new StoreThread({ store: { path }, staging, timeoutMs: 60_000 });
    const [one, two] = [open(), open()];
    staging.block(0).fill(7);
    expect(await done(one, 'put', ['a'], [0])).toEqual([Outcome.done]);
    expect(await there(two, ['a'])).toEqual([Outcome.done]);
    await one.close();
    expect(await there(one, ['a'])).toEqual([Outcome.failed]);
    expect(await done(two, 'get', ['a'], [1])).toEqual([Outcome.done]);
    expect(staging.block(1)).toEqual(staging.block(0));
    const three = open();
    expect(await there(three, ['a'])).toEqual([Outcome.done]);
    // A user that comes while the last users end gets a thread of its own.
    const ends = [two.close(), three.close()];
    const four = open();
    expect(await there(four, ['a'])).toEqual([Outcome.done]);
    await Promise.all([...ends, four.close()]);
    for (const thread of [two, three, four]) expect(thread.stats().deaths).toBe(0);
    // However many users come and go.
    const warnings: Error[] = [];
    const warned = (warning: Error): void => void warnings.push(warning);
    process.on('warning', warned);
    const many = Array.from({ length: 20 }, open);
    for (const thread of many) expect(await there(thread, ['a'])).toEqual([Outcome.done]);
    await Promise.all(many.map((thread) => thread.close()));
    process.off('warning', warned);
    expect(warnings.map(String)).toEqual([]);
    const slots = openSlots(path);
    expect([...(await slots.store.has(['a']))]).toEqual([Outcome.done]);
    slots.close();
  });
});
