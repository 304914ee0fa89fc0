import type { Random } from '../base/random.js';
import { Engine } from '../engine/engine.js';
import { type Groups, groupsOf } from './groups-of.js';
import { isForeign, isPlain, mayFail, type Scene } from './scene.js';
import { RankExecutors } from './watch/rank-executors.js';
import { ScriptedLane } from './watch/scripted-lane.js';
import { TransferWatch } from './watch/transfer-watch.js';
import type { Diary } from './watch/trouble.js';
import { watchedConnector } from './watch/watched-connector.js';
import { WatchedWorker } from './watch/watched-worker.js';
import type { ConnectorUnderTest, ConnectorWorld, MakeConnector } from './world.js';

/** The common parts of the engines of a run. */
export interface Surroundings {
  readonly scene: Scene;
  readonly seed: number;
  readonly depth: 1 | 2 | 3;
  readonly numRanks: number;
  readonly random: Random;
  readonly diary: Diary;
  readonly shared: Map<string, unknown>;
  readonly now: () => number;
  /** Whether the faults have ended. */
  isCalm(): boolean;
  /** Called with every mistake of the connector. */
  broke(what: string): void;
}

/** Seeds of texts and of block hashes. */
export const TEXT_SEED = 3;
export const BLOCK_SIZE = 4;
export const MAX_MODEL_LEN = 64;

/** One engine of a run, with its connector and all objects that the connector touches. */
export class Station {
  readonly engine: Engine;
  readonly under: ConnectorUnderTest;
  readonly watch: TransferWatch;
  readonly workers: readonly WatchedWorker[];
  readonly executors: RankExecutors;
  readonly lanes: readonly ScriptedLane[];
  readonly #around: Surroundings;

  /** Makes the engine number `index` of a run. */
  static async open(
    around: Surroundings,
    make: MakeConnector,
    index: number,
    incarnation: number,
  ): Promise<Station> {
    const { scene, depth, numRanks, seed, random, shared, now, diary } = around;
    const { maxNumSeqs, maxNumBatchedTokens, numSpeculativeTokens, numEngines, enablePrefixCaching } = scene;
    const groups = groupsOf(scene, seed, { blockSize: BLOCK_SIZE, maxModelLen: MAX_MODEL_LEN });
    const { kvGroups, numBlocks } = groups;
    const sizes = {
      ...{ numBlocks, blockSize: BLOCK_SIZE, maxNumSeqs, maxNumBatchedTokens, maxModelLen: MAX_MODEL_LEN },
      ...{ numSpeculativeTokens, pipelineDepth: depth },
    };
    const chance = (percent: number) => !around.isCalm() && random.next() * 100 < percent;
    const { stepFails, rowFails } = scene.chances;
    const executors = new RankExecutors(
      { ...sizes, ...{ kvGroups, enablePrefixCaching, seed: TEXT_SEED } },
      numRanks,
      {
        stepFails: () => stepFails > 0 && chance(stepFails),
        rowFails: () => rowFails > 0 && chance(rowFails),
      },
    );
    const lanes: ScriptedLane[] = [];
    const watch = new TransferWatch(diary, executors, (what) => around.broke(what));
    watch.failChance = () => chance(scene.chances.copyFails);
    const world: ConnectorWorld = {
      ...{ seed, engine: index, numEngines, incarnation, memories: executors.ranks, numRanks, shared, now },
      ...{
        blockSize: BLOCK_SIZE,
        numBlocks,
        maxModelLen: MAX_MODEL_LEN,
        pipelineDepth: depth,
        hashSeed: TEXT_SEED,
      },
      random: () => random.next(),
      makeLane: (queue, source, target) => {
        const lane = new ScriptedLane(queue, source, target, watch);
        lanes.push(lane);
        return lane;
      },
    };
    let under: ConnectorUnderTest | null = null;
    try {
      under = await make(world);
      return new Station(around, { executors, lanes, watch, under, sizes, groups, chance });
    } catch (error) {
      // An engine that could not be made has shut nothing down, so the caller still owns both sides
      // of the connector.
      under?.connector.shutdown?.();
      for (const worker of under?.workers ?? []) worker.shutdown?.();
      await under?.dispose?.();
      executors.dispose();
      throw error;
    }
  }

  private constructor(
    around: Surroundings,
    parts: Pick<Station, 'executors' | 'lanes' | 'watch' | 'under'> & {
      sizes: { numBlocks: number };
      groups: Groups;
      chance: (percent: number) => boolean;
    },
  ) {
    const { scene, diary } = around;
    const { executors, lanes, watch, under, sizes, groups, chance } = parts;
    const { chances, enablePrefixCaching, deadlines, reclaim } = scene;
    const loadFailurePolicy = under.losesKv && !mayFail(scene) ? 'recompute' : scene.loadFailurePolicy;
    const broke = (what: string): void => around.broke(what);
    this.#around = around;
    this.executors = executors;
    this.lanes = lanes;
    this.watch = watch;
    this.under = under;
    this.workers = under.workers.map(
      (worker, rank) =>
        new WatchedWorker(worker, rank, watch, diary, {
          skips: () => chance(chances.skipWorker),
          loses: () => chance(chances.loseReport),
          repeats: () => chance(chances.repeatReport),
          broke,
        }),
    );
    const asksTwice = () => chance(chances.askTwice);
    this.engine = new Engine({
      ...sizes,
      ...{ enablePrefixCaching, loadFailurePolicy, deadlines, reclaim, hashSeed: TEXT_SEED },
      now: around.now,
      executor: executors,
      connector: watchedConnector(under.connector, watch, diary, { asksTwice, broke }),
      kvGroups: groups.kvGroups === null ? null : [...groups.kvGroups],
      workers: this.workers,
      numRanks: around.numRanks,
      strict: !isForeign(scene),
    });
  }

  /** Lets time pass for the lanes, ranks and links of the engine. */
  advance(): void {
    const { random, scene, isCalm } = this.#around;
    const { compute, copy } = scene.chances;
    const goesOn = (percent: number) => isCalm() || random.next() * 100 < percent;
    this.executors.ranks.forEach((_, rank) => {
      if (goesOn(compute)) this.executors.compute(rank);
    });
    for (const lane of this.lanes) if (goesOn(copy)) lane.goOn();
    this.under.tick?.();
  }

  /** Checks for faults of the KV memory, and of the ranks. */
  check(): void {
    const { trouble, ranks } = this.executors;
    if (trouble !== null) this.#around.broke(trouble);
    for (const [rank, { numFaults }] of ranks.entries()) {
      const fault = numFaults === 0 ? undefined : this.executors.firstFault(rank);
      if (fault === undefined) continue;
      const { kind, step, id, position, block, owner } = fault;
      const where = `position ${position} in block ${block}, written by ${owner ?? 'nobody'}`;
      this.#around.broke(`rank ${rank} finds ${kind} in step ${step}: ${id} reads ${where}`);
    }
  }

  /** Ends the work under way in the connector and in its lanes. */
  fence(): void {
    this.under.fence?.();
    const left = this.lanes.reduce((sum, lane) => sum + lane.counts().pending, 0);
    if (left > 0)
      this.#around.broke(
        `${left} copies are under way after fence(): they touch memory that is somebody else's`,
      );
    this.engine.fenceTransfers();
    this.watch.fenced();
  }

  /** Leftovers that must not exist at the end. */
  leftovers(): string[] {
    const { scheduler, workerFailures } = this.engine.stats();
    const { numDraining, numQuarantined, rowsInUse, freeBlocks, outstanding, anomalies } = scheduler;
    const uses = Object.entries(outstanding).map(
      ([kind, { count }]) => [`uses of kind ${kind}`, count] as const,
    );
    const { numBlocks, kvGroups } = this.engine.scheduler.config;
    const sinks = (kvGroups?.list ?? []).map(({ sinkTokens, blockSize }) => sinkTokens / blockSize);
    const allFree = numBlocks - 1 - sinks.reduce((sum, each) => sum + each, 0);
    const counts = [
      ['finished requests whose blocks are in use', numDraining],
      ['requests whose blocks are quarantined', numQuarantined],
      ['rows in use', rowsInUse],
      ['blocks that are pinned or held', allFree - freeBlocks],
      ['failed calls of workers', workerFailures],
      ['copies that are not over', this.watch.jobs.size],
      ...uses,
    ] as const;
    const left = counts.filter(([, count]) => count !== 0).map(([what, count]) => `${count} ${what}`);
    if (this.under.connector.hasPendingWork?.() === true) left.push('hasPendingWork is true');
    if (isPlain(this.#around.scene)) {
      for (const [reason, count] of Object.entries(anomalies))
        if (!reason.startsWith('abort-') && reason !== 'reassigned-block')
          left.push(`${count} anomalies: ${reason}`);
      left.push(...this.watch.open);
    }
    return [...left, ...(this.under.leftovers?.() ?? [])];
  }
}
