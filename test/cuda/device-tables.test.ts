// The tables of a step on a GPU equal the host's, with KV cache groups too. Bad gathers, a GPU that
// fails, and an executor on a GPU.
import { afterEach, describe, expect, it } from 'vitest';
import type { Core } from '../../src/core/core.js';
import { TABLE_NAMES } from '../../src/core/device-tables.js';
import { loadAddon } from '../../src/core/loader.js';
import { type DeviceTables, Engine, type Plan, Scheduler, type StepTables } from '../../src/index.js';
import { liveWithGroups, randomGroups } from '../core/group-life.js';
import { BenchCore, codeOf, range, seeded } from '../support/core-bench.js';
import { prompt } from '../support/driver.js';
import { answerOf, settled } from '../support/engine-bench.js';
import { FakeGrammar } from '../support/fake-grammar.js';
import { isEmulated, plant } from '../support/gpu.js';
import { share } from '../support/share.js';

const OPTIONS = { numBlocks: 60, blockSize: 4, maxModelLen: 96, maxNumSeqs: 8, backend: 'cuda' } as const;
/** The stream that CUDA calls the default one. */
const STREAM = 0n;

/** Every array of a set of tables, by name. */
function contentOf(tables: DeviceTables | StepTables): Record<string, unknown> {
  const read = (name: (typeof TABLE_NAMES)[number]) =>
    'descriptor' in tables ? tables.read(name) : tables[name];
  const groups = tables.groups.map(({ slotMapping, blockTable }, g) =>
    'descriptor' in tables
      ? [tables.read('slotMapping', g), tables.read('blockTable', g)]
      : [slotMapping, blockTable],
  );
  return { ...Object.fromEntries(TABLE_NAMES.map((name) => [name, read(name)])), groups };
}

/** Gathers a plan on both sides, and expects the same. */
function expectSame(
  core: Core,
  plan: Pick<Plan, 'frame' | 'numRequests'>,
  stream: bigint | null = null,
): void {
  const onDevice = core.gatherOnDevice(plan.frame, plan.numRequests, stream);
  const onHost = core.gather(plan.frame, plan.numRequests);
  expect(contentOf(onDevice)).toEqual(contentOf(onHost));
}

describe('the tables on a GPU', () => {
  it.each([
    [1, 0, 700, {}],
    [2, 0, 500, {}],
    [3, 0, 500, {}],
    [1, 3, 300, {}],
    // A log and its gather in one launch.
    [2, 0, 500, { stream: STREAM }],
    [2, 0, 300, { launchThread: true }],
  ] as const)(
    'are those of the host: depth %i, %i drafts, %i random steps, %o',
    { timeout: 120_000 },
    (pipelineDepth, numSpeculativeTokens, steps, placement) => {
      const next = seeded(pipelineDepth + 10 * numSpeculativeTokens);
      using scheduler = new Scheduler({
        ...OPTIONS,
        ...placement,
        pipelineDepth,
        numSpeculativeTokens,
        maxNumBatchedTokens: 100,
      });
      const { core } = scheduler;
      const flight: Plan[] = [];
      let preemptions = 0;
      let gathers = 0;
      const update = (): void => {
        const plan = flight.shift();
        if (plan === undefined) return;
        const counts = plan.maxOutputTokens.slice(0, plan.numRequests).map((most) => Math.min(most, 1));
        scheduler.update(plan, {
          tokens: new Int32Array(plan.numRequests).map(() => next(50)),
          counts: Int32Array.from(counts),
        });
        if (numSpeculativeTokens > 0 && flight.length === 0) {
          scheduler.updateDraftTokens(plan, {
            tokens: new Int32Array(3 * plan.numRequests).map(() => next(50)),
            counts: Int32Array.from({ length: plan.numRequests }, () => next(4)),
          });
        }
      };
      for (let step = 0; step < steps; step++) {
        while (scheduler.numUnfinished < 12 && next(3) > 0) {
          const start = 100 * next(3); // some share their beginning
          const length = 1 + next(next(4) === 0 ? 70 : 20);
          scheduler.add({
            id: `${step}-${scheduler.numUnfinished}-${next(1e6)}`,
            prompt: Int32Array.from(range(length, start)),
            maxTokens: 1 + next(25),
          });
        }
        if (flight.length === pipelineDepth) update();
        const plan = scheduler.schedule();
        preemptions += plan.preempted.length;
        expectSame(core, plan, next(4) === 0 ? STREAM : null);
        gathers += 1;
        if (plan.totalTokens > 0) flight.push(plan);
        if (next(3) === 0) update();
      }
      expect(preemptions).toBeGreaterThan(0);
      expect(core.native.gathersGiven()).toBe(gathers);
      expect(core.native.gathersDone()).toBe(gathers);
      core.native.verify();
    },
  );

  it('stay at their addresses, which a struct for other addons names', () => {
    using scheduler = new Scheduler({ ...OPTIONS, maxNumBatchedTokens: 100 });
    const { core } = scheduler;
    const before = core.native.memory();
    const set = core.deviceTables();
    const after = core.native.memory();
    // 256 bytes more at most for each array, and a message that can be on its way on either side. The host's side keeps the addresses
    // of as many groups as there can be, too: 40 bytes for each of 8.
    const table = 12 * 100 + 4 * (3 * 8 + 1 + 8 * 24);
    const message = 12 * 8 + 4 * 100;
    expect(after.deviceBytes - before.deviceBytes).toBeGreaterThan(table + message);
    expect(after.deviceBytes - before.deviceBytes).toBeLessThan(table + message + 9 * 256 + 500);
    expect(after.pinnedBytes - before.pinnedBytes).toBeGreaterThan(2 * message);
    expect(after.pinnedBytes - before.pinnedBytes).toBeLessThan(2 * message + 256 + 8 * 40);

    const shapes = TABLE_NAMES.map((name) => [name, set[name].dtype, ...set[name].shape]);
    expect(shapes).toEqual([
      ['slotMapping', 'int64', 100],
      ['inputIds', 'int32', 100],
      ['queryStart', 'int32', 9],
      ['seqLens', 'int32', 8],
      ['numComputedTokens', 'int32', 8],
      ['blockTable', 'int32', 8, 24],
    ]);
    for (const name of TABLE_NAMES) {
      expect(set[name].pointer % 256n).toBe(0n);
      expect(set[name].device).toBe('cuda:0');
      expect(Object.isFrozen(set[name]) && Object.isFrozen(set[name].shape)).toBe(true);
    }
    expect(new Set(TABLE_NAMES.map((name) => set[name].pointer)).size).toBe(6);
    expect([set.maxTokens, set.maxEntries, set.maxBlocksPerRow, set.waits]).toEqual([100, 8, 24, 0]);
    expect(set.descriptor).toBeGreaterThan(0n);

    // All padding before the first gather.
    expect(contentOf(set as DeviceTables)).toEqual({
      slotMapping: new BigInt64Array(100).fill(-1n),
      inputIds: new Int32Array(100).fill(-1),
      queryStart: new Int32Array(9),
      seqLens: new Int32Array(8),
      numComputedTokens: new Int32Array(8),
      blockTable: new Int32Array(8 * 24),
      groups: [[new BigInt64Array(100).fill(-1n), new Int32Array(8 * 24)]],
    });
    scheduler.add({ id: 'a', prompt: prompt(6), maxTokens: 2 });
    const plan = scheduler.schedule();
    const tables = core.gatherOnDevice(plan.frame, plan.numRequests);
    expect(core.gatherOnDevice(plan.frame, plan.numRequests)).toBe(tables);
    expect(core.deviceTables()).toBe(set);
    for (const name of TABLE_NAMES) expect(tables[name]).toBe(set[name]);
    expect(tables.descriptor).toBe(set.descriptor);
    expect(core.native.memory().deviceBytes).toBe(after.deviceBytes);
  });

  it.each(range(share(5, 5, 12), 1))('of KV cache groups are those of the host: random groups %i', (seed) => {
    const options = randomGroups(seed);
    using scheduler = new Scheduler({ ...options, backend: 'cuda' });
    const { core } = scheduler;
    const { descriptor, groups } = core.deviceTables();
    const memory = core.native.memory();
    liveWithGroups(scheduler, seed, 120, (plan) => {
      expectSame(core, plan, plan.step % 4 === 0 ? STREAM : null);
    });
    expect(core.deviceTables()).toMatchObject({ descriptor, groups });
    expect(core.native.memory()).toMatchObject({
      deviceBytes: memory.deviceBytes,
      pinnedBytes: memory.pinnedBytes,
    });
    core.native.verify();
  });

  it('of KV cache groups are arrays of their own, which the struct names', () => {
    const kvGroups = [
      { type: 'sliding', window: 9, blockSize: 8 },
      { type: 'full' },
      { type: 'full' },
    ] as const;
    using scheduler = new Scheduler({ ...OPTIONS, kvGroups, maxNumBatchedTokens: 100 });
    const set = scheduler.core.deviceTables();
    const [first, second, third] = set.groups;
    expect([first.slotMapping, first.blockTable]).toEqual([set.slotMapping, set.blockTable]);
    expect(set.groups.map(({ blockSize, maxBlocksPerRow }) => [blockSize, maxBlocksPerRow])).toEqual([
      [8, 12],
      [4, 24],
      [4, 24],
    ]);
    expect(set.maxBlocksPerRow).toBe(12);
    for (const { slotMapping, blockTable, maxBlocksPerRow } of set.groups) {
      expect([slotMapping.shape, slotMapping.dtype]).toEqual([[100], 'int64']);
      expect([blockTable.shape, blockTable.dtype]).toEqual([[8, maxBlocksPerRow], 'int32']);
      expect([slotMapping.pointer % 256n, blockTable.pointer % 256n]).toEqual([0n, 0n]);
    }
    const pointers = set.groups.flatMap(({ slotMapping, blockTable }) => [
      slotMapping.pointer,
      blockTable.pointer,
    ]);
    expect(new Set(pointers).size).toBe(6);
    expect(third.blockTable.pointer - second.blockTable.pointer).toBe(768n);
    // All padding before the first gather.
    expect(set.read('slotMapping', 2)).toEqual(new BigInt64Array(100).fill(-1n));
    expect(set.read('blockTable', 1)).toEqual(new Int32Array(8 * 24));
    for (const [name, group] of [
      ['slotMapping', 3],
      ['blockTable', -1],
      ['seqLens', 1],
      ['blockTable', '1'],
    ]) {
      expect(codeOf(() => set.read(name as 'seqLens', group as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('tell the tokens of an entry, those of a cached prefix included', () => {
    using core = new BenchCore(loadAddon(), { backend: 'cuda', maxTokens: 40 });
    core.start(range(9));
    const slot = core.start(range(13));
    core.entry(0, slot, 8, 5);
    const tables = core.gatherOnDevice(0, 1);
    const out = new Int32Array(20);
    expect(tables.readTokens(0, 0, out)).toBe(13);
    expect([...out.subarray(0, 14)]).toEqual([...range(13), 0]);
    for (const bad of [1, -1, 0.5, '0']) {
      expect(codeOf(() => tables.readTokens(bad as number, 0, out))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    core.close(slot);
    expect(codeOf(() => tables.readTokens(0, 0, out))).toBe('ERR_BLOCKSTEP_BAD_SLOT');
    core.gatherOnDevice(0, 0);
    expect(codeOf(() => tables.readTokens(0, 0, out))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
});

describe('a gather on a GPU that makes no sense', () => {
  it('is refused as on the host, and nothing is sent', () => {
    using core = new BenchCore(loadAddon(), { backend: 'cuda', maxTokens: 35 });
    const { native } = core;
    expect(codeOf(() => native.gatherOnDevice(0, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG'); // still without tables
    for (const call of [native.gathersGiven, native.gathersDone, native.gatherWaits]) {
      expect(codeOf(() => call.call(native))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    const bytes = native.memory().deviceBytes;
    for (const frame of [2, -1, 0.5, Number.NaN, '0', undefined]) {
      expect(codeOf(() => core.gatherOnDevice(frame as number, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const n of [9, -1, 0.5, Number.NaN, '0', undefined]) {
      expect(codeOf(() => core.gatherOnDevice(0, n as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(native.memory().deviceBytes).toBe(bytes);
    const slot = core.start(range(9));
    core.entry(0, slot, 8, 1);
    const tables = core.gatherOnDevice(0, 1);
    const good = contentOf(tables);
    const cases: [number, number, number, string][] = [
      [5, 8, 1, 'ERR_BLOCKSTEP_BAD_SLOT'],
      [core.open([1]), 0, 1, 'ERR_BLOCKSTEP_NO_ROW'],
      [slot, 8, 5, 'ERR_BLOCKSTEP_BAD_ARG'],
      [slot, 8, 0, 'ERR_BLOCKSTEP_BAD_ARG'],
      [slot, -1, 1, 'ERR_BLOCKSTEP_BAD_ARG'],
    ];
    for (const [index, computed, scheduled, code] of cases) {
      core.entry(1, index, computed, scheduled);
      expect(codeOf(() => core.gatherOnDevice(0, 2))).toBe(code);
    }
    for (const stream of [7, '7', -1n, 2n ** 64n, {}]) {
      expect(codeOf(() => core.gatherOnDevice(0, 1, stream as bigint))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(native.gathersGiven()).toBe(1);
    expect(contentOf(tables)).toEqual(good);
    expect(codeOf(() => tables.read('slots' as 'seqLens'))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => native.makeDeviceTables(36))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    for (const table of [6, -1, 0.5, undefined]) {
      expect(codeOf(() => native.readDeviceTable(table as number, new ArrayBuffer(36)))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
    for (const out of [new ArrayBuffer(31), new ArrayBuffer(33), new Int32Array(8), null]) {
      expect(codeOf(() => native.readDeviceTable(3, out as ArrayBuffer))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('is refused where there is no GPU in use, and where the core is gone', () => {
    using host = new BenchCore(loadAddon());
    expect(codeOf(() => host.deviceTables())).toBe('ERR_BLOCKSTEP_CUDA');
    expect(codeOf(() => host.gatherOnDevice(0, 0))).toBe('ERR_BLOCKSTEP_CUDA');
    const gone = new BenchCore(loadAddon(), { backend: 'cuda' });
    const tables = gone.gatherOnDevice(0, 0);
    gone.dispose();
    expect(codeOf(() => gone.gatherOnDevice(0, 0))).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => tables.read('seqLens'))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe.skipIf(!isEmulated)('a GPU that fails', () => {
  afterEach(() => plant(''));

  it('has no memory for the tables: a code, and the core goes on', () => {
    using core = new BenchCore(loadAddon(), { backend: 'cuda', maxTokens: 2 ** 14 });
    plant('memory=100000');
    expect(codeOf(() => core.deviceTables())).toBe('ERR_BLOCKSTEP_NO_MEMORY');
    plant('');
    const slot = core.start(range(9));
    core.entry(0, slot, 8, 1);
    expectSame(core, { frame: 0, numRequests: 1 });
  });

  it('in any call of a gather leaves a core that says so from then on', () => {
    const codes = new Set<string>();
    for (let call = 1; call <= 12; call++) {
      using core = new BenchCore(loadAddon(), { backend: 'cuda', maxTokens: 12_000 });
      const slot = core.start(range(9));
      core.entry(0, slot, 8, 1);
      core.gatherOnDevice(0, 1);
      plant(`fail=${call}`);
      let code: string | undefined;
      try {
        core.gatherOnDevice(0, 1, STREAM);
      } catch (error) {
        code = (error as { code: string }).code;
      }
      plant('');
      if (code === undefined) continue;
      codes.add(code);
      expect(codeOf(() => core.submit())).toBe('ERR_BLOCKSTEP_CUDA');
      expect(codeOf(() => core.gatherOnDevice(0, 0))).toBe('ERR_BLOCKSTEP_CUDA');
    }
    expect([...codes]).toEqual(['ERR_BLOCKSTEP_CUDA']);
  });

  it('is lost: whoever reads is told', () => {
    using core = new BenchCore(loadAddon(), { backend: 'cuda', maxTokens: 40 });
    const tables = core.gatherOnDevice(0, 0);
    plant('lose=1');
    expect(
      codeOf(() => {
        core.gatherOnDevice(0, 0);
        tables.read('seqLens');
      }),
    ).toBe('ERR_BLOCKSTEP_CUDA');
  });
});

describe('an executor on a GPU', () => {
  /** Keeps what it was given, and reads it as its forward pass would. */
  class GpuExecutor {
    readonly device: string = 'cuda';
    readonly stream: bigint | null = STREAM;
    readonly seen: (DeviceTables | StepTables | null)[] = [];
    readonly seqLens: number[][] = [];
    readonly pending: (() => void)[] = [];

    execute(plan: Parameters<typeof answerOf>[0], tables: DeviceTables | StepTables | null) {
      this.seen.push(tables);
      if (tables !== null)
        this.seqLens.push([...('descriptor' in tables ? tables.read('seqLens') : tables.seqLens)]);
      const answer = answerOf(plan);
      return new Promise<typeof answer>((resolve) => this.pending.push(() => resolve(answer)));
    }
  }

  it('is given the tables there, also for a step that was kept back, though a request of it has ended', async () => {
    const executor = new GpuExecutor();
    const { backend: _backend, ...options } = OPTIONS;
    await using engine = new Engine({ ...options, pipelineDepth: 2, executor });
    const { core } = engine.scheduler;
    expect(core.backend).toMatchObject({ name: 'cuda', reason: "the executor's device is cuda" });
    const memory = core.native.memory();
    engine.submit({ id: 'a', prompt: prompt(6), grammar: new FakeGrammar(), maxTokens: 3 });
    engine.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 9, eosTokenId: 600 });
    for (let i = 0; i < 20; i++) {
      engine.step();
      executor.pending.shift()?.();
      await settled();
    }
    const device = executor.seen[0] as DeviceTables;
    expect(executor.seqLens.slice(0, 3).map((lengths) => lengths.slice(0, 3))).toEqual([
      [6, 6, 0],
      [7, 7, 0],
      [8, 0, 0],
    ]);
    for (const tables of executor.seen) expect((tables as DeviceTables).blockTable).toBe(device.blockTable);
    expect(device.waits).toBe(0);
    expect(core.native.memory()).toMatchObject({
      deviceBytes: memory.deviceBytes,
      pinnedBytes: memory.pinnedBytes,
    });
    engine.verify();
  });

  it('is given the tables of the host where CUDA cannot be used', () => {
    const executor = new GpuExecutor();
    using engine = new Engine({ ...OPTIONS, backend: 'host', executor });
    engine.submit({ prompt: prompt(6), maxTokens: 1 });
    engine.step();
    expect(executor.seen[0]).toHaveProperty('buffer');
    expect(executor.seqLens).toEqual([[6, 0, 0, 0, 0, 0, 0, 0]]);
  });

  it('that uses no tables has none made', () => {
    const executor = Object.assign(new GpuExecutor(), { usesTables: false });
    using engine = new Engine({ ...OPTIONS, executor });
    engine.submit({ prompt: prompt(6), maxTokens: 1 });
    engine.step();
    expect(executor.seen).toEqual([null]);
    expect(codeOf(() => engine.scheduler.core.native.gathersGiven())).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('may be repeated by the options, but not contradicted', () => {
    const executor = new GpuExecutor();
    using _same = new Engine({ ...OPTIONS, device: 'cuda:0', stream: STREAM, executor });
    for (const other of [{ device: 'cpu' }, { device: 'cuda:1' }, { stream: 8n }, { stream: null }]) {
      expect(codeOf(() => new Engine({ ...OPTIONS, ...other, executor }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it.skipIf(!isEmulated)('has an engine only if there is memory for its tables', () => {
    plant('memory=2000000');
    try {
      const options = { ...OPTIONS, maxNumBatchedTokens: 2 ** 20, maxModelLen: 2 ** 17 };
      expect(codeOf(() => new Engine({ ...options, executor: new GpuExecutor() }))).toBe(
        'ERR_BLOCKSTEP_NO_MEMORY',
      );
    } finally {
      plant('');
    }
  });
});
