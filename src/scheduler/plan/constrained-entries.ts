import type { Request } from '../request/request.js';

interface Entries {
  readonly requests: readonly Request[];
  readonly numRequests: number;
  readonly maxOutputTokens: Uint8Array;
}

/** The entries of a plan that a grammar constrains now; see `Plan.bitmaskEntries`. */
export function constrainedEntries(
  { requests, numRequests, maxOutputTokens }: Entries,
  skipsEnded: boolean,
): number[] {
  const entries: number[] = [];
  for (let i = 0; i < numRequests; i++) {
    const { grammar, isFinished, outstanding } = requests[i];
    if (grammar === null || maxOutputTokens[i] === 0) continue;
    const isSent = outstanding !== null && outstanding.size > 0;
    if (!isFinished || (isSent && !skipsEnded)) entries.push(i);
  }
  return entries;
}
