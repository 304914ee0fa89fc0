// The reference executor finds errors planted in tables and KV memory on a GPU, and a gather in a
// wrong stream.
import '../support/gpu.js';
import { afterEach, describe, expect, it } from 'vitest';
import type { DeviceTables } from '../../src/core/device-tables.js';
import type { MismatchKind } from '../../src/core/native/native-reference.js';
import type { ReferenceFault } from '../../src/executors/reference/faults.js';
import {
  BlockstepError,
  type Plan,
  ReferenceExecutor,
  Scheduler,
  type SchedulerOptions,
} from '../../src/index.js';
import { ReferenceDriver, wordy } from '../executors/reference/support.js';
import { isEmulated, plant } from '../support/gpu.js';
import { thinned } from '../support/share.js';

const BLOCK_SIZE = 4;
const ENTRY_BYTES = 32;

const CONFIGS: Record<string, Partial<SchedulerOptions>> = {
  'depth 1': {},
  'depth 2': { pipelineDepth: 2 },
  'depth 3': { pipelineDepth: 3 },
  'eagle drafts, depth 2': { numSpeculativeTokens: 2, speculativeMethod: 'eagle', pipelineDepth: 2 },
};
/** Steps in which each kind is planted, by their place in a run. */
const CALLS = [3, 9, 14];

/** The state that a kind of error depends on. Host tables say what the GPU's must be. */
interface Site {
  driver: ReferenceDriver;
  plan: Plan;
  tables: DeviceTables;
}

/** A kind of error that there is only on a device. It answers what to plant; null where it would be none. */
interface Kind {
  when: 'before schedule' | 'before gather' | 'after gather';
  plant(site: Site): string | null;
  /** Whether it is an error in this plan, for what is planted before anybody knows. */
  counts?: (plan: Plan) => boolean;
  finds: readonly MismatchKind[];
}

const WRONG_DATA = ['unwritten-read', 'stale-read', 'foreign-read', 'wrong-read'] as const;
const takesBlocks = (plan: Plan) => plan.numNewBlocks.subarray(0, plan.numRequests).some((n) => n > 0);
const poke = (address: bigint, value: number) => `poke=${address},value=${value}`;

/** The word of an entry's array, by its index. */
function word(tables: DeviceTables, name: 'blockTable' | 'seqLens' | 'queryStart', index: number): bigint {
  return tables[name].pointer + BigInt(4 * index);
}

/** The first entry that has computed something, and the slot of its first token. */
function firstSlot({ driver, plan }: Site): bigint | null {
  const entry = plan.numComputedTokens.subarray(0, plan.numRequests).findIndex((computed) => computed > 0);
  if (entry < 0) return null;
  const [block] = driver.scheduler.core.blocks(plan.slots[entry]);
  return driver.executor.kv.pointer + BigInt(block * BLOCK_SIZE * ENTRY_BYTES);
}

/**
 * An entry that needs a block that is new in this step: the entry, and the block's place in the
 * table.
 */
function newBlock({ plan, tables }: Site): { entry: number; at: bigint } | null {
  for (let entry = 0; entry < plan.numRequests; entry++) {
    const end = plan.numComputedTokens[entry] + plan.numScheduledTokens[entry];
    const index = Math.ceil(end / BLOCK_SIZE) - 1;
    if (index < plan.numBlocks[entry] - plan.numNewBlocks[entry]) continue;
    return { entry, at: word(tables, 'blockTable', entry * tables.maxBlocksPerRow + index) };
  }
  return null;
}

const KINDS: Record<string, Kind> = {
  'a log that was not applied': {
    when: 'before schedule',
    plant: () => 'skip=1',
    counts: takesBlocks,
    finds: [...WRONG_DATA, 'block', 'slot', 'foreign-write', 'moved-block'],
  },
  'a gather left out': {
    when: 'before gather',
    plant: () => 'skip=1',
    finds: [...WRONG_DATA, 'sequence-length', 'computed-tokens', 'query-start'],
  },
  'a row that was not updated': {
    when: 'after gather',
    plant: (site) => {
      const found = newBlock(site);
      return found === null ? null : poke(found.at, 0);
    },
    finds: ['block'],
  },
  "a row with another's block": {
    when: 'after gather',
    plant: (site) => {
      const found = newBlock(site);
      if (found === null || site.plan.numRequests === 1) return null;
      const other = (found.entry + 1) % site.plan.numRequests;
      return poke(found.at, site.driver.scheduler.core.blocks(site.plan.slots[other])[0]);
    },
    finds: [...WRONG_DATA, 'foreign-write'],
  },
  'a slot mapping that is shifted': {
    when: 'after gather',
    plant: ({ driver, plan, tables }) => {
      const position = plan.numComputedTokens[0];
      const block = driver.scheduler.core.blocks(plan.slots[0])[Math.floor(position / BLOCK_SIZE)];
      return poke(tables.slotMapping.pointer, block * BLOCK_SIZE + (position % BLOCK_SIZE) + 1);
    },
    finds: [...WRONG_DATA, 'foreign-write', 'slot'],
  },
  'a length too great': {
    when: 'after gather',
    plant: ({ plan, tables }) =>
      poke(word(tables, 'seqLens', 0), plan.numComputedTokens[0] + plan.numScheduledTokens[0] + 1),
    finds: ['sequence-length'],
  },
  'a query that starts elsewhere': {
    when: 'after gather',
    plant: ({ tables }) => poke(word(tables, 'queryStart', 0), 1),
    finds: ['query-start'],
  },
  'a wrong generation': {
    when: 'after gather',
    plant: (site) => {
      const entry = firstSlot(site);
      return entry === null ? null : poke(entry + 24n, 4_000_000);
    },
    finds: ['stale-read'],
  },
  'an entry that something else wrote over': {
    when: 'after gather',
    plant: (site) => {
      const entry = firstSlot(site);
      return entry === null ? null : poke(entry + 16n, 9999);
    },
    finds: ['wrong-read', 'foreign-read'],
  },
  'entries that were not written': {
    when: 'after gather',
    plant: () => 'skip=1',
    finds: ['slot'],
  },
  'sequences that were not read': {
    when: 'after gather',
    plant: () => 'skip=2',
    finds: WRONG_DATA,
  },
};

/**
 * The faults found in the step in which the error was planted; null if it could not be planted
 * there.
 */
async function runWith(
  options: Partial<SchedulerOptions>,
  kind: Kind,
  call: number,
): Promise<ReferenceFault[] | null> {
  plant('');
  using driver = new ReferenceDriver(
    {
      numBlocks: 20,
      blockSize: BLOCK_SIZE,
      maxNumSeqs: 5,
      maxNumBatchedTokens: 24,
      maxModelLen: 64,
      ...options,
    },
    { device: 'cuda', onMismatch: 'report', draftErrorRate: 0.4, seed: 3 },
    'device',
  );
  for (let i = 0; i < 5; i++) driver.add({ id: `r${i}`, prompt: wordy(9 + 2 * i, i % 2), maxTokens: 12 });
  let calls = 0;
  const run: { planted: Plan | null } = { planted: null };
  let plantedIn = -1;
  const at = (when: Kind['when'], plan: Plan, tables: DeviceTables): void => {
    if (kind.when !== when || calls !== call) return;
    const faults = kind.plant({ driver, plan, tables });
    if (faults === null) return;
    plant(faults);
    run.planted = plan;
  };
  driver.beforeGather = (plan) => {
    if (kind.when === 'before schedule' && calls === call) run.planted = plan;
    else at('before gather', plan, driver.scheduler.core.deviceTables() as DeviceTables);
  };
  driver.afterGather = (plan, tables) => {
    at('after gather', plan, tables);
    calls++;
  };
  while (driver.scheduler.hasWork() && calls <= call) {
    if (kind.when === 'before schedule' && calls === call) plant('skip=1');
    const plan = driver.schedule();
    if (plan.totalTokens > 0 && plan === run.planted) plantedIn = plan.step;
    if (plantedIn >= 0 && kind.counts?.(plan) === false) plantedIn = -1;
    if (driver.inFlight.length === driver.scheduler.config.pipelineDepth || plan.totalTokens === 0) {
      await settle(driver, plantedIn >= 0);
    }
  }
  while (driver.inFlight.length > 0) await settle(driver, plantedIn >= 0);
  if (kind.when !== 'after gather') lose(driver);
  return plantedIn < 0 ? null : driver.executor.faults.filter(({ step }) => step === plantedIn);
}

/** The core waits long for a launch that never ended, unless the GPU is lost. */
function lose({ executor }: ReferenceDriver): void {
  plant('lose=1');
  executor.adopt(1, Int32Array.of(1));
}

/** Delivers a result. Once an error is planted the core may have found it out too, and refuse everything. */
async function settle(driver: ReferenceDriver, isPlanted: boolean): Promise<void> {
  try {
    await (driver.inFlight.length > 0 ? driver.update() : driver.step());
  } catch (error) {
    if (!isPlanted || !(error instanceof BlockstepError)) throw error;
    driver.inFlight.shift();
  }
}

describe.skipIf(!isEmulated).each(Object.entries(CONFIGS))('on a GPU, %s', (name, options) => {
  afterEach(() => plant(''));

  // Kinds with `counts` are left out where there are drafts: a log that takes blocks only for rejected drafts shows no fault.
  const kinds = Object.entries(KINDS).filter(
    ([, { counts }]) => counts === undefined || options.numSpeculativeTokens === undefined,
  );

  it.each(thinned(kinds, 3, Object.keys(CONFIGS).indexOf(name)))(
    '%s is found in its step',
    async (_name, kind) => {
      const missed: string[] = [];
      let planted = 0;
      for (const call of CALLS) {
        const faults = await runWith(options, kind, call);
        if (faults === null) continue;
        planted++;
        const found = faults.map((fault) => fault.kind);
        if (!kind.finds.some((expected) => found.includes(expected)))
          missed.push(`call ${call}: ${found.join()}`);
      }
      expect(missed).toEqual([]);
      expect(planted).toBeGreaterThan(0);
    },
  );
});

describe('tables that are gathered in another stream than that of the executor', () => {
  afterEach(() => plant(''));

  it.skipIf(!isEmulated)('are found out: the next plan stands there while a step still reads', async () => {
    const options = {
      numBlocks: 40,
      blockSize: BLOCK_SIZE,
      maxNumSeqs: 4,
      maxModelLen: 64,
      pipelineDepth: 3,
    } as const;
    using executor = new ReferenceExecutor({ ...options, device: 'cuda', onMismatch: 'report' });
    using scheduler = new Scheduler({ ...options, backend: 'cuda' });
    for (let i = 0; i < 4; i++) scheduler.add({ id: `r${i}`, prompt: wordy(9 + i, i), maxTokens: 9 });
    plant('delay=300');
    const answers = [];
    for (let i = 0; i < 3; i++) {
      const plan = scheduler.schedule();
      const tables = scheduler.core.gatherOnDevice(plan.frame, plan.numRequests);
      answers.push(executor.execute(plan, tables));
    }
    await Promise.all(answers);
    expect(executor.numFaults).toBeGreaterThan(0);
  });
});
