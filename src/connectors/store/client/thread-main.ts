// The script of a store's thread.
import { parentPort } from 'node:worker_threads';
import { BlockArena } from '../../../transfer/block-arena.js';
import { SlotStore } from '../slots/slot-store.js';
import type { BlockStore } from '../stores/block-store.js';
import { RedisStore } from '../stores/redis-store.js';
import {
  type AnswerMessage,
  type ClientMessage,
  type CloseMessage,
  type JobMessage,
  Posted,
  type ThreadStore,
} from './messages.js';
import { StoreJobs } from './store-jobs.js';

/** The file of this thread, shared by all its clients. */
let slots: SlotStore | null = null;

function open(store: ThreadStore): Promise<BlockStore> {
  if (store.kind === 'redis') return RedisStore.open(store);
  slots ??= new SlotStore(store.fd, store.maxBytes);
  return Promise.resolve(slots);
}

/** Serves one client until the client closes. */
function serve({ port, store, staging, posted }: ClientMessage): void {
  const counter = new Int32Array(posted);
  const arena = staging === undefined ? null : BlockArena.attach(staging);
  const answer = (message: AnswerMessage): void => {
    port.postMessage(message, [message.outcomes.buffer as ArrayBuffer]);
    Atomics.add(counter, Posted.answers, 1);
  };
  const jobs = new StoreJobs(() => open(store), arena, answer);
  void jobs.open().finally(() => Atomics.store(counter, Posted.ready, 1));
  port.on('message', (message: JobMessage | CloseMessage) => {
    if ('close' in message) void end(message.isLast);
    else jobs.run(message);
  });

  async function end(isLast: boolean): Promise<void> {
    await jobs.close().catch(() => {});
    arena?.dispose();
    // The call ends this thread, not the process. A connection that hangs would keep the thread
    // alive.
    if (isLast) process.exit(0);
    port.close();
  }
}

/** The entry point of a store's thread; see `StoreThread`. */
parentPort?.on('message', serve);
