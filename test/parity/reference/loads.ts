import type { ReferenceRequest } from './request.js';

/** What an invalid block does to the requests that have it. */
export interface Damage {
  readonly affected: ReferenceRequest[];
  /** Of each affected request the first block that it must compute again, and all behind it. */
  readonly blocks: Set<number>;
}

/**
 * vLLM's _update_requests_with_invalid_blocks: cuts what counts as computed back to the first invalid block. Of several
 * requests that have one and the same block only the first computes it again; the others rely on that, and only lose
 * the step that has just run.
 * @param scheduled tokens that the step has computed for a request; only what was there before can have been loaded
 */
export function invalidate(
  requests: readonly ReferenceRequest[],
  invalid: ReadonlySet<number>,
  scheduled: (request: ReferenceRequest) => number,
  blockSize: number,
): Damage {
  const affected: ReferenceRequest[] = [];
  const blocks = new Set<number>();
  const marked = new Set<number>();
  for (const request of requests) {
    const computed = request.numComputedTokens - scheduled(request);
    const loaded = request.blocks.slice(0, Math.max(0, Math.ceil(computed / blockSize)));
    const bad = loaded.filter((block) => invalid.has(block));
    if (bad.length === 0) continue;
    affected.push(request);
    const first = loaded.findIndex((block) => invalid.has(block) && !marked.has(block));
    for (const block of bad) marked.add(block);
    if (first < 0) request.numComputedTokens = computed;
    else {
      request.numComputedTokens = first * blockSize;
      for (const block of request.blocks.slice(first)) blocks.add(block);
    }
  }
  return { affected, blocks };
}
