// Groups from the layers of models.
import { describe, expect, it } from 'vitest';
import { groupLayers, type KvLayer, Scheduler } from '../../../src/index.js';

const full: KvLayer = { type: 'full', bytes: 4096 };
const sliding = (window: number, bytes = 4096): KvLayer => ({ type: 'sliding', window, bytes });
const mamba: KvLayer = { type: 'mamba', bytes: 50_000 };
/** `count` times these layers, one behind the other. */
const times = (count: number, ...layers: KvLayer[]): KvLayer[] =>
  Array.from({ length: count }, () => layers).flat();

describe('groups of layers', () => {
  it.each<[string, KvLayer[], [types: string[], sizes: number[]]]>([
    ['32 layers that are all alike', times(32, full), [['full'], [32]]],
    [
      'gpt-oss: every second layer has a window',
      times(18, sliding(128), full),
      [
        ['sliding', 'full'],
        [18, 18],
      ],
    ],
    [
      'Gemma 3: five with a window to one without',
      times(10, ...times(5, sliding(1024)), full),
      [
        ['sliding', 'sliding', 'sliding', 'sliding', 'sliding', 'full'],
        [10, 10, 10, 10, 10, 10],
      ],
    ],
    [
      'the same with two layers more',
      [...times(10, ...times(5, sliding(1024)), full), sliding(1024), sliding(1024)],
      [
        ['sliding', 'sliding', 'sliding', 'sliding', 'sliding', 'sliding', 'full'],
        [9, 9, 9, 9, 8, 8, 10],
      ],
    ],
    [
      'nearly as many of both',
      [...times(9, full), ...times(13, sliding(64))],
      [
        ['full', 'sliding'],
        [9, 13],
      ],
    ],
    [
      'Qwen3-Next: three states to one full',
      times(12, mamba, mamba, mamba, full),
      [
        ['mamba', 'mamba', 'mamba', 'full'],
        [12, 12, 12, 12],
      ],
    ],
  ])('%s', (_, layers, [types, sizes]) => {
    const made = groupLayers(layers);
    expect(made.kvGroups.map(({ type }) => type)).toEqual(types);
    expect(made.layers.map(({ length }) => length)).toEqual(sizes);
    expect(made.layers.flat().sort((a, b) => a - b)).toEqual(layers.map((_layer, i) => i));
  });

  it('deals layers out in turn', () => {
    expect(groupLayers(times(2, sliding(8), sliding(8), full)).layers).toEqual([
      [0, 3],
      [1, 4],
      [2, 5],
    ]);
  });

  it('give layers with less KV a token more tokens in a block, and say what a pool holds', () => {
    const made = groupLayers(times(4, full, sliding(128, 1024)), { memoryBytes: 100 * 4 * 16 * 4096 + 5 });
    expect(made.kvGroups).toEqual([
      { type: 'full', blockSize: 16 },
      { type: 'sliding', window: 128, blockSize: 64 },
    ]);
    expect([made.bytesPerBlock, made.numBlocks]).toEqual([4 * 16 * 4096, 100]);
    const { numBlocks, kvGroups } = made;
    using scheduler = new Scheduler({ numBlocks, kvGroups, maxModelLen: 512 });
    scheduler.add({ id: 'a', prompt: Int32Array.from({ length: 100 }, (_, i) => i), maxTokens: 2 });
    expect([...scheduler.schedule().groups].map((group) => group.numBlocks[0])).toEqual([7, 2]);
  });

  it.each([
    [
      [
        { ...full, bytes: 4096 },
        { ...full, bytes: 3000 },
      ],
      /layers\[1\]\.bytes must be a divisor of the largest page \(65536 bytes\)/,
    ],
    [[], /layers must be a list of one layer or more/],
    [[{ type: 'full' }], /layers\[0\]\.bytes must be an integer from 1 to/],
    [[{ ...full, windw: 3 }], /windw.*did you mean window/],
  ])('are refused for %j', (layers, message) => {
    expect(() => groupLayers(layers as KvLayer[])).toThrow(message);
  });
});
