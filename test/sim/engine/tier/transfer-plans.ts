// The loads and stores of a tier, and the loads of the last steps.

/** Blocks of one request that go to the tier of one child. */
export interface StorePlan {
  readonly step: number;
  /** Of a hand-over: the step that was still to write its blocks, -1 = none. */
  readonly readableFrom: number;
  /** Its blocks are settled: it begins at once, whatever becomes of the request and of its steps. */
  readonly isSettled: boolean;
  readonly handle: number;
  readonly child: number;
  readonly blocks: readonly number[];
  readonly keys: readonly bigint[];
  /** The correct KV of these blocks. */
  readonly right: readonly Int32Array[];
  /** The KV that was read, by block and rank. */
  readonly read: Int32Array[][];
  /** Ranks that have not ended. */
  ranksLeft: number;
  isDropped: boolean;
}

/** Blocks of one request that come from the tier of one child. */
export interface LoadPlan {
  readonly step: number;
  readonly handle: number;
  readonly child: number;
  readonly async: boolean;
  readonly blocks: readonly number[];
  /** The KV that the tier holds, by block and rank. */
  readonly sources: readonly (readonly Int32Array[])[];
}

/** The metadata of one step from the scheduler side of the connector for its workers. */
export interface TierMetadata {
  step: number;
  loads: LoadPlan[];
  /** To be begun when the step was executed. */
  stores: StorePlan[];
  /** Of requests that have ended: to be begun at once. */
  handOvers: StorePlan[];
}

/** Steps for which a load counts as recent: more than can be in flight. */
const KEPT_STEPS = 8;

/** The loads of the steps that were made last, begun or not. */
export class RecentLoads {
  #loads: readonly LoadPlan[] = [];

  /** A step brings these loads; loads that are too old are forgotten. */
  add(step: number, loads: readonly LoadPlan[]): void {
    this.#loads = this.#loads.filter((load) => load.step > step - KEPT_STEPS).concat(loads);
  }

  [Symbol.iterator](): IterableIterator<LoadPlan> {
    return this.#loads.values();
  }
}
