/** A copy that every rank makes of its part of some blocks. Entry i of both lists is about the same block. */
export interface CopyOrder {
  /** Number of the job, which the report names. Loads and stores are numbered apart. */
  readonly job: number;
  /** Ids of the blocks of the pool. */
  readonly blocks: Int32Array;
  /** Places of the host tier. */
  readonly places: Int32Array;
}

/** A load, which is for one request. */
export interface LoadOrder extends CopyOrder {
  /** Handle of the request. */
  readonly handle: number;
}

/** A job between the host tier and the disk. */
export interface KeyedOrder {
  readonly job: number;
  /** The keys of the blocks: their hashes, with KV cache groups hash and group (`BlockKeys`). */
  readonly keys: readonly bigint[];
  /** Places of the host tier, one for each key; none where keys are only looked for. */
  readonly places: Int32Array;
}

/** What the workers are to do on disk, in this order. */
export interface DiskOrders {
  /** Names the KV cache groups: what was stored under another name is not found. Empty for one group of full attention. */
  readonly groups: string;
  /** Whether everything that is there is to be forgotten first. */
  readonly reset: boolean;
  /** Keys to be looked for. */
  readonly finds: readonly KeyedOrder[];
  readonly reads: readonly KeyedOrder[];
  readonly writes: readonly KeyedOrder[];
}

/** The end of a job between the host tier and the disk, on one rank. */
export interface DiskEnd {
  readonly job: number;
  /** One byte for each key: 1 = it is there, or was read or written; 0 = it is not, or was not. */
  readonly good: Uint8Array;
}

/** What a worker says of its disk. */
export interface DiskReport {
  /** Jobs that are over. */
  readonly ended: readonly DiskEnd[];
  /** How the disk has begun; said once. `isEmpty`: nothing was there. `numBlocks`: most blocks that it has room for. */
  readonly began?: { readonly isEmpty: boolean; readonly numBlocks: number };
}

/** What the workers are to do with a plan. Plain data; null instead if there is nothing to do. */
export interface OffloadOrders {
  /** Places that the scheduler side counts on: a worker with another number does nothing. */
  readonly hostBlocks: number;
  readonly stores: readonly CopyOrder[];
  readonly loads: readonly LoadOrder[];
  /** Only where there is a disk tier. */
  readonly disk?: DiskOrders;
}

/** What a worker says. Plain data. */
export interface OffloadReport {
  /** Bytes of a block on this rank; said once. */
  readonly bytesPerBlock?: number;
  /** Stores that are over: the job and its verdict, one after the other. */
  readonly stores?: readonly number[];
  /** Loads that are over, likewise. */
  readonly loads?: readonly number[];
  readonly disk?: DiskReport;
}
