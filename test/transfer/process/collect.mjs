// Lanes, arenas and queues that nobody holds must go, with their threads and their memory. Run with --expose-gc; prints
// what is left.
import { existsSync, readdirSync } from 'node:fs';
import { busyLane } from './busy.mjs';

const tick = () => new Promise((resolve) => setImmediate(resolve));
const threads = () => (existsSync('/proc/self/task') ? readdirSync('/proc/self/task').length : 0);

const before = threads();
const watched = [];
let buffer;
function drop(n) {
  const busy = busyLane(3, { threads: 2 });
  if (n % 3 === 0) busy.lane.dispose();
  if (n % 5 === 0) busy.source.dispose();
  if (n === 22) buffer = busy.source.buffer;
  for (const object of [busy.lane, busy.queue, busy.source]) watched.push(new WeakRef(object));
}
for (let n = 0; n < 60; n++) {
  drop(n);
  if (n % 4 === 3) {
    await tick();
    global.gc();
    await tick();
  }
}
process.stdout.write(
  JSON.stringify({
    alive: watched.filter((ref) => ref.deref() !== undefined).length,
    threads: threads() - before,
    kept: new Uint8Array(buffer).every((byte) => byte === 7),
    rss: process.memoryUsage().rss,
  }),
);
