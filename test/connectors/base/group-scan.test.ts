// Blocks that a window leaves before they are settled: pinned, offered, lost.
import { describe, expect, it } from 'vitest';
import type { KvView } from '../../../src/connector.js';
import type { BlockKeys } from '../../../src/connectors/base/block-keys.js';
import { GroupScan } from '../../../src/connectors/base/group-scan.js';
import type { Plan, Request } from '../../../src/index.js';
import { type KvViewGroup, neededPlaces } from '../../../src/scheduler/connector/view-group.js';

const WINDOW = { type: 'sliding', blockSize: 4, window: 6, chunk: 0 } as KvViewGroup;
const REQUEST = { slot: 0, handle: 1 } as Request;

/** A request of one window, whose blocks are 10 x (place + 1), under a scan. */
function scanning(alignment = 4) {
  const row = Int32Array.from({ length: 8 }, (_, place) => 10 * (place + 1));
  const state = { settled: 0, offered: [] as number[], pinned: [] as number[] };
  const view = {
    ...{
      groups: [WINDOW],
      alignment,
      neededPlaces: (_: number, tokens: number) => neededPlaces(WINDOW, tokens),
    },
    ...{ blocks: () => [row], extent: () => ({ numSettledTokens: state.settled }) },
  } as unknown as KvView;
  const scan = new GroupScan({
    view,
    keys: { of: (_: Request, place: number) => BigInt(place) } as unknown as BlockKeys,
    pins: {
      pin: (blocks) => void state.pinned.push(...blocks),
      unpin: (blocks) => {
        for (const block of blocks) state.pinned.splice(state.pinned.indexOf(block), 1);
      },
    },
    offer: (_, block) => state.offered.push(block) > 0,
    room: () => 100,
  });
  scan.track(REQUEST);
  const observe = (computed: number, scheduled: number): void =>
    scan.observe({
      ...{ numRequests: 1, requests: [REQUEST] },
      ...{ numComputedTokens: [computed], numScheduledTokens: [scheduled] },
    } as unknown as Plan);
  return { scan, row, state, observe };
}

describe('a block that will have been let go before it is settled', () => {
  it('is pinned until then, and offered', () => {
    const { scan, row, state, observe } = scanning();
    observe(0, 20);
    // Behind 16 tokens, from where a repeated text of 20 goes on, places 2 and 3 are needed; behind 20 place 2 is left.
    expect([state.pinned, state.offered, scan.numAhead]).toEqual([[30], [], 1]);
    row.fill(0, 0, 3);
    state.settled = 20;
    observe(20, 1);
    expect(state.offered).toEqual([30, 40, 50]);
    scan.settle();
    expect([state.pinned, scan.numAhead]).toEqual([[], 0]);
  });

  it('is not offered if its KV is lost meanwhile', () => {
    const { scan, row, state, observe } = scanning();
    observe(0, 20);
    scan.lose([30]);
    expect([state.pinned, scan.numAhead]).toEqual([[], 0]);
    row.fill(0, 0, 3);
    state.settled = 20;
    observe(20, 1);
    expect(state.offered).toEqual([40, 50]);
  });

  it('is let go when its request gives its blocks back', () => {
    const { scan, state, observe } = scanning();
    observe(0, 20);
    scan.release([REQUEST.handle]);
    expect([state.pinned, scan.numAhead]).toEqual([[], 0]);
  });
});

describe('a request that ends', () => {
  it('leaves blocks that were not looked at, which are counted as far as some match could need them', () => {
    const { scan } = scanning(16);
    // A match ends behind 16 or 32 tokens, and needs the last two places there.
    expect(scan.finish(REQUEST, 32)).toBe(4);
  });
});
