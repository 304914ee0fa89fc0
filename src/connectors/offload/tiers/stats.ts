import type { TierCounts } from './tier-index.js';

/** What a tier holds, and what it was good for so far. */
export interface TierStats {
  /** Blocks that the tier can hold, on each rank. */
  readonly capacityBlocks: number;
  /** Blocks that can be found, on each rank. */
  readonly blocks: number;
  /** Bytes of these blocks on all ranks; 0 until the workers have said how large a block is. */
  readonly bytes: number;
  /** Places of the tier, by state. */
  readonly places: TierCounts;
  /** Admissions that found something in the tier. */
  readonly hits: number;
  /** Tokens that these found. */
  readonly hitTokens: number;
  /** Loads: begun so far, their blocks, those that failed on some rank, and those under way. */
  readonly loads: {
    readonly begun: number;
    readonly blocks: number;
    readonly failed: number;
    readonly inFlight: number;
  };
  /**
   * Stores, one for each plan in which blocks became settled: begun so far, blocks that were stored, stores that failed on
   * some rank, blocks that were never stored since there was no room before their requests ended, and stores under way.
   */
  readonly stores: {
    readonly begun: number;
    readonly blocks: number;
    readonly failed: number;
    readonly skippedBlocks: number;
    readonly inFlight: number;
  };
  /** Blocks that were dropped to make room. */
  readonly evictions: number;
}

/** What a disk tier was good for so far. */
export interface DiskStats {
  /** Lookups for a request. */
  readonly lookups: number;
  /** Lookups that brought something into the host tier, and how many blocks they brought. */
  readonly hits: number;
  readonly readBlocks: number;
  /** Lookups whose blocks came when their request had not waited any longer. */
  readonly late: number;
  /** Lookups that were not made, since the disk was slower than computing. */
  readonly passed: number;
  /** Blocks that the disk has of what it was given, also those that it had already. */
  readonly writtenBlocks: number;
  /** Blocks that were not written, since too many were being written. */
  readonly skippedBlocks: number;
  /** Jobs that the ranks have not all reported. */
  readonly inFlight: number;
  /** Requests that wait for the disk. */
  readonly waiting: number;
  /** Requests of which it is kept that they were looked for, until they are admitted or end. */
  readonly tracked: number;
}

/** What an `OffloadConnector` holds and has done. Plain data. */
export interface OffloadStats {
  /** Admissions for which the tiers were asked. */
  readonly lookups: number;
  /** Requests that wait for a load of others. */
  readonly waiting: number;
  /** Requests of which something is kept: they were offered blocks, or admitted with a load that is not over. */
  readonly tracked: number;
  /** Blocks of the pool that stores keep from others. */
  readonly pinnedBlocks: number;
  /** Reports that no worker of this connector would send, by reason. */
  readonly anomalies: Readonly<Record<string, number>>;
  readonly host: TierStats;
  /** Null where there is no disk tier. */
  readonly disk: DiskStats | null;
}
