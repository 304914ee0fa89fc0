/** How a lease ended. */
export type LeaseEnd = 'read' | 'released' | 'expired' | 'cancelled' | 'failed';

/** A peer that reads the blocks of a lease. */
export interface Reading {
  readonly peer: string;
  /** Life of the peer. */
  readonly life: string;
  readonly transfer: string;
}

/** Blocks that are kept for a peer. */
export interface Grant {
  readonly key: string;
  readonly handle: number;
  /** Ids of the blocks, by group. */
  readonly blocks: readonly Int32Array[];
  readonly fewest: number;
  readonly most: number;
  readonly readableFrom: number;
  /** When the lease was ordered. */
  readonly orderedAt: number;
  /**
   * `pending`: a step may still write the blocks. `over`: a copy of this side still reads the
   * blocks, and no peer may read them.
   */
  state: 'pending' | 'leased' | 'over';
  /** The open read: there is one at a time. Null: no peer reads. */
  reading: Reading | null;
  /** Number of copies of this side that read the blocks. */
  numCopies: number;
  /**
   * The request's client has gone. The lease is no longer renewed, and ends with its open reads.
   */
  isCancelled: boolean;
}

/** Called when the state of a grant changes. */
export interface GrantEvents {
  /** A read may begin. */
  opened(reading: Reading, grant: Grant): void;
  /** A read does not count. */
  closed(reading: Reading, reason: string): void;
  /** The reader is asked to stop. */
  cancelled(reading: Reading, grant: Grant): void;
  /**
   * The lease is over while copies of this side read its blocks. No peer wants these copies any
   * more.
   */
  unwanted(grant: Grant): void;
}
