import type { NativeConfig } from './native.js';

/**
 * The exchange buffer: one ArrayBuffer of Int32 words that TypeScript makes and native code keeps a reference to.
 * Steady-state decode crosses the border with three integers; everything else lies here.
 *
 *   | control: 64 words | pending operations: pendingCapacity pairs | frame 0 | frame 1 | ...
 *
 * A frame is five arrays of maxEntries words. TypeScript writes the first three, native code the last two.
 */
export const CONTROL_WORDS = 64;
const FRAME_ARRAYS = 5;

/** Indexes into the control words. TypeScript writes the first two, native code the others after every entry. */
export const Control = {
  numPending: 0,
  headSlot: 1,
  freeBlocks: 2,
  publishedBlocks: 3,
  rowsInUse: 4,
  /** Leading blocks of headSlot that every row in use shares; computed by run() only. */
  commonPrefix: 5,
  evictionsLow: 6,
  evictionsHigh: 7,
  /** How many of the blocks of the last match() lie in the free queue. */
  hitFree: 8,
  /** 1 while a decision of the GPU is under way: what is pending stays pending then. */
  deciding: 9,
} as const;

/** Operations that wait in the exchange buffer until the next native entry: word0 = op << 24 | slot, word1 = argument. */
export const PendingOp = {
  /** argument: a sampled token, appended to the slot's token list */
  append: 1,
  /** argument: a token count; publishes the row's full, unpublished blocks up to it */
  publish: 2,
  /** gives the row and its blocks back, the blocks in reverse order; nothing if there is no row */
  release: 3,
  /** ends the slot: releases what it still holds, forgets its tokens, makes the slot reusable */
  close: 4,
  /** argument: a block index; the row's blocks from there on lose their published key and stay in the row */
  evict: 5,
  /** argument: a token count; drops the tokens from there on and the hashes of blocks that are no longer full */
  truncate: 6,
  /**
   * argument: a token count; drops the tokens from there on and keeps every hash, also that of a block that is no longer
   * full, as vLLM does with a session's dropped token. At least as many tokens must be appended before verify().
   */
  rewind: 7,
} as const;

/** One plan's worth of entries: five parallel arrays, valid up to the number of entries of the plan. */
export interface Frame {
  readonly index: number;
  readonly slots: Int32Array;
  readonly numScheduledTokens: Int32Array;
  readonly numComputedTokens: Int32Array;
  /** Blocks of the entry's row after run(); written by native code. */
  readonly numBlocks: Int32Array;
  /** Blocks that run() took for the entry; written by native code. They are the last of its row. */
  readonly numNewBlocks: Int32Array;
}

type Shape = Pick<NativeConfig, 'pendingCapacity' | 'numFrames' | 'maxEntries'>;

/** Size in words of the exchange buffer of such a core. */
export function exchangeWords(shape: Shape): number {
  return CONTROL_WORDS + 2 * shape.pendingCapacity + shape.numFrames * FRAME_ARRAYS * shape.maxEntries;
}

/** The typed views of an exchange buffer. */
export interface Exchange {
  readonly buffer: ArrayBuffer;
  readonly control: Int32Array;
  readonly pending: Int32Array;
  readonly frames: readonly Frame[];
}

/** Allocates a zeroed exchange buffer and cuts it into its views. */
export function makeExchange(shape: Shape): Exchange {
  const buffer = new ArrayBuffer(4 * exchangeWords(shape));
  let at = 0;
  const cut = (words: number): Int32Array => {
    const view = new Int32Array(buffer, 4 * at, words);
    at += words;
    return view;
  };
  const control = cut(CONTROL_WORDS);
  const pending = cut(2 * shape.pendingCapacity);
  const frames = Array.from({ length: shape.numFrames }, (_, index): Frame => {
    const [slots, numScheduledTokens, numComputedTokens, numBlocks, numNewBlocks] = Array.from(
      { length: FRAME_ARRAYS },
      () => cut(shape.maxEntries),
    );
    return { index, slots, numScheduledTokens, numComputedTokens, numBlocks, numNewBlocks };
  });
  return { buffer, control, pending, frames };
}
