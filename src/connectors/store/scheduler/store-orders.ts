import type { Verdict } from '../../../transfer/verdict.js';

/** A load of a request: what every rank reads from the store. */
export interface LoadOrder {
  readonly job: number;
  readonly handle: number;
  /** Key of each block (`BlockKeys`): its hash, where there is one group. In the order of the request's tokens, group after group. */
  readonly hashes: readonly bigint[];
  /** Where each goes, in the KV memory. */
  readonly blocks: Int32Array;
}

/** Blocks that every rank stores. */
export interface StoreOrder {
  readonly job: number;
  readonly hashes: readonly bigint[];
  readonly blocks: Int32Array;
}

/** What the scheduler side tells the workers with a plan. */
export interface StoreOrders {
  /** What all keys begin with. */
  readonly space: string;
  /** Bytes that the blocks have by the connector's format. */
  readonly bytesPerBlock: number;
  readonly loads: readonly LoadOrder[];
  readonly store: StoreOrder | null;
}

/** What a worker tells the scheduler side. */
export interface StoreSaid {
  /** Blocks of these jobs were copied, or will not be: they may be overwritten. */
  readonly copied: readonly { readonly job: number; readonly verdict: Verdict }[];
  /** Loads that are over, and how many of their first blocks came. */
  readonly loaded: readonly { readonly job: number; readonly numGood: number }[];
  /** Hashes of blocks that were copied, and that the store did not take after all. */
  readonly unstored: readonly bigint[];
}
