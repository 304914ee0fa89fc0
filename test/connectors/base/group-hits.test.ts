// The longest match over several KV cache groups, compared with all matches; keys.
import { describe, expect, it } from 'vitest';
import type { KvView } from '../../../src/connector.js';
import { BlockKeys } from '../../../src/connectors/base/block-keys.js';
import { GroupHits, needsAll } from '../../../src/connectors/base/group-hits.js';
import type { Request } from '../../../src/index.js';
import type { KvGroupOptions } from '../../../src/scheduler/options/kv-groups.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';
import { Driver, prompt, Random } from '../../support/driver.js';

const SHAPES: readonly (readonly KvGroupOptions[])[] = [
  [{ type: 'full' }, { type: 'sliding', window: 6 }],
  [{ type: 'sliding', window: 9 }],
  [
    { type: 'full', blockSize: 16 },
    { type: 'sliding', blockSize: 4, window: 11 },
    { type: 'sliding', blockSize: 8, window: 3 },
  ],
  [{ type: 'full' }, { type: 'mamba', mode: 'all' }],
  [
    { type: 'full', blockSize: 8 },
    { type: 'chunked', blockSize: 8, chunk: 12 },
  ],
];

function world(kvGroups: readonly KvGroupOptions[], length: number) {
  const connector = new ViewingConnector();
  const driver = new Driver({ connector, kvGroups: [...kvGroups], strict: true });
  const request = driver.request(driver.add({ id: 'a', prompt: prompt(length) }));
  const keys = new BlockKeys(connector.view);
  return { view: connector.view, request, keys, hits: new GroupHits(connector.view, keys) };
}

/** Every place that resuming behind `end` tokens needs, by key. */
function needed(view: KvView, keys: BlockKeys, request: Request, local: number, end: number): bigint[] {
  return view.groups.flatMap(({ blockSize }, g) => {
    const range = view.neededPlaces(g, end);
    const first = Math.max(range.first, local / blockSize);
    return Array.from({ length: Math.max(range.end - first, 0) }, (_, i) => keys.of(request, first + i, g));
  });
}

describe('a match of several groups', () => {
  it('is the longest for which every group has what is needed, and loads that alone', () => {
    const random = new Random(5);
    let numFound = 0;
    for (const shape of SHAPES) {
      for (let round = 0; round < 150; round++) {
        const { view, request, keys, hits } = world(shape, 20 + random.below(44));
        const { alignment } = view;
        const local = alignment * random.below(2);
        const all = [...hits.wanted(request, 0, request.numTokens - 1)];
        const has = new Set(all.filter(() => random.chance(85)).map(({ key }) => key));
        const ends = Array.from({ length: 17 }, (_, i) => local + i * alignment).filter(
          (n) => n < request.numTokens,
        );
        const fits = ends.filter((end) =>
          needed(view, keys, request, local, end).every((key) => has.has(key)),
        );
        const best = Math.max(local, ...fits);
        expect(hits.match(request, local, (key) => has.has(key), round)).toBe(best - local);
        if (best === local) continue;
        numFound++;
        const rows = view.groups.map(({ blockSize }, g) =>
          Int32Array.from({ length: Math.ceil(best / blockSize) }, (_, place) =>
            place < view.neededPlaces(g, best).first ? 0 : 1000 * (g + 1) + place,
          ),
        );
        const load = hits.toLoad(request, rows, best - local);
        expect(load.keys).toEqual(needed(view, keys, request, local, best));
        expect(load.blocks.length).toBe(load.keys.length);
        expect(load.blocks.includes(0)).toBe(false);
        expect(hits.size).toBe(0);
      }
    }
    expect(numFound).toBeGreaterThan(200);
  });

  it('waits for what others load, and begins nowhere between blocks', () => {
    const { request, hits } = world(SHAPES[0], 30);
    expect(hits.match(request, 0, () => null, 0)).toBe(null);
    expect(hits.match(request, 3, () => true, 0)).toBe(0);
    expect([...hits.wanted(request, 3, 29)]).toEqual([]);
    expect(hits.match(request, 0, () => true, 0)).toBe(28);
    hits.forget(request.handle);
    expect(hits.size).toBe(0);
  });
});

describe('a request that is asked about in every step', () => {
  it('is looked up anew only behind what was found, until something is gone or is being loaded', () => {
    const { request, hits } = world(SHAPES[0], 62);
    const asked: bigint[] = [];
    let most = 8;
    const has = (key: bigint): boolean => {
      asked.push(key);
      return asked.length <= most;
    };
    const ask = (version: number): number => {
      asked.length = 0;
      return hits.match(request, 0, has, version) ?? -1;
    };
    // 15 blocks of full attention, of which 8 are there; then windows, which are not.
    expect([ask(1), asked.length]).toEqual([0, 9 + 8]);
    most = 99;
    expect([ask(1), asked.length]).toEqual([60, 7 + 2]);
    expect([ask(1), asked.length]).toEqual([60, 2]);
    expect([ask(2), asked.length]).toEqual([60, 15 + 2]);
  });
});

describe('keys', () => {
  it('name hash and group, and with one group the hash alone', () => {
    const { view, request, keys } = world([{ type: 'full' }, { type: 'sliding', window: 6 }], 30);
    const [a, b] = [keys.of(request, 1, 0), keys.of(request, 1, 1)];
    expect(a).not.toBe(b);
    expect([keys.hashOf(a), keys.hashOf(b)]).toEqual([
      view.blockHash(request, 1),
      view.blockHash(request, 1, 1),
    ]);
    expect([keys.groupOf(a), keys.groupOf(b)]).toEqual([0, 1]);
    const plain = world([{ type: 'full' }], 30);
    expect(plain.keys.of(plain.request, 1, 0)).toBe(plain.view.blockHash(plain.request, 1));
    expect(view.groups.map(needsAll)).toEqual([true, false]);
  });
});
