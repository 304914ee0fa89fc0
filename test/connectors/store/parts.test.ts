// Sealed values, keys, the breaker, URLs, bad options.
import { describe, expect, it } from 'vitest';
import { connectionOptions } from '../../../src/base/packages/redis-address.js';
import type { KvView } from '../../../src/connector.js';
import { Breaker } from '../../../src/connectors/store/client/breaker.js';
import { blockKey, checkFormat, spaceOf } from '../../../src/connectors/store/scheduler/block-names.js';
import { SEAL_BYTES, seal, unseal } from '../../../src/connectors/store/stores/sealed-value.js';
import { checkStore } from '../../../src/connectors/store/stores/store-options.js';
import { StoreWorker } from '../../../src/connectors/store/worker/store-worker.js';
import { BlockArena } from '../../../src/transfer.js';
import { codeOf } from '../../support/driver.js';
import { Random } from '../../support/engine-bench.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { serve } from './support/life.js';

describe('a sealed value', () => {
  const content = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

  it('gives its content back under its key', () => {
    const value = seal('key', content);
    expect(value.length).toBe(SEAL_BYTES + 1000);
    expect(unseal('key', value, 1000)).toEqual(Buffer.from(content));
    expect(unseal('other', value, 1000)).toBe(null);
  });

  it('is refused when any of its bits was changed, or its length', () => {
    const random = new Random(1);
    const value = seal('key', content);
    const bits = [...Array(8 * SEAL_BYTES).keys()];
    for (let i = 0; i < 300; i++) bits.push(random.below(8 * value.length));
    for (const bit of bits) {
      const changed = Uint8Array.from(value);
      changed[bit >> 3] ^= 1 << (bit & 7);
      expect(unseal('key', changed, 1000), `bit ${bit}`).toBe(null);
    }
    for (const length of [0, 1, SEAL_BYTES - 1, SEAL_BYTES, value.length - 1])
      expect(unseal('key', value.subarray(0, length), 1000)).toBe(null);
    expect(unseal('key', Buffer.concat([value, Buffer.alloc(1)]), 1000)).toBe(null);
    expect(unseal('key', value, 999)).toBe(null);
    expect(unseal('key', value, 1001)).toBe(null);
  });
});

describe('the keys of two engines', () => {
  const format = { model: 'm', layout: 'l', dtype: 'bf16', bytesPerBlock: 64 };
  const view = { blockSize: 16, hashSpace: 'a', numGroups: 1, layout: '' } as KvView;

  it('differ if anything differs that their blocks mean', () => {
    const space = spaceOf(format, view, 1);
    expect(spaceOf({ ...format }, { ...view }, 1)).toBe(space);
    const others = [
      ...Object.entries({ model: 'n', layout: 'k', dtype: 'fp8', bytesPerBlock: 65 }).map(([name, value]) =>
        spaceOf({ ...format, [name]: value }, view, 1),
      ),
      spaceOf(format, { ...view, blockSize: 32 }, 1),
      spaceOf(format, { ...view, hashSpace: 'b' }, 1),
      spaceOf(format, { ...view, numGroups: 2 }, 1),
      spaceOf(format, { ...view, layout: 'a window of 64' }, 1),
      spaceOf(format, { ...view, layout: 'a window of 65' }, 1),
      spaceOf(format, view, 2),
      spaceOf(format, view, 1, 'reset'),
    ];
    expect(new Set([space, ...others]).size).toBe(12);
    const keys = [blockKey(space, 0, 0, 1n), blockKey(space, 0, 1, 1n), blockKey(space, 1, 0, 1n)];
    expect(new Set([...keys, blockKey(space, 0, 0, 2n)]).size).toBe(4);
  });

  it('cannot be made without a hash seed that others can have', () => {
    expect(codeOf(() => spaceOf(format, { ...view, hashSpace: null }, 1))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const served = () =>
      serve({ store: { url: 'redis://127.0.0.1:1' }, engine: { hashSeed: undefined } as never });
    expect(served).toThrow(/hashSeed must be given/);
  });
});

describe('a breaker', () => {
  it('lets one call through after each pause, and pauses longer from probe to probe', () => {
    let now = 0;
    const breaker = new Breaker(() => now, { pauseMs: 10, maxPauseMs: 35 });
    expect([breaker.state, breaker.isPassable]).toEqual(['closed', true]);
    breaker.bad();
    // Calls that began before fail too, and change nothing.
    breaker.bad();
    for (const pause of [10, 20, 35, 35]) {
      now += pause - 1;
      expect([breaker.state, breaker.isPassable]).toEqual(['open', false]);
      now += 1;
      expect(breaker.isPassable).toBe(true);
      breaker.pass();
      expect([breaker.state, breaker.isPassable]).toEqual(['probing', false]);
      breaker.bad();
    }
    now += 35;
    breaker.pass();
    breaker.good();
    expect([breaker.state, breaker.isPassable]).toEqual(['closed', true]);
    breaker.bad();
    now += 10;
    expect(breaker.isPassable).toBe(true);
  });
});

it('URLs say where a server is, and as whom to speak to it', () => {
  const none = {};
  expect(connectionOptions('redis://', none)).toEqual({ host: '127.0.0.1', port: 6379, db: 0 });
  expect(connectionOptions('redis://:a%40b@[::1]:7000/3', none)).toEqual({
    ...{ host: '::1', port: 7000, password: 'a@b', db: 3 },
  });
  expect(connectionOptions('rediss://u:p@kv.example/1', { ca: 'pem' })).toEqual({
    ...{ host: 'kv.example', port: 6379, username: 'u', password: 'p', db: 1 },
    tls: { servername: 'kv.example', ca: 'pem' },
  });
  for (const host of ['10.0.0.1', '[::1]'])
    expect(connectionOptions(`rediss://${host}`, { ca: 'pem' }).tls).toEqual({ ca: 'pem' });
  expect(connectionOptions('redis+unix:///run/kv.sock?db=2', none)).toEqual({ path: '/run/kv.sock', db: 2 });
});

describe('bad options are refused at the start', () => {
  const format = { model: 'm', layout: 'l', dtype: 'd', bytesPerBlock: 64 };
  const good = { path: `${temporaryFolderName()}/kv.slots` };

  function temporaryFolderName(): string {
    return '/tmp/blockstep-store-options';
  }

  it.each([
    ['no store', () => checkStore(undefined), /store must be/],
    ['neither path nor url', () => checkStore({}), /path \(embedded\), url .* or open/],
    ['an unknown name', () => checkStore({ ...good, maxByte: 1 }), /maxBytes/],
    ['a bound that is too small', () => checkStore({ ...good, maxBytes: 100 }), /store.maxBytes/],
    ['a path that is none', () => checkStore({ path: 7 }), /store.path/],
    ['a URL that is none', () => checkStore({ url: 'kv' }), /store.url/],
    ['a URL of something else', () => checkStore({ url: 'http://kv' }), /store.url/],
    ['a time that is none', () => checkStore({ url: 'redis://kv', ttlMs: -1 }), /store.ttlMs/],
    ['a way to open a store that is none', () => checkStore({ open: 7 }), /store.open/],
    ['two stores at once', () => checkStore({ ...good, open: () => Promise.reject() }), /open/],
    ['a format without a model', () => checkFormat({ ...format, model: '' }), /format.model/],
    ['a format with an unknown name', () => checkFormat({ ...format, dtyp: 'x' }), /dtype/],
  ])('%s', (_name, act, message) => {
    expect(codeOf(act)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(act).toThrow(message);
  });

  it('a message never has the password of a URL', () => {
    try {
      checkStore({ url: 'http://:secret@kv' });
    } catch (error) {
      expect(String(error)).not.toContain('secret');
    }
  });

  it('a store, before memory is taken for it', () => {
    const memory = { kv: BlockArena.allocate({ numBlocks: 2, bytesPerBlock: 64 }) };
    const worker = (path: string) => () =>
      new StoreWorker({ memory, store: { path }, stagingBytes: 2 ** 46 });
    expect(codeOf(worker('/dev/null/kv.slots'))).toBe('ERR_BLOCKSTEP_BAD_FILE');
    expect(codeOf(worker(`${temporaryFolder()}/kv.slots`))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });

  it('a staging arena that is too small, or that the machine has no room for', () => {
    const store = { path: `${temporaryFolder()}/kv.slots` };
    expect(codeOf(() => serve({ store, stagingBlocks: 1 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => serve({ store, stagingBlocks: 2 ** 38 }))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });
});
