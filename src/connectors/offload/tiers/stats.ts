// The statistics of an offload.
import type { TierCounts } from './tier-index.js';

/** Contents and hits of a tier. */
export interface TierStats {
  /** Blocks that the tier can hold, on each rank. */
  readonly capacityBlocks: number;
  /** Blocks that can be found, on each rank. */
  readonly blocks: number;
  /** Bytes of these blocks on all ranks; 0 until the workers have reported the size of a block. */
  readonly bytes: number;
  /** Places of the tier, by state. */
  readonly places: TierCounts;
  /** Admissions that found blocks in the tier. */
  readonly hits: number;
  /** Tokens of these hits. */
  readonly hitTokens: number;
  /** Loads: begun, their blocks, failed on some rank, and under way. */
  readonly loads: {
    readonly begun: number;
    readonly blocks: number;
    readonly failed: number;
    readonly inFlight: number;
  };
  /**
   * Stores, one for each plan in which blocks became settled. The fields count stores begun, blocks
   * stored, stores failed on some rank, and stores under way. Skipped blocks were never stored,
   * because there was no room before their requests ended.
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

/** Statistics of a disk tier. */
export interface DiskStats {
  /** Lookups for a request. */
  readonly lookups: number;
  /** Lookups that brought blocks into the host tier, and the number of these blocks. */
  readonly hits: number;
  readonly readBlocks: number;
  /** Lookups whose blocks arrived after their request had stopped waiting. */
  readonly late: number;
  /** Lookups that were not made because the disk was slower than computing. */
  readonly passed: number;
  /** Blocks that were written, or that the disk had already. */
  readonly writtenBlocks: number;
  /** Blocks that were not written because too many writes were under way. */
  readonly skippedBlocks: number;
  /** Jobs that some rank has not reported. */
  readonly inFlight: number;
  /** Requests that wait for the disk. */
  readonly waiting: number;
  /** Requests with kept lookups, until they are admitted or end. */
  readonly tracked: number;
}

/** Contents and statistics of an `OffloadConnector`. Plain data. */
export interface OffloadStats {
  /** Admissions for which the tiers were asked. */
  readonly lookups: number;
  /** Requests that wait for the load of another request. */
  readonly waiting: number;
  /** Requests with kept state: they got an offer, or were admitted with a load that is not over. */
  readonly tracked: number;
  /** Blocks of the pool that stores have pinned. */
  readonly pinnedBlocks: number;
  /** Reports that no worker of this connector would send, by reason. */
  readonly anomalies: Readonly<Record<string, number>>;
  readonly host: TierStats;
  /** Null without a disk tier. */
  readonly disk: DiskStats | null;
}
