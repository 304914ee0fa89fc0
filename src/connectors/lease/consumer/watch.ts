import type { LoadOrder } from '../wire/orders.js';
import type { Peer } from './peer.js';

/** A lease of a peer that a request of this engine may read. */
export interface Watch {
  readonly handle: number;
  readonly key: string;
  readonly peer: Peer;
  /** How long the lease stays valid without a sign of life, in milliseconds. */
  readonly leaseMs: number;
  /**
   * `asking`: it is unknown whether the lease is valid. `alive`: the lease was found valid. `lost`:
   * the lease cannot be read. `reading`: a read of the lease is in progress. `leaving`: the lease
   * is no longer needed, and the peer must be told.
   */
  state: 'asking' | 'alive' | 'lost' | 'reading' | 'leaving';
  /** When the state began. */
  since: number;
  /** When the peer last confirmed the lease. */
  aliveAt: number;
  read: Read | null;
}

/** A read of the blocks of a lease: one load of one request. */
export interface Read {
  /** Name of the read, unique among the reads of all workers. */
  readonly transfer: string;
  readonly watch: Watch;
  readonly order: LoadOrder;
  /** The step whose plan began the load. */
  readonly step: number;
  readonly notBefore: number;
  /**
   * `opening`: the read was announced. `copying`: the peer has named the blocks. `confirming`: all
   * bytes are copied, and the peer is asked whether they count. `failed`: nothing of the read
   * counts; it is over when no copy of this side writes any more.
   */
  phase: 'opening' | 'copying' | 'confirming' | 'failed';
  /** When the last question of this read was sent. */
  askedAt: number;
  /** When the read last made progress. */
  movedAt: number;
  /** Whether the read failed before the peer named the blocks, so nothing was written. */
  isDeclined: boolean;
  /** Number of copies of this side that may still write the request's blocks. */
  numCopies: number;
  /** Stops the copies that have not begun. */
  stop: (() => void) | null;
}
