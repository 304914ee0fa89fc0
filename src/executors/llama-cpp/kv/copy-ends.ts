// How copies of blocks end, and their counts.

/** The ends that native/llama/block_header.h numbers, in its order. */
const NATIVE_ENDS = [
  'done',
  'noBlock',
  'library',
  'model',
  'adapters',
  'cache',
  'shape',
  'damaged',
  'llama',
  'stopped',
] as const;

/** The reasons why blocks were not copied. */
export interface RefusedCopies {
  /** Loads of bytes that are no saved block, or that another version of blockstep saved. */
  readonly noBlock: number;
  /** Loads of blocks that another version of llama.cpp saved. */
  readonly library: number;
  /** Loads of blocks of another model. */
  readonly model: number;
  /** Loads of blocks that were saved with other LoRA adapters. */
  readonly adapters: number;
  /** Loads of blocks from a cache of another type, or with another `flashAttention`. */
  readonly cache: number;
  /** Loads of blocks of another size, of longer texts, or, if the model depends on it, of another context. */
  readonly shape: number;
  /** Loads of bytes that are not those that were saved. */
  readonly damaged: number;
  /** Copies that llama.cpp failed to make. */
  readonly llama: number;
  /** Copies that the end of the executor interrupted. */
  readonly stopped: number;
  /** Saves of blocks whose cells had been dropped for lack of sequences. */
  readonly gone: number;
  /** Loads that found no free sequence. */
  readonly noSequence: number;
}

/** A reason. */
export type RefusedCopy = keyof RefusedCopies;

/** Counts of reasons, all 0. */
export function noRefusals(): Record<RefusedCopy, number> {
  return {
    ...{ noBlock: 0, library: 0, model: 0, adapters: 0, cache: 0, shape: 0, damaged: 0, llama: 0 },
    ...{ stopped: 0, gone: 0, noSequence: 0 },
  };
}

/** The reason of an end by its number; null: the copy was made. */
export function refusalOf(end: number): RefusedCopy | null {
  const name = NATIVE_ENDS[end] ?? 'llama';
  return name === 'done' ? null : name;
}
