// The orders of the scheduler side to the workers, and their reports.

/**
 * A copy of some blocks, of which every rank copies its part. Entry i of both lists describes the
 * same block.
 */
export interface CopyOrder {
  /** Number of the job, which the report repeats. Loads and stores have separate numbers. */
  readonly job: number;
  /** Ids of the blocks of the pool. */
  readonly blocks: Int32Array;
  /** Places of the host tier. */
  readonly places: Int32Array;
}

/** A load for one request. */
export interface LoadOrder extends CopyOrder {
  /** Handle of the request. */
  readonly handle: number;
}

/** A job between the host tier and the disk. */
export interface KeyedOrder {
  readonly job: number;
  /** The keys of the blocks: hashes, or with KV cache groups hash and group (`BlockKeys`). */
  readonly keys: readonly bigint[];
  /** Places of the host tier, one for each key; none if keys are only looked up. */
  readonly places: Int32Array;
}

/** The workers' jobs on disk, in this order. */
export interface DiskOrders {
  /**
   * Name of the KV cache groups and the number of ranks. Blocks stored under another name are not
   * found, because another number of ranks divides the KV otherwise.
   */
  readonly layout: string;
  /** Whether all earlier content must be forgotten first. */
  readonly reset: boolean;
  /** Keys to look up. */
  readonly finds: readonly KeyedOrder[];
  readonly reads: readonly KeyedOrder[];
  readonly writes: readonly KeyedOrder[];
}

/** The end of a job between the host tier and the disk, on one rank. */
export interface DiskEnd {
  readonly job: number;
  /**
   * One byte for each key: 1 = the key is there, or was read or written; 0 = it is not, or was not.
   */
  readonly good: Uint8Array;
}

/** A worker's report about its disk. */
export interface DiskReport {
  /** Jobs that are over. */
  readonly ended: readonly DiskEnd[];
  /**
   * The first state of the disk, reported once. `isEmpty`: it had no content. `numBlocks`: maximum
   * number of blocks that it has room for.
   */
  readonly began?: { readonly isEmpty: boolean; readonly numBlocks: number };
}

/** The workers' orders of a plan. Plain data; null if there are no orders. */
export interface OffloadOrders {
  /**
   * Number of places that the scheduler side expects. A worker with another number refuses the
   * orders.
   */
  readonly hostBlocks: number;
  readonly stores: readonly CopyOrder[];
  readonly loads: readonly LoadOrder[];
  /** Absent without a disk tier. */
  readonly disk?: DiskOrders;
}

/** A worker's report. Plain data. */
export interface OffloadReport {
  /** Bytes of a block on this rank, reported once. */
  readonly bytesPerBlock?: number;
  /** Stores that are over: the job and its verdict, alternating. */
  readonly stores?: readonly number[];
  /** Loads that are over, in the same form. */
  readonly loads?: readonly number[];
  readonly disk?: DiskReport;
}
