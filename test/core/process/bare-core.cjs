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
  const words = CONTROL_WORDS + pendingWords + config.numFrames * 5 * config.maxEntries;
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

module.exports = { CONFIG, load, create, exercise };
