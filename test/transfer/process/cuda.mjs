// The life of a process or worker, by name, that ends while a GPU copies for its lane.
import { parentPort } from 'node:worker_threads';

const { BlockArena, CompletionQueue, CudaLane } = await import(
  new URL('transfer.js', process.env.BLOCKSTEP_INDEX).href
);

function busyLane({ bytesPerBlock = 4096, copies = 100, faults = 'delay=1000' } = {}) {
  const shape = { numBlocks: 16, bytesPerBlock };
  const queue = new CompletionQueue();
  const source = BlockArena.allocate({ ...shape, place: 'pinned' });
  const target = BlockArena.allocate({ ...shape, place: 'device' });
  const lane = new CudaLane(queue, source, target, { mode: 'batch' });
  const all = Int32Array.from({ length: 16 }, (_, i) => i);
  process.env.EMULATED_GPU = faults;
  lane.submit(all, all, 1000);
  for (let i = 0; i < copies; i++) lane.submit(all, all);
  return { queue, source, target, lane, all };
}

function report({ lane }) {
  process.stdout.write(JSON.stringify(lane.counts().pending > 50));
}

const LIVES = {
  /** Nothing keeps it alive. */
  end() {
    report(busyLane());
  },
  exit() {
    report(busyLane());
    process.exit(7);
  },
  throw() {
    report(busyLane());
    throw new Error('uncaught');
  },
  disposed() {
    const busy = busyLane();
    report(busy);
    busy.lane.dispose();
    if (busy.queue.drain(() => {}) !== 101) process.exit(9);
  },
  /** Lanes and arenas that nobody holds, together of twice the memory that the GPU has; prints how many are left. With --expose-gc. */
  async collected() {
    const watched = [];
    const drop = () => {
      const small = { bytesPerBlock: 2 ** 18, copies: 2, faults: `delay=1000,memory=${2 ** 27}` };
      const { lane, queue, source, target } = busyLane(small);
      for (const object of [lane, queue, source, target]) watched.push(new WeakRef(object));
    };
    for (let n = 0; n < 64; n++) {
      drop();
      // Weak references hold what they were made of until the next turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      if (n % 8 === 7) global.gc();
    }
    await new Promise((resolve) => setImmediate(resolve));
    global.gc();
    process.stdout.write(String(watched.filter((ref) => ref.deref() !== undefined).length));
  },
  /** A worker that never stops; its starter terminates it in the middle. */
  worker() {
    parentPort.postMessage('working');
    for (;;) {
      const { lane, queue, all } = busyLane();
      lane.flush(Int32Array.of(lane.submit(all, all)));
      queue.drain(() => {});
    }
  },
};

// Outside of the module's evaluation; see worker.mjs.
setImmediate(() => LIVES[process.env.LIFE]());
