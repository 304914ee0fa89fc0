// A small native core, and helpers for it.
import { BlockstepError, type ErrorCode } from '../../src/base/errors.js';
import { Core, type CoreConfig, PendingOp, slotOf } from '../../src/core/core.js';
import type { NativeAddon } from '../../src/core/native/native.js';

/** A small pool with small blocks: every limit is within a test's reach. */
export const SMALL: CoreConfig = {
  numBlocks: 33,
  blockSize: 4,
  numRows: 6,
  maxBlocksPerRow: 16,
  maxEntries: 8,
  numFrames: 2,
  pendingCapacity: 16,
  lookahead: 0,
  maxModelLen: 64,
  enablePrefixCaching: true,
  hashSeed: new Uint8Array(16).fill(9),
};

/** A core on a test bench: shorthands for the calls that nearly every test makes. */
export class BenchCore extends Core {
  constructor(addon: NativeAddon, config: Partial<CoreConfig> = {}) {
    super({ ...SMALL, ...config }, addon);
  }

  /** Opens a slot for a prompt and returns the slot. */
  open(tokens: ArrayLike<number>, adapter = '', salt = ''): number {
    return slotOf(this.native.add(Int32Array.from(tokens), adapter, salt));
  }

  /** Opens a slot and gives it a row, publishing all its full blocks; returns the slot. */
  start(tokens: ArrayLike<number>, adapter = '', salt = ''): number {
    const slot = this.open(tokens, adapter, salt);
    const hits = this.native.match(slot, Math.floor((tokens.length - 1) / this.config.blockSize));
    const row = this.native.admit(slot, hits, 0, tokens.length, tokens.length);
    if (row < 0) throw new Error(`no room for ${tokens.length} tokens: ${row}`);
    return slot;
  }

  close(slot: number): void {
    this.push(PendingOp.close, slot, 0);
  }

  /** Writes one entry of frame 0. */
  entry(index: number, slot: number, computed: number, scheduled: number): void {
    const frame = this.frames[0];
    frame.slots[index] = slot;
    frame.numComputedTokens[index] = computed;
    frame.numScheduledTokens[index] = scheduled;
  }

  /** Everything that may not change when a call is refused. */
  fingerprint(): string {
    const { native } = this;
    const slots = Array.from({ length: 8 }, (_, slot) => {
      const handle = native.handle(slot);
      return handle === 0 ? '-' : [handle, this.tokens(slot).join(), this.blocks(slot).join()].join('/');
    });
    const { freeBlocks, publishedBlocks, rowsInUse } = this;
    return [native.digest(), native.rollingDigest(), freeBlocks, publishedBlocks, rowsInUse, ...slots].join(
      '|',
    );
  }
}

/** 0, 1, 2, ... or, from `start`, start, start + 1, ... */
export function range(length: number, start = 0): number[] {
  return Array.from({ length }, (_, i) => start + i);
}

/** The code that a call is refused with. Fails if it is not refused, or with anything but a BlockstepError. */
export function codeOf(call: () => unknown): ErrorCode {
  let result: unknown;
  try {
    result = call();
  } catch (error) {
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  throw new Error(`the call was not refused: it returned ${String(result)}`);
}

/** A small seeded generator of integers: next(n) is in [0, n). */
export function seeded(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) % n;
  };
}
