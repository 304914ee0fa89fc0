import { beforeEach, describe, expect, it } from 'vitest';
import { TraceKvEvents } from './kv-events.js';
import type { SubjectKvEvent } from './subject.js';
import type { TraceKvEvent } from './trace.js';

type Stored = Extract<SubjectKvEvent, { type: 'stored' }>;

const hashes = (n: number) => new Uint8Array(16 * n);

/** A run of n places behind another one. */
function stored(n: number, fields: Partial<Stored> = {}): Stored {
  const { blockSize = 4 } = fields;
  return {
    type: 'stored',
    medium: 'GPU',
    hashes: hashes(n),
    parentHash: hashes(1),
    firstBlock: 1,
    tokenIds: new Int32Array(n * blockSize),
    adapter: null,
    cacheSalt: null,
    isReused: false,
    group: 0,
    blockSize,
    kind: 'full',
    window: null,
    ...fields,
  };
}

const removed = (group: number, n: number): SubjectKvEvent => ({
  type: 'removed',
  medium: 'GPU',
  hashes: hashes(n),
  group,
});

describe('KV cache events in the words of a trace', () => {
  let events: TraceKvEvents;
  beforeEach(() => {
    events = new TraceKvEvents();
  });

  it('name group, counts, block size, parent, kind, window, adapter and the keys of each hash', () => {
    const own = { parentHash: null, adapter: 'L1', cacheSalt: 'S1' };
    events.onEvents([stored(2, own), stored(1, { cacheSalt: 'S1' })]);
    events.onEvents([stored(1, { group: 1, blockSize: 8, kind: 'sliding', window: 5 }), removed(1, 2)]);
    events.onEvents([{ type: 'cleared' }]);
    expect(events.drain([])).toEqual([
      ['stored', 0, 2, 8, 4, 0, 'full_attention', null, 'L1', [['L1', 'S1'], ['L1']]],
      ['stored', 0, 1, 4, 4, 1, 'full_attention', null, null, [null]],
      ['stored', 1, 1, 8, 8, 1, 'sliding_window', 5, null, [null]],
      ['removed', 1, 2],
      ['cleared'],
    ]);
    expect(events.drain([])).toEqual([]);
  });

  it.each([
    ['full', 'full_attention'],
    ['mla', 'mla_attention'],
    ['sink', 'sink_full_attention'],
    ['chunked', 'chunked_local_attention'],
    ['mamba', 'mamba'],
  ] as const)('name the kind %s as vLLM does', (kind, name) => {
    events.onEvents([stored(1, { kind })]);
    expect(events.drain([])[0]?.[6]).toBe(name);
  });

  const whole: TraceKvEvent[] = [
    ['stored', 0, 2, 8, 4, 1, 'full_attention', null, null, [null, null]],
    ['stored', 0, 1, 4, 4, 0, 'full_attention', null, null, [null]],
  ];

  it('stand in the order of the recorded ones, whatever their own is', () => {
    const recorded: TraceKvEvent[] = [['removed', 1, 1], ...whole, ['removed', 0, 1], ['removed', 1, 1]];
    events.onEvents([stored(2), removed(0, 1), removed(1, 2), stored(1, { parentHash: null })]);
    expect(events.drain(recorded)).toEqual(recorded);
  });

  it('show what is missing, and what nobody recorded', () => {
    events.onEvents([stored(2), removed(0, 1), { type: 'cleared' }]);
    expect(events.drain([...whole, ['removed', 1, 1]])).toEqual([
      whole[0],
      null,
      null,
      ['removed', 0, 1],
      ['cleared'],
    ]);
    expect(events.drain([['cleared']])).toEqual([null]);
  });

  it('show one hash more or less, and a run that was cut in two', () => {
    events.onEvents([stored(3), stored(1, { parentHash: null })]);
    expect(events.drain(whole)[0]?.[2]).toBe(3);
    events.onEvents([stored(1), stored(1), stored(1, { parentHash: null })]);
    expect(events.drain(whole)).not.toEqual(whole);
    events.onEvents([stored(2, { tokenIds: new Int32Array(7) })]);
    expect(events.drain([whole[0]])[0]?.[3]).toBe(7);
  });

  it('are not expected of the part of a block in which a prompt ends', () => {
    const tail: TraceKvEvent = ['stored', 1, 1, 4, 4, 1, 'full_attention', null, null, [null]];
    const of = new TraceKvEvents([4, 8]);
    expect(of.drain([tail])).toEqual([tail]);
    const others: TraceKvEvent[] = [
      ['stored', 0, 1, 4, 4, 1, 'full_attention', null, null, [null]],
      ['stored', 1, 2, 8, 4, 1, 'full_attention', null, null, [null, null]],
      ['stored', 1, 1, 8, 8, 1, 'full_attention', null, null, [null]],
      ['stored', 1, 1, 4, 4, 1, 'sliding_window', 5, null, [null]],
    ];
    expect(of.drain(others)).toEqual([null, null, null, null]);
  });

  const holed: TraceKvEvent = ['stored', 0, 3, 24, 4, 0, 'full_attention', null, null, [null, null, null]];

  it('are together one recorded event, of which some places were not stored', () => {
    events.onEvents([stored(2), stored(1)]);
    expect(events.drain([holed])).toEqual([holed]);
    events.onEvents([stored(2, { parentHash: null }), stored(1)]);
    expect(events.drain([holed])).toEqual([holed]);
  });

  it.each([
    ['one hash less', [stored(2)]],
    ['one hash more', [stored(2), stored(2)]],
    ['another adapter', [stored(2), stored(1, { adapter: 'L1' })]],
    ['another window', [stored(2), stored(1, { window: 4 })]],
    ['a run that begins a prompt behind another one', [stored(2), stored(1, { parentHash: null })]],
    ['tokens that are not those of the hashes', [stored(2), stored(1, { tokenIds: new Int32Array(3) })]],
  ])('are not that event with %s', (_, runs) => {
    events.onEvents(runs);
    expect(events.drain([holed])).not.toEqual([holed]);
  });

  it('leave no hole that is no multiple of a block', () => {
    const odd = [...holed] as typeof holed;
    odd[3] = 25;
    events.onEvents([stored(2), stored(1)]);
    expect(events.drain([odd])).not.toEqual([odd]);
  });
});
