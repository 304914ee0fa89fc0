import { workerData } from 'node:worker_threads';
import { BlockArena } from '../../../transfer/block-arena.js';
import { ProcessStore } from '../embedded/process-store.js';
import type { BlockStore } from '../stores/block-store.js';
import { RedisStore } from '../stores/redis-store.js';
import {
  type AnswerMessage,
  type CloseMessage,
  type JobMessage,
  Posted,
  type ThreadData,
} from './messages.js';
import { StoreJobs } from './store-jobs.js';

/** What the thread of a store runs; see `StoreThread`. */
function main({ port, store, staging, posted }: ThreadData): void {
  const counter = new Int32Array(posted);
  const open = (): Promise<BlockStore> =>
    store.kind === 'embedded' ? ProcessStore.open(store, die) : RedisStore.open(store);
  const arena = staging === undefined ? null : BlockArena.attach(staging);
  const jobs = new StoreJobs(open, arena, (answer: AnswerMessage) => {
    port.postMessage(answer, [answer.outcomes.buffer as ArrayBuffer]);
    Atomics.add(counter, Posted.answers, 1);
  });
  void jobs.open().finally(() => Atomics.store(counter, Posted.ready, 1));
  port.on('message', (message: JobMessage | CloseMessage) => {
    if ('close' in message) void end();
    else jobs.run(message);
  });

  async function end(): Promise<void> {
    await jobs.close().catch(() => {});
    arena?.dispose();
    // Ends this thread, and not the process. A connection that hangs would keep the thread alive.
    process.exit(0);
  }
}

/** The process of the file is gone. The thread goes with it: another one is started, as for every thread that dies. */
function die(error: Error): void {
  throw error;
}

main(workerData as ThreadData);
