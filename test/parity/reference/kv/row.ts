/** What a request has in one group: its blocks, and what vLLM's manager of the group keeps of it besides. */
export interface Row {
  /** Place i holds the KV of tokens [i, i + 1) x block size, or the null block. */
  blocks: number[];
  /** Leading places that are done with publishing; null: vLLM has no number (`num_cached_block`), which counts as 0. */
  settled: number | null;
  /** Mamba, mode align: the row was extended since it was empty, and its speculative blocks stand at its end. */
  wasExtended: boolean;
  /** Mamba, mode align: the place of the state before the running one. */
  last: number | null;
  /** With the fault `partialHits`: the place of a block that is copied before it is written again. */
  shared: number | null;
}

/** A row without places. */
export function emptyRow(): Row {
  return { blocks: [], settled: null, wasExtended: false, last: null, shared: null };
}
