import type { NativeConfig } from './native/native.js';

/**
 * Words of the control area, the first part of the exchange buffer. The exchange buffer is one ArrayBuffer of Int32
 * words that TypeScript makes and native code keeps a reference to. A decode step in steady state passes three
 * integers to native code; everything else that both sides need lies in the exchange buffer:
 *
 *   | control: 64 words | pending operations: pendingCapacity pairs | frame 0 | frame 1 | ... | sampled tokens |
 *
 * A frame is arrays of maxEntries words each: four that TypeScript writes, and two for each KV cache group, which native code writes.
 */
export const CONTROL_WORDS = 64;
const PLAN_ARRAYS = 4;
const GROUP_ARRAYS = 2;

/**
 * Indexes into the control words. TypeScript writes the first two and the last five before the
 * groups. Native code resets numPending when it has drained the pending operations. Native code
 * writes all others, whenever they change.
 */
export const Control = {
  /** Pending operations in the buffer. */
  numPending: 0,
  /** Slot of the request whose leading blocks commonPrefix counts; -1 = none. */
  headSlot: 1,
  freeBlocks: 2,
  publishedBlocks: 3,
  rowsInUse: 4,
  /**
   * Leading blocks of headSlot that every row in use shares. `run` and the answer to a decision of
   * the GPU compute it.
   */
  commonPrefix: 5,
  evictionsLow: 6,
  evictionsHigh: 7,
  /** How many of the blocks that the last `NativeCore.match` found lie in the free queue. */
  hitFree: 8,
  /** 1 while a decision of the GPU is under way. Pending operations then stay pending. */
  deciding: 9,
  /** Words that `NativeCore.drainKvEvents` would return, capped at 2^31 - 1. */
  kvEventWords: 10,
  /**
   * Tokens in the sampled area. Token i is appended to the slot of entry i of frame `sampledFrame`,
   * in front of the pending operations. `NO_TOKEN` is skipped. Native code resets this count.
   */
  numSampled: 11,
  sampledFrame: 12,
  /**
   * Leading entries of the frame of the next `run` whose request computes one token. This is the
   * last known token, or the token of the last of `numAhead` steps in flight. `run` fills in
   * numComputedTokens. Native code resets this count.
   */
  numSteady: 13,
  numAhead: 14,
  /**
   * The next `run` makes so many further steps behind its first one, if that has steady entries.
   * Each appends the tokens of the sampled area to the entries once more, and gives each entry the
   * next token.
   * Native code resets this count.
   */
  numRepeats: 15,
  /** From here on, for each KV cache group: places of its row after the last admission. */
  groupBlocks: 16,
  /**
   * From here on, for each group: places of these that came from the prefix cache, or were there
   * before.
   */
  groupHits: 24,
  /** From here on, for each group: as commonPrefix. */
  groupCommonPrefix: 32,
} as const;

/** In the sampled area: the entry has no token, as its request has ended. */
export const NO_TOKEN = -1;

/**
 * Operations that wait in the exchange buffer for the next native call. Each takes two words:
 * `op << 24 | slot`, and the argument.
 */
export const PendingOp = {
  /** Appends a token to the slot's tokens. Argument: the sampled token. */
  append: 1,
  /**
   * Publishes the full blocks of the slot's row up to a token count, as far as they are not
   * published yet. Argument: the token count.
   */
  publish: 2,
  /**
   * Releases the slot's row, and its blocks in reverse order. Nothing happens if the slot has no
   * row. No argument.
   */
  release: 3,
  /**
   * Ends the slot: releases its row and blocks, forgets its tokens, and makes the slot reusable. No
   * argument.
   */
  close: 4,
  /**
   * Removes the published hash of the blocks of the slot's row, from a block on; the blocks stay in
   * the row. Argument: the index of the first such block in the row.
   */
  evict: 5,
  /**
   * Drops the tokens from a token count on, and the hashes of blocks that are then no longer full.
   * Argument: the token count.
   */
  truncate: 6,
  /**
   * Drops the tokens from a token count on, and keeps every hash, also of a block that is then no
   * longer full. vLLM does this with a session's dropped token. At least as many tokens must be
   * appended before `verify`. Argument: the token count.
   */
  rewind: 7,
} as const;

/** The places of the rows of one KV cache group, for each entry of a plan. */
export interface FrameGroup {
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
}

/** The arrays of one plan: parallel arrays, valid up to the number of entries of the plan. */
export interface Frame extends FrameGroup {
  readonly index: number;
  readonly slots: Int32Array;
  readonly numScheduledTokens: Int32Array;
  readonly numComputedTokens: Int32Array;
  /**
   * With KV cache groups: how many of the computed tokens are still computed by steps in flight.
   * `NativeCore.run` keeps the windows of these tokens. 0: it frees by the computed tokens alone.
   */
  readonly numInFlightTokens: Int32Array;
  /** Blocks in the row of each entry after `NativeCore.run`, which writes this array. */
  readonly numBlocks: Int32Array;
  /**
   * Blocks that `NativeCore.run` took from the free queue for each entry; it writes this array.
   * They are the last blocks of the row.
   */
  readonly numNewBlocks: Int32Array;
  /** The same arrays of every group. The two arrays above are those of the first group. */
  readonly groups: readonly FrameGroup[];
}

type Shape = Pick<NativeConfig, 'pendingCapacity' | 'numFrames' | 'maxEntries' | 'groups'>;

function numGroups({ groups }: Shape): number {
  return groups?.length ?? 1;
}

/** Size of the exchange buffer of a core of this shape, in 32-bit words. */
export function exchangeWords(shape: Shape): number {
  const arrays = PLAN_ARRAYS + GROUP_ARRAYS * numGroups(shape);
  return CONTROL_WORDS + 2 * shape.pendingCapacity + (shape.numFrames * arrays + 1) * shape.maxEntries;
}

/** An exchange buffer and its typed views. */
export interface Exchange {
  readonly buffer: ArrayBuffer;
  readonly control: Int32Array;
  readonly pending: Int32Array;
  readonly frames: readonly Frame[];
  /** One token for each entry of a plan; see `Control.numSampled`. */
  readonly sampled: Int32Array;
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
    const [slots, numScheduledTokens, numComputedTokens, numInFlightTokens] = Array.from(
      { length: PLAN_ARRAYS },
      () => cut(shape.maxEntries),
    );
    const groups = Array.from({ length: numGroups(shape) }, () => {
      const [numBlocks, numNewBlocks] = Array.from({ length: GROUP_ARRAYS }, () => cut(shape.maxEntries));
      return { numBlocks, numNewBlocks };
    });
    return { index, slots, numScheduledTokens, numComputedTokens, numInFlightTokens, ...groups[0], groups };
  });
  return { buffer, control, pending, frames, sampled: cut(shape.maxEntries) };
}
