/**
 * The messages between the scheduler side and the workers. The orders travel with a plan. Plain
 * data.
 */

/** A lease to grant when the KV is complete. */
export interface GrantOrder {
  readonly kind: 'grant';
  readonly handle: number;
  /** Name of the lease, never reused. */
  readonly key: string;
  /** Ids of the blocks, by group. */
  readonly blocks: readonly Int32Array[];
  /** Fewest and most tokens that a reader may resume behind with these blocks. */
  readonly fewest: number;
  readonly most: number;
  /** The last step that still writes the blocks; -1: all KV is already there. */
  readonly readableFrom: number;
}

/** The request's client has gone, or its KV is lost. */
export interface RevokeOrder {
  readonly kind: 'revoke';
  readonly handle: number;
  /** True: no read may end well any more. False: an open read may still end well. */
  readonly atOnce: boolean;
}

/** A lease of a peer, to keep alive for a request that queues. */
export interface WatchOrder {
  readonly kind: 'watch';
  readonly handle: number;
  readonly key: string;
  /** The addresses of the peer's workers, by rank. */
  readonly addresses: readonly string[];
  readonly leaseMs: number;
}

/** The request no longer needs its peer's lease. */
export interface ForgoOrder {
  readonly kind: 'forgo';
  readonly handle: number;
}

export type Order = GrantOrder | RevokeOrder | WatchOrder | ForgoOrder;

/** A load that begins with this plan. */
export interface LoadOrder {
  readonly handle: number;
  /** Number of tokens that the request resumes behind. */
  readonly numTokens: number;
  /** By group: index of the first block that is loaded. */
  readonly firsts: readonly number[];
  /** Ids of the blocks to fill, by group. */
  readonly blocks: readonly Int32Array[];
}

/**
 * The metadata of a plan. An order is repeated in every plan until all ranks have acknowledged it,
 * so a plan that never reached the workers loses none. Loads are not repeated, because the engine
 * fails the loads of such a plan.
 */
export interface LeaseOrders {
  /** Digest of all settings that two engines must agree on. */
  readonly settings: string;
  /** Name of this life of the scheduler side. The keys of its leases begin with it. */
  readonly life: string;
  /** How long a lease lasts, in milliseconds. */
  readonly leaseMs: number;
  /** How long a lease is kept for a reader that only queues, in milliseconds. */
  readonly maxQueueMs: number;
  /** Number of the first entry of `orders`. Orders are numbered from 0, without gaps. */
  readonly first: number;
  readonly orders: readonly Order[];
  readonly loads: readonly LoadOrder[];
}

/** A worker's report to the scheduler side. */
export interface LeaseSaid {
  /** The worker has taken all orders below this number. */
  readonly taken: number;
  /** Handles of requests whose lease was found alive. */
  readonly alive: readonly number[];
  /**
   * Handles of requests whose lease was last found alive so long ago that it may be over. The
   * worker asks about it again.
   */
  readonly doubted: readonly number[];
  /** Handles of requests whose lease can no longer be read. */
  readonly lost: readonly number[];
}

/** Returns the name of the lease with this number. */
export function leaseKey(life: string, number: number): string {
  return `${life}.${number}`;
}

/** Returns the number of a lease of this life, from 1; null for any other key. */
export function leaseNumber(life: string, key: string): number | null {
  if (!key.startsWith(`${life}.`)) return null;
  const number = Number(key.slice(life.length + 1));
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}
