// Plants errors of groups, one by one.
import { describe, expect, it } from 'vitest';
import type { ReferenceFault } from '../../../../src/executors/reference/faults.js';
import type { KvGroupOptions, ReferenceExecutorOptions, SchedulerOptions } from '../../../../src/index.js';
import { thinned } from '../../../support/share.js';
import { ReferenceDriver, wordy } from '../support.js';
import { KINDS, type Kind, type Place, rowOf, type Step } from './plants.js';

const FULL = { type: 'full', blockSize: 4 } as const;
const CONFIGS: Record<string, Partial<SchedulerOptions>> = {
  sliding: { kvGroups: [FULL, { type: 'sliding', blockSize: 4, window: 9 }] },
  'sliding at depth 2': {
    kvGroups: [
      { type: 'sliding', blockSize: 2, window: 7 },
      { type: 'sink', blockSize: 4, sinkTokens: 4 },
    ],
    pipelineDepth: 2,
  },
  chunked: { kvGroups: [FULL, { type: 'chunked', blockSize: 4, chunk: 7 }] },
  'states, align': { kvGroups: [FULL, { type: 'mamba', blockSize: 4, mode: 'align' }] },
  'states, all, at depth 2': {
    kvGroups: [
      { type: 'mamba', blockSize: 4, mode: 'all' },
      { type: 'mla', blockSize: 4 },
    ],
    pipelineDepth: 2,
  },
  'states, none': { kvGroups: [FULL, { type: 'mamba' }], enablePrefixCaching: false },
};

const OF_CHUNKS = 'a chunk that begins one token too late';
const OF_STATES = 'a state of another place';

/** Kinds for which a configuration has no place. */
const ABSENT: Record<string, readonly string[]> = {
  sliding: [OF_CHUNKS, OF_STATES],
  'sliding at depth 2': [OF_CHUNKS, OF_STATES, 'two groups exchanged'],
  chunked: [OF_STATES],
  'states, align': [OF_CHUNKS, 'a block shared by two groups'],
  'states, all, at depth 2': [OF_CHUNKS, 'a block shared by two groups'],
  'states, none': [
    OF_CHUNKS,
    OF_STATES,
    'a place of a hit that is kept null',
    'a block shared by two groups',
    'two groups exchanged',
    'a hit one block too long',
    'a block that the request had there before, or next to it',
  ],
};

/** The device on which the executor computes. */
type Where = Pick<ReferenceExecutorOptions, 'device'>;

/** Requests that share prefixes and end at different times; one is aborted. */
async function scenario(
  options: Partial<SchedulerOptions>,
  where: Where,
  tamper: (step: Step) => void,
): Promise<ReferenceDriver> {
  const driver = new ReferenceDriver(
    {
      numBlocks: 40,
      maxNumSeqs: 5,
      maxNumBatchedTokens: 24,
      maxModelLen: 64,
      enablePrefixCaching: true,
      ...options,
    },
    { onMismatch: 'report', seed: 3, defer: undefined as never, ...where },
  );
  const earlier = new Map<number, Int32Array[]>();
  driver.tamper = (plan, tables) => {
    const rows = plan.requests
      .slice(0, plan.numRequests)
      .map(({ handle }, e) => [handle, tables.groups.map((group) => rowOf(group, e).slice())] as const);
    tamper({ driver, plan, tables, earlier });
    for (const [handle, row] of rows) earlier.set(handle, row);
  };
  driver.add({ id: 'long', prompt: wordy(9, 1), maxTokens: 30 });
  driver.add({ id: 'b', prompt: wordy(14, 1), maxTokens: 14 });
  driver.add({ id: 'c', prompt: wordy(13, 2), maxTokens: 12 });
  for (let i = 0; i < 3; i++) await driver.step();
  driver.add({ id: 'd', prompt: wordy(21, 1), maxTokens: 16 });
  driver.add({ id: 'e', prompt: wordy(17, 2), maxTokens: 9 });
  for (let i = 0; i < 6; i++) await driver.step();
  driver.scheduler.abort('c');
  driver.add({ id: 'f', prompt: wordy(29, 1), maxTokens: 8 });
  await driver.run(300);
  return driver;
}

/** Every entry of every plan of a run without errors, with every group. */
async function everyPlace(
  options: Partial<SchedulerOptions>,
  where: Where,
): Promise<(Place & { call: number })[]> {
  const places: (Place & { call: number })[] = [];
  let call = 0;
  using driver = await scenario(options, where, ({ plan, tables }) => {
    for (let entry = 0; entry < plan.numRequests; entry++)
      for (const group of tables.groups.keys()) places.push({ call, entry, group });
    call++;
  });
  expect(driver.executor.faults).toEqual([]);
  return places;
}

/**
 * The faults found in the step in which an error was planted; null if it could not be planted
 * there.
 */
async function runWith(
  options: Partial<SchedulerOptions>,
  where: Where,
  kind: Kind,
  place: Place & { call: number },
): Promise<ReferenceFault[] | null> {
  let call = 0;
  let plantedIn = -1;
  using driver = await scenario(options, where, (step) => {
    if (call++ === place.call && kind.plant(step, place)) plantedIn = step.plan.step;
  });
  return plantedIn < 0 ? null : driver.executor.faults.filter(({ step }) => step === plantedIn);
}

/** The faults of a run whose plans are changed. */
async function withZeroed(
  kvGroups: readonly KvGroupOptions[],
  where: Where,
  change: (step: Step) => void,
): Promise<readonly ReferenceFault[]> {
  using driver = await scenario({ kvGroups, numBlocks: 24 }, where, change);
  return driver.executor.faults;
}

/**
 * Plants every kind of error into the tables and plans of every configuration, at so many places of
 * a run. Each must be found in its own step and group.
 */
export function describePlantedGroups(where: Where = {}, most = Number.POSITIVE_INFINITY): void {
  describe.each(Object.entries(CONFIGS))('%s', (name, options) => {
    const kinds = Object.entries(KINDS).filter(([kind]) => !ABSENT[name]?.includes(kind));
    const some = thinned(kinds, 3, Object.keys(CONFIGS).indexOf(name));
    it.each(some)('%s is found in its step and in its group, wherever it is planted', async (_, kind) => {
      const missed: string[] = [];
      let planted = 0;
      for (const place of await everyPlace(options, where)) {
        if (planted === most) break;
        const faults = await runWith(options, where, kind, place);
        if (faults === null) continue;
        planted++;
        const { finds, inGroup = true } = kind;
        const found = faults.some(
          (fault) => finds.includes(fault.kind) && (!inGroup || fault.group === place.group),
        );
        if (!found) missed.push(`${JSON.stringify(place)}: ${faults.map((fault) => fault.kind).join()}`);
      }
      expect(missed).toEqual([]);
      expect(planted).toBeGreaterThan(0);
    });
  });

  describe.each([
    ['full', FULL],
    ['sliding', { type: 'sliding', blockSize: 4, window: 9 }],
    ['mla', { type: 'mla', blockSize: 4 }],
  ] as const)('attention of type %s beside states', (_, attention) => {
    const kvGroups = [attention, { type: 'mamba', blockSize: 4, mode: 'align' }] as const;

    it('reads no state where the blocks that plans name are zeroed, and does where they are not', async () => {
      expect(await withZeroed(kvGroups, where, () => {})).toEqual([]);
      const faults = await withZeroed(kvGroups, where, ({ plan }) => {
        plan.blocksToZero = null;
      });
      expect(faults.length).toBeGreaterThan(0);
      for (const { kind, group } of faults) expect([kind, group]).toEqual(['unzeroed-read', 0]);
    });

    it('finds what it had written gone where a block in use is zeroed', async () => {
      const inUse = ({ plan, tables }: Step) => {
        const block = rowOf(tables.groups[0], 0)[Math.floor((plan.numComputedTokens[0] - 1) / 4)];
        if (plan.numComputedTokens[0] > 0 && block > 0) plan.blocksToZero = Int32Array.of(block);
      };
      const faults = await withZeroed(kvGroups, where, inUse);
      expect(faults.map(({ kind }) => kind)).toContain('unwritten-read');
    });
  });

  it.each([[Int32Array.of(0)], [Int32Array.of(-1)], [Int32Array.of(2 ** 20)], [[1]], [7]])(
    'blocks to zero that are none are refused, and nothing is changed: %o',
    async (bad) => {
      using driver = new ReferenceDriver(
        { kvGroups: [FULL, { type: 'mamba', blockSize: 4, mode: 'all' }] },
        where,
      );
      driver.add({ id: 'a', prompt: wordy(9, 1) });
      driver.tamper = (plan) => {
        plan.blocksToZero = bad as never;
      };
      await expect(driver.step()).rejects.toThrow(/^(plan\.)?blocksToZero/);
      expect(driver.executor.memory().numSequences).toBe(0);
    },
  );
}
