import type { LaneFactory } from '../connectors/base/kv-lanes.js';
import type { KvMemory } from '../connectors/base/kv-memory.js';
import type { SchedulerConnector, WorkerConnector } from '../scheduler/connector/connector.js';

/** What a connector is built for in one run of a case. */
export interface ConnectorWorld {
  /** Seed of the run. */
  readonly seed: number;
  /** Which engine it is for, from 0: some cases have several. */
  readonly engine: number;
  /** Engines of the run. */
  readonly numEngines: number;
  /** How often this engine was begun before: more than 0 where the one before was killed. */
  readonly incarnation: number;
  /** The KV memory of each rank. Report what a load has filled by `adopt`, as `KvLanes` does. */
  readonly memories: readonly KvMemory[];
  readonly numRanks: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxModelLen: number;
  readonly pipelineDepth: 1 | 2 | 3;
  /** The same in every engine of the run. */
  readonly hashSeed: number;
  /** The virtual clock of the run, in milliseconds. */
  readonly now: () => number;
  /**
   * Makes lanes whose copies go on, and fail, by the seed. A connector that copies with other lanes can be tested too, but
   * less is seen, and its run is not the same each time.
   */
  readonly makeLane: LaneFactory;
  /** A number in [0, 1), drawn by the seed. */
  readonly random: () => number;
  /** The same object for every engine of the run: for links, stores and files that they share. */
  readonly shared: Map<string, unknown>;
}

/** A connector with its workers, made for one engine of one run. */
export interface ConnectorUnderTest {
  readonly connector: SchedulerConnector;
  /** One for each rank of the world. */
  readonly workers: readonly WorkerConnector[];
  /**
   * True: what was offered may be gone when it is loaded, as in a store that others empty. Then the engine recomputes
   * it (`loadFailurePolicy: 'recompute'`), also in cases where nothing else fails. Default false.
   */
  readonly losesKv?: boolean;
  /** Called in every round, for what goes on beside the engine: links, timers, servers. */
  tick?(): void;
  /**
   * Which requests come to this engine: new ones, or those that another engine has handed over by the transfer params of
   * its result. Default: both.
   */
  readonly takes?: 'new' | 'hand-overs';
  /** What clients give as `transferParams` of a new request; undefined = nothing. */
  transferParams?(): Record<string, unknown> | undefined;
  /**
   * Called when there will be no more faults: links are mended, servers answer again. What was lost may be given up now.
   */
  calm?(): void;
  /** Ends what is under way, so that nothing of it touches memory any more. Without it `Engine.fenceTransfers` is not tried. */
  fence?(): void;
  /** Cuts everything, as `kill -9` of its process would; no method is called after it. Without it no engine is killed. */
  kill?(): void;
  /** What is still there in the end, in words, that should not be. Asked before the engine is disposed. */
  leftovers?(): readonly string[];
  /** Frees what was made for the run, after the engine was disposed. */
  dispose?(): void | Promise<void>;
}

/** Makes the connector, and its workers, for one engine of one run. */
export type MakeConnector = (world: ConnectorWorld) => ConnectorUnderTest | Promise<ConnectorUnderTest>;
