/** What the scheduler side tells the workers with a plan, and what they say to it. Plain data. */

/** A lease to be granted once the KV is there. */
export interface GrantOrder {
  readonly kind: 'grant';
  readonly handle: number;
  /** Name of the lease, which no other lease ever has. */
  readonly key: string;
  /** Ids of the blocks, by group. */
  readonly blocks: readonly Int32Array[];
  /** Fewest and most tokens that a reader may resume behind with these blocks. */
  readonly fewest: number;
  readonly most: number;
  /** The last step that still writes the blocks; -1: everything stands there. */
  readonly readableFrom: number;
}

/** The request's client has gone, or its KV is lost. */
export interface RevokeOrder {
  readonly kind: 'revoke';
  readonly handle: number;
  /** True: not one read may end well any more. False: a read that is open may end. */
  readonly atOnce: boolean;
}

/** A lease of a peer, to be kept alive for a request that queues. */
export interface WatchOrder {
  readonly kind: 'watch';
  readonly handle: number;
  readonly key: string;
  /** Where the peer is, by rank. */
  readonly addresses: readonly string[];
  readonly leaseMs: number;
}

/** The request needs its peer's lease no more. */
export interface ForgoOrder {
  readonly kind: 'forgo';
  readonly handle: number;
}

export type Order = GrantOrder | RevokeOrder | WatchOrder | ForgoOrder;

/** A load that begins with this plan. */
export interface LoadOrder {
  readonly handle: number;
  /** Tokens that the request resumes behind. */
  readonly numTokens: number;
  /** By group: index of the first block that is loaded. */
  readonly firsts: readonly number[];
  /** Ids of the blocks that are filled, by group. */
  readonly blocks: readonly Int32Array[];
}

/**
 * The metadata of a plan. An order is repeated with every plan until all ranks have acknowledged it, so a plan that
 * never reached the workers loses none. Loads are not repeated: the engine has failed those of such a plan.
 */
export interface LeaseOrders {
  /** Digest of everything that two engines must agree on. */
  readonly settings: string;
  /** Names the life of the scheduler side: the beginning of the keys of its leases. */
  readonly life: string;
  /** How long a lease lasts, in milliseconds. */
  readonly leaseMs: number;
  /** How long it is kept for a reader that only queues, in milliseconds. */
  readonly maxQueueMs: number;
  /** Number of the first of `orders`; they are numbered from 0 and without a gap. */
  readonly first: number;
  readonly orders: readonly Order[];
  readonly loads: readonly LoadOrder[];
}

/** What a worker says. */
export interface LeaseSaid {
  /** Orders that the worker has taken: all below this number. */
  readonly taken: number;
  /** Handles of requests whose lease was found alive. */
  readonly alive: readonly number[];
  /** Handles of requests whose lease was found alive so long ago that it may be over: it is asked about again. */
  readonly doubted: readonly number[];
  /** Handles of requests whose lease cannot be read any more. */
  readonly lost: readonly number[];
}

/** The name of the lease with this number. */
export function leaseKey(life: string, number: number): string {
  return `${life}.${number}`;
}

/** The number of a lease of this life, from 1; null for a key of another life, or none. */
export function leaseNumber(life: string, key: string): number | null {
  if (!key.startsWith(`${life}.`)) return null;
  const number = Number(key.slice(life.length + 1));
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}
