import type { LoadOrder } from '../wire/orders.js';
import type { Peer } from './peer.js';

/** A lease of a peer that a request of this engine may read. */
export interface Watch {
  readonly handle: number;
  readonly key: string;
  readonly peer: Peer;
  /** How long the lease lasts without a sign of life, in milliseconds. */
  readonly leaseMs: number;
  /**
   * `asking`: it is not known whether the lease holds. `alive`: it was found alive. `lost`: it cannot be read.
   * `reading`: a read of it goes on. `leaving`: it is needed no more, and the peer is to be told.
   */
  state: 'asking' | 'alive' | 'lost' | 'reading' | 'leaving';
  /** When the state began. */
  since: number;
  /** When the peer last said that the lease is alive. */
  aliveAt: number;
  read: Read | null;
}

/** A read of the blocks of a lease: one load of one request. */
export interface Read {
  /** Name of the read, which no other read of any worker has. */
  readonly transfer: string;
  readonly watch: Watch;
  readonly order: LoadOrder;
  /** The step whose plan began the load. */
  readonly step: number;
  readonly notBefore: number;
  /**
   * `opening`: announced. `copying`: the peer has named the blocks. `confirming`: all is copied, and the peer is asked
   * whether that counts. `failed`: nothing of it counts; it is over when no copy of this side writes any more.
   */
  phase: 'opening' | 'copying' | 'confirming' | 'failed';
  /** When the last question of this read was sent. */
  askedAt: number;
  /** When the read last came further. */
  movedAt: number;
  /** It failed before the peer had named the blocks, so nothing was written. */
  isDeclined: boolean;
  /** Copies of this side that may still write the request's blocks. */
  numCopies: number;
  /** Stops the copies, as far as they have not begun. */
  stop: (() => void) | null;
}
