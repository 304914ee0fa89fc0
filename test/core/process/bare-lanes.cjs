// Loads the addon, makes lanes and works with them.
'use strict';
// Lanes without TypeScript around them: for worker threads, sanitizers, and processes that start in milliseconds.

const SHAPE = { numBlocks: 64, bytesPerBlock: 4096 };
const ALL = Int32Array.from({ length: SHAPE.numBlocks }, (_, i) => i);

function createLane(addon, threads = 2) {
  const ring = addon.createRing(32);
  const [source, target] = [addon.createArena(SHAPE), addon.createArena(SHAPE)];
  const lane = addon.createLane(ring, source, target, { threads, pieceBytes: 3 * SHAPE.bytesPerBlock });
  return { ring, source, target, lane, out: new Int32Array(2 + 2 * 32) };
}

/** A few jobs that end in every way; leaves one waiting, and some in flight. */
function exerciseLane({ ring, lane, source, target, out }) {
  lane.fence();
  ring.drain(out);
  new Uint8Array(source.buffer()).fill(7);
  const jobs = [lane.submit(ALL, ALL, -1), lane.submit(ALL, ALL, 1e9), lane.submit(ALL, ALL, -1)];
  lane.cancel(jobs[1]);
  lane.cancel(jobs[2]);
  lane.flush(Int32Array.of(jobs[0]));
  if (new Uint8Array(target.buffer())[5] !== 7) throw new Error('nothing was copied');
  ring.post(ring.begin(), 2);
  lane.fence();
  if (ring.drain(out) !== 4) throw new Error('a job did not end');
  ring.post(ring.begin(), 1);
  lane.submit(ALL, ALL, 1e9);
  for (let i = 0; i < 4; i++) lane.submit(ALL, ALL, -1);
}

module.exports = { createLane, exerciseLane };
