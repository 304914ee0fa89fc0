// The KV cache groups in the view of a connector, and the places that a resuming request needs.
import type { KvGroupType } from '../events/kv-event.js';

/** A KV cache group, as a connector is shown it: what it must know to decide what to store, and what to load. */
export interface KvViewGroup {
  readonly type: KvGroupType;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Of `sliding`: tokens that a token attends to, itself included; else 0. */
  readonly window: number;
  /** Of `chunked`: tokens of a chunk; else 0. */
  readonly chunk: number;
  /** Of `mamba`: which states are kept; else null. */
  readonly mode: 'none' | 'align' | 'all' | null;
  /** Of `mamba`: places at the end of a row for the states of draft tokens; else 0. */
  readonly numSpeculativeBlocks: number;
  /** Of `sink`: tokens whose blocks were taken out of the pool; else 0. */
  readonly sinkTokens: number;
  /** Whether the group holds layers of a drafter. */
  readonly eagle: boolean;
}

/** The groups of a scheduler as its configuration has them; null = one group of full attention. */
interface ConfiguredGroups {
  readonly blockSize: number;
  readonly kvGroups: {
    readonly list: readonly (KvViewGroup & { readonly spec: number })[];
    readonly hashBlockSize: number;
  } | null;
}

/** Places of a group's row: from `first` on, before `end`. Place i is for the tokens from i x `blockSize` on. */
export interface PlaceRange {
  readonly first: number;
  /** Behind the last one; not before `first`. */
  readonly end: number;
}

/** The groups of a scheduler; one of full attention where it was given none. */
export function viewGroups({ kvGroups, blockSize }: ConfiguredGroups): readonly KvViewGroup[] {
  if (kvGroups !== null)
    return Object.freeze(kvGroups.list.map(({ spec: _, ...group }) => Object.freeze(group)));
  const full: KvViewGroup = {
    type: 'full',
    blockSize,
    window: 0,
    chunk: 0,
    mode: null,
    numSpeculativeBlocks: 0,
    sinkTokens: 0,
    eagle: false,
  };
  return Object.freeze([Object.freeze(full)]);
}

/**
 * Names what the blocks of all groups mean: two schedulers with the same name agree on every place of every row. Empty for one group of full
 * attention, whose block size says it all.
 */
export function layoutOf({ kvGroups }: ConfiguredGroups): string {
  if (kvGroups === null) return '';
  const { list, hashBlockSize } = kvGroups;
  return JSON.stringify({ hashBlockSize, groups: list.map(({ spec: _, ...group }) => group) });
}

/**
 * The places of a group's row that a request needs which resumes behind `numTokens` tokens. What stands before them no later token reads.
 * A place of a group of states is needed for the state behind exactly these tokens.
 */
export function neededPlaces(group: KvViewGroup, numTokens: number): PlaceRange {
  const end = Math.ceil(numTokens / group.blockSize);
  return { first: Math.min(end, Math.floor(skippedTokens(group, numTokens) / group.blockSize)), end };
}

/** Leading tokens that no token behind the first `numTokens` reads (vLLM `get_num_skipped_tokens`). */
export function skippedTokens(group: KvViewGroup, numTokens: number): number {
  const { type, window, chunk } = group;
  if (numTokens === 0 || type === 'full' || type === 'mla' || type === 'sink') return 0;
  if (type === 'sliding') return Math.max(0, numTokens - window + 1);
  // What is left of the groups are states: each holds all tokens before it.
  return type === 'chunked' ? numTokens - (numTokens % chunk) : numTokens - 1;
}
