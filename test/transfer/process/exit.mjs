// One short life of a process with transfers in flight, by name. Prints how many jobs were not over when it ended.
import { busyLane } from './busy.mjs';

const busy = busyLane(400);
const report = () => process.stdout.write(JSON.stringify(busy.lane.counts().pending > 50));

const LIVES = {
  /** Nothing keeps it alive. */
  end: report,
  exit() {
    report();
    process.exit(7);
  },
  throw() {
    report();
    throw new Error('uncaught');
  },
  disposed() {
    report();
    busy.lane.dispose();
    let cancelled = 0;
    busy.queue.drain((_, verdict) => {
      if (verdict === 3) cancelled++;
    });
    if (cancelled < 50) process.exit(9);
  },
  'exits in a drain'() {
    report();
    busy.lane.flush(Int32Array.of(2));
    busy.queue.drain(() => process.exit(7));
  },
  'disposed at exit'() {
    process.on('exit', () => {
      report();
      busy.lane.dispose();
    });
  },
  /** A worker that ends by itself with transfers in flight; the process goes on with its own. */
  async worker() {
    const { Worker } = await import('node:worker_threads');
    const script = new URL('exit.mjs', import.meta.url);
    for (const life of ['end', 'exit', 'throw', 'end']) {
      const worker = new Worker(script, { argv: [life], stdout: true });
      worker.on('error', () => {});
      await new Promise((resolve) => worker.on('exit', resolve));
    }
    busy.lane.fence();
    busy.lane.flush(Int32Array.of(busy.lane.submit(busy.all, busy.all)));
    process.stdout.write(JSON.stringify(busy.target.block(3)[5] === 7));
  },
};

// Outside of the module's evaluation; see worker.mjs.
setImmediate(() => LIVES[process.argv[2]]());
