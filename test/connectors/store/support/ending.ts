/**
 * A process that stores values in a file of slots without a pause, until it ends in one of several ways: `ending.ts FILE WAY`. It writes
 * `stores` when the first values are in the file and others are on their way.
 */

import { once } from 'node:events';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { startThread } from '../../../../src/base/scripts/script-file.js';
import { StoreThread } from '../../../../src/connectors/store/client/store-thread.js';
import { BlockArena } from '../../../../src/transfer/block-arena.js';

const path = isMainThread ? process.argv[2] : (workerData as string);

/** Puts values, one job behind the other. @param stored called when the first ones are in the file */
function work(stored: () => void): void {
  const staging = BlockArena.allocate({ numBlocks: 64, bytesPerBlock: 65_536 });
  const thread = new StoreThread({ store: { path, maxBytes: 2 ** 23 }, staging, timeoutMs: 60_000 });
  const places = Int32Array.from({ length: 64 }, (_, i) => i);
  let round = 0;
  let isFree = true;
  setInterval(() => {
    thread.drain();
    if (!isFree) return;
    isFree = false;
    round++;
    const keys = Array.from(places, (i) => `k${(64 * round + i) % 200}`);
    thread.put(
      keys,
      places,
      () => {},
      () => {
        isFree = true;
        if (round === 1) stored();
      },
    );
  }, 1);
}

/** Says that values are on their way, at some moment of their writing: the file is written almost all the time. */
async function begun(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
  console.log('stores');
}

if (!isMainThread) work(() => parentPort!.postMessage('stored'));
else {
  const way = process.argv[3];
  if (way === 'worker' || way === 'worker-exit') {
    const worker = startThread(import.meta.url, 'ending', { workerData: path });
    worker.ref();
    await once(worker, 'message');
    await begun();
    if (way === 'worker-exit') process.exit(7);
    await worker.terminate();
    process.exitCode = 7;
  } else {
    await new Promise<void>((stored) => work(stored));
    await begun();
    if (way === 'exit') process.exit(7);
    if (way === 'throw')
      setImmediate(() => {
        throw new Error('seven');
      });
  }
}
