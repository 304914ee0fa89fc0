// Errors to be planted in a step, and the suite for one device.
import { beforeAll, describe, expect, it } from 'vitest';
import type { MismatchKind } from '../../../src/core/native/native-reference.js';
import type { StepTables } from '../../../src/core/tables.js';
import type { ReferenceFault } from '../../../src/executors/reference/faults.js';
import type { Plan, ReferenceExecutorOptions, SchedulerOptions } from '../../../src/index.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import { thinned } from '../../support/share.js';
import { ReferenceDriver, wordy } from './support.js';

const CONFIGS: Record<string, Partial<WithRules<SchedulerOptions>>> = {
  'depth 1': {},
  'depth 2': { pipelineDepth: 2 },
  'depth 3': { pipelineDepth: 3 },
  'no caching': { enablePrefixCaching: false, pipelineDepth: 2 },
  'chunked prefill': { longPrefillTokenThreshold: 3, maxNumBatchedTokens: 9 },
  // In the other order no block of a preempted request is taken by another here, so nothing could be planted.
  'ngram drafts': { numSpeculativeTokens: 2, freeOrder: 'tail' },
  'eagle drafts, depth 2': { numSpeculativeTokens: 2, speculativeMethod: 'eagle', pipelineDepth: 2 },
  'eagle drafts, depth 3': { numSpeculativeTokens: 3, speculativeMethod: 'eagle', pipelineDepth: 3 },
};

/**
 * One place where an error is planted: of the n-th gathered plan, an entry, and the meaning of
 * `index` for the kind.
 */
interface Place {
  call: number;
  entry: number;
  index: number;
}

/** The state of a run that planting an error needs. */
interface Run {
  driver: ReferenceDriver;
  /** Rows of residencies that ended: block ids, and how often each had been taken then. */
  earlier: Map<number, { block: number; generation: number }[]>;
}

/** A kind of error: where it can be planted in a plan, and the planting. Answers false where it would be none. */
interface Kind {
  places(plan: Plan, tables: StepTables): { entry: number; index: number }[];
  plant(run: Run, plan: Plan, tables: StepTables, place: Place): boolean;
  /**
   * The faults that the executor must report for the step with the error, one of these at least.
   */
  finds: readonly MismatchKind[];
}

/** The faults that are found by reading the memory back. */
const WRONG_DATA = ['unwritten-read', 'stale-read', 'foreign-read', 'wrong-read'] as const;

/** Where drafts were rejected after a plan was made, it has places that are not read: those are compared only. */
const WRONG_PLACE = [...WRONG_DATA, 'foreign-write', 'slot'] as const;

const entriesOf = (plan: Plan) => Array.from({ length: plan.numRequests }, (_, entry) => entry);
const row = (tables: StepTables, entry: number) =>
  tables.blockTable.subarray(entry * tables.maxBlocksPerRow, (entry + 1) * tables.maxBlocksPerRow);
const lastNeeded = (run: Run, plan: Plan, entry: number) =>
  Math.ceil(
    (plan.numComputedTokens[entry] + plan.numScheduledTokens[entry]) / run.driver.scheduler.config.blockSize,
  );

/** A block that the n-th other request of the plan holds, else any other. */
function otherBlock(run: Run, plan: Plan, tables: StepTables, entry: number, n: number): number {
  const own = new Set(row(tables, entry));
  const held = entriesOf(plan).flatMap((e) =>
    e === entry ? [] : [...row(tables, e).subarray(0, plan.numBlocks[e])],
  );
  const all = [...held, ...run.driver.scheduler.core.freeQueue()].filter((id) => !own.has(id));
  return all[n % all.length];
}

function everyBlock(plan: Plan): { entry: number; index: number }[] {
  return entriesOf(plan).flatMap((entry) =>
    Array.from({ length: plan.numBlocks[entry] }, (_, index) => ({ entry, index })),
  );
}

function everyToken(plan: Plan): { entry: number; index: number }[] {
  return entriesOf(plan).flatMap((entry) =>
    Array.from({ length: plan.numScheduledTokens[entry] }, (_, index) => ({ entry, index })),
  );
}

const everyEntry = (plan: Plan) => entriesOf(plan).map((entry) => ({ entry, index: 0 }));

function replaceBlock(
  name: (run: Run, plan: Plan, tables: StepTables, place: Place) => number,
): Kind['plant'] {
  return (run, plan, tables, place) => {
    const { entry, index } = place;
    if (index >= lastNeeded(run, plan, entry)) return false; // looked ahead, and not read by this step
    const block = name(run, plan, tables, place);
    if (block === row(tables, entry)[index]) return false;
    row(tables, entry)[index] = block;
    return true;
  };
}

/** Names another block in the block table and in the slot mapping, as if the block manager had given it out. */
function giveOut(run: Run, tables: StepTables, entry: number, index: number, block: number): void {
  const { blockSize } = run.driver.scheduler.config;
  const before = row(tables, entry)[index];
  row(tables, entry)[index] = block;
  for (let t = tables.queryStart[entry]; t < tables.queryStart[entry + 1]; t++) {
    const slot = Number(tables.slotMapping[t]);
    if (Math.floor(slot / blockSize) === before)
      tables.slotMapping[t] = BigInt(block * blockSize + (slot % blockSize));
  }
}

function nudge(
  column: 'seqLens' | 'numComputedTokens' | 'queryStart',
  by: number,
  ...finds: MismatchKind[]
): Kind {
  return {
    finds,
    places: everyEntry,
    plant: (_, _plan, tables, { entry }) => {
      tables[column][entry] += by;
      return true;
    },
  };
}

function shiftSlot(by: bigint): Kind {
  return {
    finds: WRONG_PLACE,
    places: everyToken,
    plant: (_, _plan, tables, { entry, index }) => {
      tables.slotMapping[tables.queryStart[entry] + index] += by;
      return true;
    },
  };
}

const KINDS: Record<string, Kind> = {
  "another request's block": {
    places: everyBlock,
    finds: WRONG_PLACE,
    plant: replaceBlock((run, plan, tables, { entry, index }) => otherBlock(run, plan, tables, entry, index)),
  },
  'the null block': { places: everyBlock, plant: replaceBlock(() => 0), finds: ['block', 'slot'] },
  'a block that there is not': {
    places: everyBlock,
    plant: replaceBlock(() => 1000),
    finds: ['block', 'slot'],
  },
  "the row's first block again": {
    places: everyBlock,
    finds: WRONG_PLACE,
    plant: replaceBlock((_, _plan, tables, { entry }) => row(tables, entry)[0]),
  },
  'a slot too far': shiftSlot(1n),
  'a slot too near': shiftSlot(-1n),
  'a slot of the next block': shiftSlot(4n),
  'a slot below all': shiftSlot(-1000n),
  'two rows exchanged': {
    finds: WRONG_DATA,
    places: (plan) => everyEntry(plan).slice(1),
    plant: (_, _plan, tables, { entry }) => {
      const [a, b] = [row(tables, entry - 1), row(tables, entry)];
      const saved = a.slice();
      a.set(b);
      b.set(saved);
      return true;
    },
  },
  'a block reused while it is held': {
    finds: WRONG_DATA,
    places: (plan) =>
      entriesOf(plan).flatMap((entry) =>
        plan.kinds[entry] === 0 && plan.numNewBlocks[entry] > 0
          ? [{ entry, index: plan.numBlocks[entry] - 1 }]
          : [],
      ),
    plant: (run, plan, tables, { entry, index }) => {
      const victim = entriesOf(plan).find((e) => e !== entry);
      if (victim === undefined || index >= lastNeeded(run, plan, entry)) return false;
      const inPrompt = Math.min(plan.requests[victim].numPromptTokens, tables.seqLens[victim]);
      const read = Math.floor(inPrompt / run.driver.scheduler.config.blockSize);
      giveOut(run, tables, entry, index, row(tables, victim)[index % read]);
      return true;
    },
  },
  'a block as it was before it was taken again': {
    finds: ['stale-read', 'foreign-read'],
    places: (plan) => everyBlock(plan).filter(({ entry }) => plan.kinds[entry] !== 0),
    plant: (run, plan, tables, { entry, index }) => {
      const before = run.earlier.get(plan.requests[entry].handle)?.[index];
      if (before === undefined || index >= lastNeeded(run, plan, entry)) return false;
      const taken = run.driver.scheduler.core.native.blockGeneration(before.block);
      if (taken === before.generation || row(tables, entry).includes(before.block)) return false;
      row(tables, entry)[index] = before.block;
      return true;
    },
  },
  'a length too great': nudge('seqLens', 1, 'sequence-length'),
  'a length too small': nudge('seqLens', -1, 'sequence-length'),
  'a count of computed tokens too great': nudge('numComputedTokens', 1, 'computed-tokens', 'sequence-length'),
  'a count of computed tokens too small': nudge(
    'numComputedTokens',
    -1,
    'computed-tokens',
    'sequence-length',
  ),
  'a query start too great': nudge('queryStart', 1, 'query-start'),
  'another token': {
    finds: ['input-token'],
    places: everyToken,
    plant: (_, _plan, tables, { entry, index }) => {
      const at = tables.queryStart[entry] + index;
      if (tables.inputIds[at] < 0) return false;
      tables.inputIds[at] += 1;
      return true;
    },
  },
};

/** The options of a scheduler and an executor. */
interface Config {
  options: Partial<WithRules<SchedulerOptions>>;
  reference: Partial<ReferenceExecutorOptions>;
}

/** Requests that share prefixes, preempt each other and end at different times; one is aborted. */
async function scenario(
  { options, reference }: Config,
  tamper: (run: Run, plan: Plan, tables: StepTables) => void,
): Promise<ReferenceDriver> {
  const driver = new ReferenceDriver(
    { numBlocks: 20, blockSize: 4, maxNumSeqs: 5, maxNumBatchedTokens: 24, maxModelLen: 64, ...options },
    { onMismatch: 'report', draftErrorRate: 0.4, seed: 3, ...reference },
  );
  const run: Run = { driver, earlier: new Map() };
  driver.tamper = (plan, tables) => {
    tamper(run, plan, tables);
    for (const entry of entriesOf(plan)) {
      const blocks = driver.scheduler.core.blocks(plan.slots[entry]);
      const held = [...blocks].map((block) => ({
        block,
        generation: driver.scheduler.core.native.blockGeneration(block),
      }));
      run.earlier.set(plan.requests[entry].handle, held);
    }
  };
  driver.add({ id: 'long', prompt: wordy(9, 1), maxTokens: 30 });
  driver.add({ id: 'b', prompt: wordy(14, 1), maxTokens: 14 });
  driver.add({ id: 'c', prompt: wordy(13, 2), maxTokens: 12 });
  for (let i = 0; i < 3; i++) await driver.step();
  driver.add({ id: 'd', prompt: wordy(11, 1), maxTokens: 16 });
  driver.add({ id: 'e', prompt: wordy(17, 2), maxTokens: 9 });
  for (let i = 0; i < 6; i++) await driver.step();
  driver.scheduler.abort('c');
  driver.add({ id: 'f', prompt: wordy(19, 1), maxTokens: 8 });
  await driver.run(300);
  return driver;
}

/** All places of every kind in a run without errors, thinned out evenly to so many each. */
async function everyPlace(config: Config, most: number): Promise<Map<Kind, Place[]>> {
  const kinds = Object.values(KINDS);
  const all = new Map(kinds.map((kind): [Kind, Place[]] => [kind, []]));
  let call = 0;
  using driver = await scenario(config, (_, plan, tables) => {
    for (const [kind, places] of all) {
      for (const place of kind.places(plan, tables)) places.push({ call, ...place });
    }
    call++;
  });
  expect(driver.executor.faults).toEqual([]);
  for (const [kind, places] of all) {
    const every = Math.ceil(places.length / most);
    all.set(
      kind,
      places.filter((_, i) => i % every === 0),
    );
  }
  return all;
}

/** Reorders a list so that every beginning of it is spread evenly over the whole list (steps of the golden ratio). */
function spread<T>(list: readonly T[]): T[] {
  const rank = list.map((_, i) => (i * 0.6180339887) % 1);
  const place = [...rank].sort((a, b) => a - b);
  return rank.map((at) => list[place.indexOf(at)]);
}

/**
 * The faults found in the step in which an error was planted; null if it could not be planted
 * there.
 */
async function runWith(config: Config, kind: Kind, place: Place): Promise<ReferenceFault[] | null> {
  let call = 0;
  let plantedIn = -1;
  using driver = await scenario(config, (run, plan, tables) => {
    if (call++ === place.call && kind.plant(run, plan, tables, place)) plantedIn = plan.step;
  });
  return plantedIn < 0 ? null : driver.executor.faults.filter(({ step }) => step === plantedIn);
}

/** How many places are tried for each kind of error and configuration. */
export const MOST_PLACES = 120;

/**
 * Plants every kind of error into the tables of every configuration, at so many places of a run,
 * evenly spread. Each must be found in its own step.
 */
export function describePlants(reference: Partial<ReferenceExecutorOptions>, numPlaces = MOST_PLACES): void {
  describe.each(Object.entries(CONFIGS))('%s', (name, options) => {
    const config = { options, reference };
    let places: Map<Kind, Place[]>;
    beforeAll(async () => {
      places = await everyPlace(config, MOST_PLACES);
    });
    const kinds = thinned(Object.entries(KINDS), 3, Object.keys(CONFIGS).indexOf(name));
    it.each(kinds)('%s is found in its step, wherever it is planted', async (_name, kind) => {
      const missed: string[] = [];
      let planted = 0;
      for (const place of spread(places.get(kind) as Place[])) {
        if (planted === numPlaces) break;
        const faults = await runWith(config, kind, place);
        if (faults === null) continue;
        planted++;
        const found = faults.map((fault) => fault.kind);
        if (!kind.finds.some((expected) => found.includes(expected))) {
          missed.push(`${JSON.stringify(place)}: ${found.join()}`);
        }
      }
      expect(missed).toEqual([]);
      expect(planted).toBeGreaterThan(0);
    });
  });
}
