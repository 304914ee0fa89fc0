// Makes, uses and drops cores and lanes, then ends normally: for LeakSanitizer.
'use strict';
// Makes, uses, abandons and disposes cores and lanes, then ends normally: for LeakSanitizer.
const { load, create, createReference, exercise } = require('./bare-core.cjs');
const { createLane, exerciseLane } = require('./bare-lanes.cjs');

const addon = load(process.argv[2]);
for (let i = 0; i < 20; i++) {
  const core = create(addon);
  exercise(core);
  core.native.record(true);
  exercise(core);
  if (i % 3 === 0) core.native.drainLog();
  if (i % 2 === 0) core.native.dispose();
  const reference = createReference(addon);
  if (i % 2 === 0) reference.dispose();
  const lane = createLane(addon);
  exerciseLane(lane);
  if (i % 3 === 0) lane.lane.dispose();
  if (i % 4 === 0) lane.source.dispose();
  try {
    core.native.add(new Int32Array(0), 'adapter', 'salt');
  } catch {}
}
process.stdout.write('done\n');
