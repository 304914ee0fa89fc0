// Errors and their codes, the loader of the addon, and the wrapper of a native core.
import { describe, expect, it } from 'vitest';
import { BlockstepError, checkInteger, ERROR_CODES, show } from '../../src/base/errors.js';
import { Core, generationOf, SLOT_LIMIT, slotOf } from '../../src/core/core.js';
import { exchangeWords, makeExchange } from '../../src/core/exchange.js';
import { addonPaths, loadAddon, loadAddonFrom } from '../../src/core/loader.js';
import { hashSeedBytes } from '../../src/scheduler/options/hash-seed.js';
import { BenchCore, codeOf, SMALL } from '../support/core-bench.js';

describe('errors', () => {
  it('every code has its prefix and says when it is thrown', () => {
    for (const [code, when] of Object.entries(ERROR_CODES)) {
      expect(code).toMatch(/^ERR_BLOCKSTEP_[A-Z_]+$/);
      expect(when.length).toBeGreaterThan(10);
    }
  });

  it('an error carries its code and its cause', () => {
    const cause = new Error('below');
    const error = new BlockstepError('ERR_BLOCKSTEP_LIMIT', 'too much', { cause });
    expect(error).toBeInstanceOf(Error);
    expect([error.name, error.code, error.message, error.cause]).toEqual([
      'BlockstepError',
      'ERR_BLOCKSTEP_LIMIT',
      'too much',
      cause,
    ]);
  });

  it('native errors are of the same class and print the value', () => {
    using core = new BenchCore(loadAddon());
    try {
      core.native.refCount(-1.5);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(BlockstepError);
      expect((error as Error).message).toBe('id must be an integer from 0 to 32, got -1.5');
    }
  });

  it('shows any value without running its code for long or throwing', () => {
    const trap = new Proxy([], {
      get() {
        throw new Error('no');
      },
    });
    const shown = [
      undefined,
      null,
      'a"b',
      'x'.repeat(99),
      5n,
      -0,
      Symbol('s'),
      [1, 2],
      {},
      Object.create(null),
      trap,
    ];
    expect(shown.map(show)).toEqual([
      'undefined',
      'null',
      '"a\\"b"',
      `"${'x'.repeat(56)}...`,
      '5n',
      '-0',
      'Symbol(s)',
      'an array of 2',
      'an object (Object)',
      'an object (no class)',
      'object',
    ]);
    expect(show(() => 1)).toBe('a function');
  });

  it('checkInteger takes integers of its range only', () => {
    expect([checkInteger('n', 3, 3, 3), Object.is(checkInteger('n', -0, 0, 1), 0)]).toEqual([3, true]);
    for (const bad of [2, 4, 3.5, '3', 3n, Number.NaN, undefined, null]) {
      expect(codeOf(() => checkInteger('n', bad, 3, 3))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });
});

describe('loader', () => {
  it('looks for what CMake and node-gyp built here, then for the prebuilt binary', () => {
    const override = process.env['BLOCKSTEP_ADDON'] ?? '';
    process.env['BLOCKSTEP_ADDON'] = '';
    const [cmake, gyp, gypAtRoot, prebuilt] = addonPaths('/root');
    expect(prebuilt).toMatch(/^\/root\/prebuilds\/\w+-\w+(-musl)?\/blockstep\.node$/);
    expect(cmake).toBe('/root/native/build/Release/blockstep.node');
    expect(gyp).toBe('/root/native/gyp/build/Release/blockstep_host.node');
    expect(gypAtRoot).toBe('/root/build/Release/blockstep_host.node');
    process.env['BLOCKSTEP_ADDON'] = '/else/where.node';
    expect(addonPaths('/root')).toEqual(['/else/where.node']);
    process.env['BLOCKSTEP_ADDON'] = override;
    expect(loadAddon()).toBe(loadAddon());
  });

  it('a file that is no addon, or another abi, is refused', () => {
    expect(codeOf(() => loadAddonFrom('/nowhere/blockstep.node'))).toBe('ERR_BLOCKSTEP_NO_NATIVE');
    expect(codeOf(() => loadAddonFrom(new URL('../../package.json', import.meta.url).pathname))).toBe(
      'ERR_BLOCKSTEP_NO_NATIVE',
    );
  });
});

describe('core', () => {
  it('handles hold slot and generation', () => {
    const handle = SLOT_LIMIT - 1 + (2 ** 32 - 1) * SLOT_LIMIT;
    expect(Number.isSafeInteger(handle)).toBe(true);
    expect([slotOf(handle), generationOf(handle)]).toEqual([SLOT_LIMIT - 1, 2 ** 32 - 1]);
  });

  it('the exchange buffer holds control words, pending pairs, frames and sampled tokens, one after the other', () => {
    const shape = { pendingCapacity: 3, numFrames: 2, maxEntries: 5 };
    const { buffer, control, pending, frames, sampled } = makeExchange(shape);
    expect([control.length, pending.length, pending.byteOffset]).toEqual([64, 6, 256]);
    expect(frames.map((frame) => frame.slots.byteOffset)).toEqual([280, 400]);
    expect([frames[1].numNewBlocks.byteOffset + 20, sampled.length]).toEqual([sampled.byteOffset, 5]);
    expect(sampled.byteOffset + 20).toBe(buffer.byteLength);
    expect(buffer.byteLength).toBe(4 * exchangeWords(shape));
  });

  it('defaults what only concerns the border', () => {
    const { numFrames, pendingCapacity, lookahead, ...rest } = SMALL;
    using core = new Core(rest);
    expect(core.config).toMatchObject({ numFrames: 1, pendingCapacity: 96, lookahead: 0 });
    expect([numFrames, pendingCapacity, lookahead]).toEqual([2, 16, 0]);
    expect(core.control[1]).toBe(-1);
  });

  it('hash seeds come as bytes, numbers or BigInts', () => {
    const bytes = Uint8Array.from({ length: 16 }, (_, i) => i);
    expect(hashSeedBytes(bytes)).toEqual(bytes);
    expect(hashSeedBytes(bytes)).not.toBe(bytes);
    expect([...hashSeedBytes(0x0201)].slice(0, 3)).toEqual([1, 2, 0]);
    expect([...hashSeedBytes((1n << 128n) - 1n)]).toEqual(new Array(16).fill(255));
    for (const bad of [new Uint8Array(15), -1, 0.5, 2 ** 53, -1n, 1n << 128n, 'x' as never]) {
      expect(codeOf(() => hashSeedBytes(bad))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });
});
