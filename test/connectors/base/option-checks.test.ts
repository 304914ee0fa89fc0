// Every connector refuses unknown options, and clocks and lane factories that cannot be called.
import { describe, expect, it } from 'vitest';
import { LeaseConnector, LeaseWorker, MemoryHub, ZmqLink } from '../../../src/connectors/lease/index.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import { OffloadConnector, OffloadWorker, offload } from '../../../src/connectors/offload/index.js';
import { StoreConnector, StoreThread, StoreWorker } from '../../../src/connectors/store/index.js';
import { BlockArena } from '../../../src/transfer.js';

type Any = never;
const memory = { kv: BlockArena.allocate({ numBlocks: 2, bytesPerBlock: 64 }) };
const store = { path: '/tmp/blockstep-option-checks/kv.slots' };
const format = { model: 'm', layout: 'l', dtype: 'd', bytesPerBlock: 64 };
const link = { address: 'a', listen() {}, send() {}, forget() {}, stats() {}, close() {} };

/** Everything public that takes options and moves blocks. */
const MAKERS: readonly (readonly [name: string, make: (options: unknown) => unknown])[] = [
  ['an OffloadConnector', (options) => new OffloadConnector(options as Any)],
  ['an OffloadWorker', (options) => new OffloadWorker(options as Any)],
  ['offload', (options) => offload(options as Any)],
  ['a StoreConnector', (options) => new StoreConnector(options as Any)],
  ['a StoreWorker', (options) => new StoreWorker(options as Any)],
  ['a StoreThread', (options) => new StoreThread(options as Any)],
  ['a LeaseConnector', (options) => new LeaseConnector(options as Any)],
  ['a LeaseWorker', (options) => new LeaseWorker(options as Any)],
  ['a MemoryHub', (options) => new MemoryHub(options as Any)],
  ['a MultiConnector', (options) => new MultiConnector(options as Any)],
  ['a MultiWorker', (options) => new MultiWorker(options as Any)],
];

describe('options', () => {
  it.each(MAKERS)('of %s are an object with known names', (_name, make) => {
    for (const [options, shown] of [
      [null, 'null'],
      [7, '7'],
      ['x', '"x"'],
    ])
      expect(() => make(options)).toThrow(`must be an object, got ${shown}`);
    expect(() => make({ quuxly: 1 })).toThrow(/"quuxly"/);
  });

  it('of a link over ZeroMQ are an object with known names', async () => {
    await expect(ZmqLink.open(null as Any)).rejects.toThrow('must be an object, got null');
  });

  it.each([
    ['an OffloadConnector', (now: Any) => new OffloadConnector({ hostBlocks: 4, now })],
    ['a StoreConnector', (now: Any) => new StoreConnector({ store, format, now })],
    ['a StoreWorker', (now: Any) => new StoreWorker({ store, memory, now })],
    ['a StoreThread', (now: Any) => new StoreThread({ store, now })],
    ['a LeaseWorker', (now: Any) => new LeaseWorker({ memory, link: link as Any, now })],
  ])('have a clock that can be called: %s', (_name, make) => {
    expect(() => make(7 as Any)).toThrow('now must be a function that returns milliseconds, got 7');
  });

  it.each([
    ['an OffloadWorker', (makeLane: Any) => new OffloadWorker({ memory, hostBlocks: 4, makeLane })],
    ['a StoreWorker', (makeLane: Any) => new StoreWorker({ store, memory, makeLane })],
    ['a LeaseWorker', (makeLane: Any) => new LeaseWorker({ memory, link: link as Any, makeLane })],
  ])('make lanes by a function: %s', (_name, make) => {
    expect(() => make(null as Any)).toThrow('makeLane must be a function that makes a lane, got null');
  });
});
