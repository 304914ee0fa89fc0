/**
 * A process that stores values in a file of LMDB without a pause, until it ends in one of several ways: `ending.ts FILE WAY`. It writes
 * `store PID` when values are on their way, with the process of the file.
 */

import { isMainThread, workerData } from 'node:worker_threads';
import { startThread } from '../../../../src/connectors/base/script-file.js';
import { StoreThread } from '../../../../src/connectors/store/client/store-thread.js';
import { BlockArena } from '../../../../src/transfer/block-arena.js';
import { childrenOf } from './children.js';

const path = isMainThread ? process.argv[2] : (workerData as string);

/** Puts values, one job behind the other. */
function work(): void {
  const staging = BlockArena.allocate({ numBlocks: 64, bytesPerBlock: 65_536 });
  const thread = new StoreThread({ store: { path, maxBytes: 2 ** 24 }, staging, timeoutMs: 60_000 });
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
      },
    );
  }, 1);
}

/** Waits until the file has a process, and values are on their way to it. */
async function begun(): Promise<void> {
  let pids: number[] = [];
  while (pids.length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    pids = childrenOf(process.pid);
  }
  // Opening the file takes a while, and then it is written almost all the time.
  await new Promise((resolve) => setTimeout(resolve, 400 + Math.random() * 50));
  console.log(`store ${pids[0]}`);
}

if (!isMainThread) work();
else {
  const way = process.argv[3];
  if (way === 'worker' || way === 'worker-exit') {
    const worker = startThread(import.meta.url, 'ending', { workerData: path });
    worker.ref();
    await begun();
    if (way === 'worker-exit') process.exit(7);
    await worker.terminate();
    process.exitCode = 7;
  } else {
    work();
    await begun();
    if (way === 'exit') process.exit(7);
    if (way === 'throw')
      setImmediate(() => {
        throw new Error('seven');
      });
  }
}
