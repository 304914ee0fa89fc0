// Several worker threads with their own cores, some terminated at work: for ThreadSanitizer.
'use strict';
// Several threads, each with cores of its own, and one terminated in the middle: for ThreadSanitizer, without a
// test runner in between.
const { join } = require('node:path');
const { Worker } = require('node:worker_threads');
const { load, create, exercise } = require('./bare-core.cjs');
const { createLane, exerciseLane } = require('./bare-lanes.cjs');

const path = process.argv[2];

function start() {
  const worker = new Worker(join(__dirname, 'worker.cjs'), { workerData: { path } });
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    worker.once('message', () => resolve(worker));
  });
}

async function main() {
  const addon = load(path);
  const core = create(addon);
  const lane = createLane(addon, 3);
  for (let round = 0; round < 5; round++) {
    const workers = await Promise.all([start(), start()]);
    for (let i = 0; i < 50; i++) exercise(core);
    for (let i = 0; i < 20; i++) exerciseLane(lane);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  core.native.dispose();
  process.stdout.write('done\n');
}

main();
