// The back end of a core (host or CUDA), the data that goes to it, and a mirror on a real or
// emulated GPU.
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import { Core } from '../../src/core/core.js';
import { makeExchange } from '../../src/core/exchange.js';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeAddon, NativeConfig } from '../../src/core/native/native.js';
import { probeBackends, resolvePlacement } from '../../src/core/placement.js';
import { Scheduler } from '../../src/index.js';
import { codeOf, SMALL } from '../support/core-bench.js';

const addon = loadAddon();
const [host, cuda] = probeBackends();
const POOL = { numBlocks: 33, maxModelLen: 64, maxNumSeqs: 4 };

/** The addon of this machine, which writes down what is asked of it and makes host cores of everything. */
function spyAddon(): { addon: NativeAddon; asked: NativeConfig[] } {
  const asked: NativeConfig[] = [];
  const create = (config: NativeConfig, exchange: ArrayBuffer) => {
    asked.push(config);
    const { cuda: _cuda, authority: _authority, ...plain } = config;
    return addon.create(plain, exchange);
  };
  return { addon: { ...addon, create }, asked };
}

describe('the back ends of this machine', () => {
  it('are reported with a reason in words', () => {
    expect(host).toEqual({ name: 'host', usable: true, reason: 'always there' });
    expect(cuda.name).toBe('cuda');
    expect(cuda.usable).toEqual(expect.any(Boolean));
    expect(cuda.reason).toMatch(/\w{4,} \w+/);
  });

  it('are those that were compiled, of which an unusable one says what is missing', () => {
    expect(addon.backends.slice(0, 1)).toEqual(['host']);
    if (!addon.backends.includes('cuda'))
      expect(cuda.reason).toBe('this build of the addon has no CUDA back end');
  });

  it.skipIf(cuda.usable || !addon.backends.includes('cuda'))('name the error of CUDA', () => {
    expect(cuda.reason).toMatch(
      /no CUDA driver: cudaError\w+ \(\d+\): |cudaError|self-test failed: |there is no GPU/,
    );
  });

  it('refuse a device that is none', () => {
    for (const device of ['gpu', 'cuda:x', 'cuda:-1', '']) {
      expect(codeOf(() => probeBackends(device))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const device of [-1, 0.5, 1024, Number.NaN, '0', undefined, 1n]) {
      expect(codeOf(() => addon.probe(device as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('do not know a GPU that is not there', () => {
    const last = probeBackends('cuda:999')[1];
    expect(last.usable).toBe(false);
    if (cuda.usable) expect(last.reason).toContain('there is no GPU 999');
  });
});

describe('the choice', () => {
  it('is the host unless the executor is on a GPU', () => {
    const { addon: spy, asked } = spyAddon();
    for (const options of [
      {},
      { device: 'cpu' },
      { backend: 'auto' as const },
      { backend: 'host' as const, device: 'cuda' },
    ]) {
      using core = new Core({ ...SMALL, ...options }, spy);
      expect(core.backend.name).toBe('host');
      expect(core.backend.reason).toMatch(/asked for|the executor's device is cpu/);
      expect(Object.isFrozen(core.backend)).toBe(true);
    }
    expect(asked.map(({ cuda }) => cuda)).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('follows the executor to its GPU, and passes on its number, its stream and the bound', () => {
    const { addon: spy, asked } = spyAddon();
    const options = { device: 'cuda:3', stream: 2n ** 64n - 1n, numFrames: 4 };
    for (const backend of ['auto', 'cuda'] as const) {
      using core = new Core({ ...SMALL, ...options, backend }, spy);
      expect(core.backend.name).toBe('cuda');
      expect(core.backend.reason).toBe(backend === 'auto' ? "the executor's device is cuda:3" : 'asked for');
      expect(asked.at(-1)?.cuda).toEqual({
        device: 3,
        stream: 2n ** 64n - 1n,
        launchThread: false,
        maxLogs: 4,
      });
    }
    using core = new Core({ ...SMALL, backend: 'cuda', launchThread: true }, spy);
    expect(core.backend.name).toBe('cuda');
    const maxLogs = SMALL.numFrames;
    expect(asked.at(-1)?.cuda).toEqual({ device: 0, stream: null, launchThread: true, maxLogs });
  });

  it.skipIf(cuda.usable)('falls back to the host under auto, and says why', () => {
    using scheduler = new Scheduler({ ...POOL, device: 'cuda' });
    expect(scheduler.core.backend.name).toBe('host');
    expect(scheduler.core.backend.reason).toBe(`the CUDA back end cannot be used: ${cuda.reason}`);
  });

  it.skipIf(cuda.usable)('is refused, with the reason, where CUDA was asked for', () => {
    for (const make of [
      () => new Core({ ...SMALL, backend: 'cuda' }),
      () => new Scheduler({ ...POOL, backend: 'cuda' }),
    ]) {
      expect(codeOf(make)).toBe('ERR_BLOCKSTEP_CUDA');
      expect(make).toThrow(`the CUDA back end cannot be used: ${cuda.reason}`);
    }
  });

  it('is a GPU where that is to decide, wherever the executor is', () => {
    const { addon: spy, asked } = spyAddon();
    for (const [options, device] of [
      [{}, 0],
      [{ backend: 'cuda' }, 0],
      [{ device: 'cuda:2' }, 2],
    ] as const) {
      using core = new Core({ ...SMALL, ...options, authority: 'device' }, spy);
      const reason = 'backend' in options ? 'asked for' : "authority 'device' needs a GPU";
      expect(core.backend).toEqual({ name: 'cuda', authority: 'device', reason });
      expect(asked.at(-1)).toMatchObject({ authority: 'device', cuda: { device } });
    }
    using core = new Core(SMALL, spy);
    expect(core.backend.authority).toBe('host');
    expect(() => new Core({ ...SMALL, backend: 'host', authority: 'device' })).toThrow(
      'backend must be auto or cuda with authority \'device\', got "host"',
    );
  });

  it.skipIf(cuda.usable)('is never the host instead of a GPU that is to decide', () => {
    for (const options of [{}, { backend: 'auto' }, { backend: 'cuda', device: 'cuda' }] as const) {
      const make = () => new Scheduler({ ...POOL, ...options, authority: 'device' });
      expect(codeOf(make)).toBe('ERR_BLOCKSTEP_CUDA');
      expect(make).toThrow(
        `authority 'device' needs a GPU, and the CUDA back end cannot be used: ${cuda.reason}`,
      );
    }
  });

  it('hides no other error behind a fallback', () => {
    const failing = {
      ...addon,
      create: () => {
        throw new TypeError('another');
      },
    };
    expect(() => new Core({ ...SMALL, device: 'cuda' }, failing)).toThrow(new TypeError('another'));
    expect(codeOf(() => new Core({ ...SMALL, device: 'cuda', numBlocks: 1 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('reads every property once', () => {
    const reads: string[] = [];
    const options = new Proxy({}, { get: (_, key) => void reads.push(String(key)) });
    expect(resolvePlacement(options)).toEqual({
      backend: 'auto',
      authority: 'host',
      device: 'cpu',
      stream: null,
      launchThread: false,
    });
    expect(reads).toEqual(['backend', 'authority', 'device', 'stream', 'launchThread']);
  });
});

describe('the border', () => {
  const exchange = () => makeExchange(SMALL as NativeConfig).buffer;
  const create = (cuda: unknown) => addon.create({ ...SMALL, cuda } as NativeConfig, exchange());
  const GOOD = { device: 0, stream: null, maxLogs: 2 };

  it('checks the configuration of a mirror before it looks for a GPU', () => {
    for (const bad of [0, 1, true, 'cuda', 1n, () => 1, Symbol('s')]) {
      expect(
        codeOf(() => create(bad)),
        String(bad),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const change of [
      ...[-1, 1024, 0.5, '0', undefined, Number.NaN].map((device) => ({ device })),
      ...[0, 65, 1.5, undefined, '2'].map((maxLogs) => ({ maxLogs })),
      ...[0, -1n, 2n ** 64n, '0', {}].map((stream) => ({ stream })),
      ...[0, 1, 'true', {}].map((launchThread) => ({ launchThread })),
      { launchThread: true, stream: 7n },
    ]) {
      expect(codeOf(() => create({ ...GOOD, ...change }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('makes a host core where no mirror is asked for', () => {
    for (const none of [undefined, null]) {
      const core = create(none);
      expect(core.memory()).toMatchObject({ deviceBytes: 0, pinnedBytes: 0 });
      core.dispose();
    }
  });

  it('takes the calls of a mirror without one, and does nothing', () => {
    using core = new Core(SMALL);
    core.submit();
    core.native.submit();
    core.native.submit(null);
    core.native.submit(0n);
    expect(core.native.poll()).toBe(true);
    core.native.startMirrorDigest();
    expect(core.native.mirrorDigest()).toBe(core.native.digest());
    for (const bad of [0, 1, '', {}, -1n, 2n ** 64n]) {
      expect(codeOf(() => core.native.submit(bad as bigint))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    core.dispose();
    for (const call of ['submit', 'poll', 'startMirrorDigest', 'mirrorDigest'] as const) {
      expect(codeOf(() => core.native[call]())).toBe('ERR_BLOCKSTEP_DISPOSED');
    }
  });
});

describe('the end of a step', () => {
  /** A core that believes in a mirror, whose native submit is replaced. */
  function mirrored(submit: (stream?: bigint | null) => void): Core {
    const { addon: spy } = spyAddon();
    const create = (config: NativeConfig, exchange: ArrayBuffer) =>
      Object.defineProperty(spy.create(config, exchange), 'submit', { value: submit });
    return new Core({ ...SMALL, backend: 'cuda' }, { ...spy, create });
  }

  it('is told to the mirror, with the stream that it was given', () => {
    const streams: unknown[] = [];
    using core = mirrored((stream) => streams.push(stream));
    core.submit();
    core.submit(5n);
    expect(streams).toEqual([null, 5n]);
  });

  it('is where a mirror that differs is heard of', () => {
    using core = mirrored(() => {
      throw new BlockstepError('ERR_BLOCKSTEP_MIRROR', 'differs');
    });
    expect(codeOf(() => core.submit())).toBe('ERR_BLOCKSTEP_MIRROR');
  });
});

describe.skipIf(!cuda.usable)('a mirror on this GPU', () => {
  it('has the state of the host after every step', async () => {
    using scheduler = new Scheduler({ ...POOL, backend: 'cuda', pipelineDepth: 2 });
    const { native } = scheduler.core;
    expect(native.memory().deviceBytes).toBeGreaterThan(0);
    const counts = new Int32Array(4);
    for (let step = 0; step < 200; step++) {
      if (step % 3 === 0)
        scheduler.add({
          id: `r${step}`,
          prompt: new Int32Array(7 + (step % 20)).fill(step % 2),
          maxTokens: 9,
        });
      const plan = scheduler.schedule();
      for (let i = 0; i < plan.numRequests; i++) counts[i] = Math.min(1, plan.maxOutputTokens[i]);
      scheduler.update(plan, {
        tokens: new Int32Array(8).fill(1),
        counts: counts.slice(0, plan.numRequests),
      });
      native.startMirrorDigest();
      while (native.mirrorDigest() === null) await new Promise(setImmediate);
      expect(native.mirrorDigest()).toBe(native.digest());
    }
  });
});
