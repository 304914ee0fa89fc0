// A worker thread that works until it is terminated.
'use strict';
// A worker that never stops working on its cores and lanes: its parent terminates it in the middle.
const { parentPort, workerData } = require('node:worker_threads');
const { load, create, createReference, exercise } = require('./bare-core.cjs');
const { createLane, exerciseLane } = require('./bare-lanes.cjs');

const addon = load(workerData.path);
const cores = [create(addon), create(addon)];
for (const core of cores) exercise(core);
const kept = createLane(addon);
exerciseLane(kept);
parentPort.postMessage('working');
for (;;) {
  exercise(cores[0]);
  exercise(cores[1]);
  create(addon); // never disposed
  createReference(addon);
  exerciseLane(kept);
  exerciseLane(createLane(addon, 1));
}
