// A request is looked up again when the tier has changed.
import { describe, expect, it } from 'vitest';
import { Matches, type MatchesOptions } from '../../../../src/connectors/offload/matches.js';
import { ABSENT, TierIndex } from '../../../../src/connectors/offload/tiers/tier-index.js';
import type { Request } from '../../../../src/index.js';

describe('what the tiers have of a request', () => {
  it('is looked up again after anybody has dropped content to make room', () => {
    const index = new TierIndex(3);
    const keys = [1n, 2n, 3n];
    for (const key of keys.toReversed()) index.put(key, index.take());
    const view = { layout: '', blockSize: 4, blockHash: (_: Request, i: number) => keys[i] };
    const incoming = { awaits: () => false };
    const matches = new Matches({ view, index, incoming, keys: {}, disk: null } as unknown as MatchesOptions);
    const request = { handle: 1, numTokens: 13 } as Request;
    expect(matches.find(request, 0)).toBe(12);
    // A read from the disk for somebody else: it gets the place that was unused for longest.
    expect(index.take()).not.toBe(ABSENT);
    expect(matches.find(request, 0)).toBe(8);
  });
});
