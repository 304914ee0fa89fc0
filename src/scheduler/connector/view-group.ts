import type { KvGroupType } from '../events/kv-event.js';

/**
 * A KV cache group as a connector sees it: the properties that decide what to store and what to
 * load.
 */
export interface KvViewGroup {
  readonly type: KvGroupType;
  /** Tokens per block. */
  readonly blockSize: number;
  /** For `sliding`: tokens that a token attends to, itself included; else 0. */
  readonly window: number;
  /** For `chunked`: tokens of a chunk; else 0. */
  readonly chunk: number;
  /** For `mamba`: which states are kept; else null. */
  readonly mode: 'none' | 'align' | 'all' | null;
  /** For `mamba`: places at the end of a row for the states of draft tokens; else 0. */
  readonly numSpeculativeBlocks: number;
  /** For `sink`: tokens whose blocks were permanently taken out of the pool; else 0. */
  readonly sinkTokens: number;
  /** Whether the group holds layers of a drafter. */
  readonly eagle: boolean;
}

type ConfiguredGroup = KvViewGroup & { readonly spec: number };

/** The groups of a scheduler as its configuration has them; null = one group of full attention. */
interface ConfiguredGroups {
  readonly kvGroups: { readonly list: readonly ConfiguredGroup[]; readonly hashBlockSize: number } | null;
}

/**
 * Places of a group's row: from `first` on, before `end`. Place i is for the tokens from i x
 * `blockSize` on.
 */
export interface PlaceRange {
  readonly first: number;
  /** The place after the last one; not before `first`. */
  readonly end: number;
}

/** The groups of a scheduler, as its connector is shown them. */
export function viewGroups(list: readonly ConfiguredGroup[]): readonly KvViewGroup[] {
  return Object.freeze(list.map(({ spec: _, ...group }) => Object.freeze(group)));
}

/**
 * Names the meaning of the blocks of all groups: two schedulers with the same name agree on every
 * place of every row. Empty for one group of full attention, whose block size is sufficient.
 */
export function layoutOf({ kvGroups }: ConfiguredGroups): string {
  if (kvGroups === null) return '';
  const { list, hashBlockSize } = kvGroups;
  return JSON.stringify({ hashBlockSize, groups: viewGroups(list) });
}

/**
 * The places of a group's row that a request needs to resume after `numTokens` tokens. No later
 * token reads the places before them. A place of a group of states is needed for the state after
 * exactly these tokens.
 */
export function neededPlaces(group: KvViewGroup, numTokens: number): PlaceRange {
  const end = Math.ceil(numTokens / group.blockSize);
  return { first: Math.min(end, Math.floor(skippedTokens(group, numTokens) / group.blockSize)), end };
}

/**
 * Leading tokens that no token after the first `numTokens` reads (vLLM `get_num_skipped_tokens`).
 */
export function skippedTokens(group: KvViewGroup, numTokens: number): number {
  const { type, window, chunk } = group;
  if (numTokens === 0 || type === 'full' || type === 'mla' || type === 'sink') return 0;
  if (type === 'sliding') return Math.max(0, numTokens - window + 1);
  // The remaining groups are states: each state covers all tokens before it.
  return type === 'chunked' ? numTokens - (numTokens % chunk) : numTokens - 1;
}
