// Drops undisposed cores and prints how many were not collected.
'use strict';
// Cores that are never disposed must go when nobody holds them. Run with --expose-gc; prints what is left.
const { load, create, exercise, CONFIG } = require('./bare-core.cjs');

const addon = load(process.argv[2]);
const config = { ...CONFIG, numBlocks: 100_000 }; // about 15 MB each
const watched = [];

function round() {
  for (let i = 0; i < 10; i++) {
    const core = create(addon, config);
    core.native.add(Int32Array.of(1, 2, 3), '', '');
    watched.push(new WeakRef(core.native));
  }
}

async function main() {
  const kept = create(addon);
  for (let i = 0; i < 20; i++) {
    round();
    await new Promise((resolve) => setImmediate(resolve));
    global.gc();
    await new Promise((resolve) => setImmediate(resolve));
  }
  exercise(kept);
  const alive = watched.filter((ref) => ref.deref() !== undefined).length;
  const { rss, external } = process.memoryUsage();
  process.stdout.write(JSON.stringify({ made: watched.length, alive, rss, external }));
}

main();
