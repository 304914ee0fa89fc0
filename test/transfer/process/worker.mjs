// Never stops using lanes: its starter terminates it in the middle.
import { parentPort } from 'node:worker_threads';
import { busyLane } from './busy.mjs';

// Outside of the module's evaluation, which waits for an import: V8 of Node 22 and 24 does not survive its termination.
setImmediate(() => {
  const kept = busyLane(3);
  parentPort.postMessage('working');
  for (let round = 0; ; round++) {
    const { lane, queue, all, target } = round % 3 === 0 ? kept : busyLane(2, { threads: 1 + (round % 4) });
    const job = lane.submit(all, all);
    if (round % 4 === 0) lane.flush(Int32Array.of(job));
    if (round % 4 === 1) lane.fence();
    if (round % 4 === 2) lane.cancel(job);
    queue.drain(() => {});
    if (round % 7 === 0 && lane !== kept.lane) lane.dispose(); // the others never are
    if (round % 5 === 0) target.block(2).fill(round);
    if (round % 3 === 0) lane.submit(all, all, 1000 + round);
    if (kept.lane.counts().waiting > 100) kept.lane.settle(1e6);
  }
});
