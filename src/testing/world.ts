// The surroundings for which a connector is built, and the built connector.
import type { LaneFactory } from '../connectors/base/kv-lanes.js';
import type { KvMemory } from '../connectors/base/kv-memory.js';
import type { SchedulerConnector, WorkerConnector } from '../scheduler/connector/connector.js';

/** The input for making a connector in one run of a case. */
export interface ConnectorWorld {
  /** Seed of the run. */
  readonly seed: number;
  /** Index of its engine, from 0: some cases have several. */
  readonly engine: number;
  /** Engines of the run. */
  readonly numEngines: number;
  /** How often this engine was restarted after being killed. */
  readonly incarnation: number;
  /** The KV memory of each rank. Declare loaded blocks by `adopt`, as `KvLanes` does. */
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
   * Makes lanes whose copies advance, and fail, by the seed. A connector with other lanes can be
   * tested too. Its test then sees less, and its runs are not repeatable.
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
   * True: offered KV may be gone when it is loaded, as in a store that others empty. Then the
   * engine recomputes it (`loadFailurePolicy: 'recompute'`), also in cases without other faults.
   * Default false.
   */
  readonly losesKv?: boolean;
  /** Called in every round, for activity beside the engine: links, timers, servers. */
  tick?(): void;
  /**
   * The requests of this engine: new requests, or requests that another engine handed over by the
   * transfer params of its result. Default: both.
   */
  readonly takes?: 'new' | 'hand-overs';
  /** The `transferParams` of a client's new request; undefined: none. */
  transferParams?(): Record<string, unknown> | undefined;
  /**
   * Called at the end of the faults: links are mended, and servers answer again. The connector may
   * give up lost transfers now.
   */
  calm?(): void;
  /**
   * Ends all work under way, so that none of it touches memory afterwards. Without it
   * `Engine.fenceTransfers` is not tried.
   */
  fence?(): void;
  /**
   * Cuts everything, as `kill -9` of its process would; no method is called after it. Without it no
   * engine is killed.
   */
  kill?(): void;
  /** Leftovers at the end that should not exist, in words. Called before the engine is disposed. */
  leftovers?(): readonly string[];
  /** Frees the resources of the run, after the engine was disposed. */
  dispose?(): void | Promise<void>;
}

/** Makes the connector, and its workers, for one engine of one run. */
export type MakeConnector = (world: ConnectorWorld) => ConnectorUnderTest | Promise<ConnectorUnderTest>;
