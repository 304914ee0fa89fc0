// Loads the addon, makes cores and works with them.
'use strict';
// A native core without TypeScript around it: for worker threads and for processes that start in milliseconds.

const CONFIG = {
  numBlocks: 1000,
  blockSize: 16,
  numRows: 64,
  maxBlocksPerRow: 64,
  maxEntries: 64,
  numFrames: 1,
  pendingCapacity: 128,
  lookahead: 0,
  maxModelLen: 1024,
  enablePrefixCaching: true,
  hashSeed: new Uint8Array(16),
};
const CONTROL_WORDS = 64;
const CLOSE = 4;
const MAX_TOKENS = 64;

/** The addon in `path`, which every process and every worker loads for itself. */
function load(path) {
  return require(path);
}

function create(addon, config = CONFIG) {
  const pendingWords = 2 * config.pendingCapacity;
  const words = CONTROL_WORDS + pendingWords + (config.numFrames * 6 + 1) * config.maxEntries;
  const exchange = new Int32Array(new ArrayBuffer(4 * words));
  const native = addon.create(config, exchange.buffer);
  const tableWords = 3 * MAX_TOKENS + 3 * config.maxEntries + 1 + config.maxEntries * config.maxBlocksPerRow;
  native.bindTables(0, new ArrayBuffer(4 * tableWords), MAX_TOKENS);
  return { native, exchange };
}

/** Admits a few requests, lets them decode, and ends them; leaves everything free. */
function exercise({ native, exchange }) {
  const frame = CONTROL_WORDS + 2 * CONFIG.pendingCapacity;
  for (let i = 0; i < 8; i++) {
    const slot =
      native.add(
        Int32Array.from({ length: 40 + i }, (_, at) => at * (i % 3)),
        '',
        '',
      ) %
      2 ** 21;
    const row = native.admit(slot, native.match(slot, 2), 0, 40 + i, 40 + i);
    if (row < 0) throw new Error(`no room: ${row}`);
    exchange[frame + i] = slot;
    exchange[frame + CONFIG.maxEntries + i] = 1;
    exchange[frame + 2 * CONFIG.maxEntries + i] = 40 + i;
  }
  if (native.run(0, 0, 8) !== 8) throw new Error('the pool is full');
  native.gather(0, 8);
  native.verify();
  for (let i = 0; i < 8; i++) {
    exchange[CONTROL_WORDS + 2 * i] = (CLOSE << 24) | exchange[frame + i];
    exchange[0] = i + 1;
  }
  native.flush();
  if (exchange[2] !== CONFIG.numBlocks - 1) throw new Error('blocks were lost');
}

const REFERENCE = {
  numBlocks: 100,
  blockSize: 16,
  maxTokens: 64,
  maxEntries: 4,
  maxBlocksPerRow: 8,
  maxDrafts: 2,
  pipelineDepth: 1,
  seed: 1,
  eosToken: 2 ** 31 - 1,
  wrongDrafts: 2 ** 30,
  reportOnly: false,
};

/** Makes a reference executor and gives it a few steps, each of one new request over empty tables. */
function createReference(addon) {
  const { maxEntries, maxDrafts, maxTokens, maxBlocksPerRow } = REFERENCE;
  const native = addon.createReference(REFERENCE);
  const io = new ArrayBuffer(
    8 * (maxEntries + 64 * 13) + 4 * (8 + maxEntries * (14 + 3 * maxDrafts)) + maxEntries,
  );
  const tables = new ArrayBuffer(12 * maxTokens + 4 * (3 * maxEntries + 1 + maxEntries * maxBlocksPerRow));
  // One handle an entry; then the findings; then the control words, and the columns of the plan.
  const words = new Int32Array(io, 8 * (maxEntries + 64 * 13));
  words[0] = 1;
  const [kinds, scheduled, blocks, newBlocks, , samples, , known, prompt] = Array.from(
    { length: 9 },
    (_, column) => words.subarray(8 + column * maxEntries),
  );
  for (const column of [kinds, blocks, newBlocks, samples]) column[0] = 1;
  for (const column of [scheduled, known, prompt]) column[0] = 2;
  for (let i = 0; i < 5; i++) {
    new Float64Array(io, 0, maxEntries)[0] = 1 + (i % 2) + i * 2 ** 21;
    native.step(io, tables, Int32Array.of(1, 2));
  }
  if (native.memory().numSequences === 0) throw new Error('no request was taken');
  return native;
}

module.exports = { CONFIG, load, create, createReference, exercise };
