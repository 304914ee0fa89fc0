import { Verdict } from '../../../transfer/verdict.js';
import type { Staging } from '../wire/staging.js';
import type { Grant } from './grant.js';

/**
 * Maximum number of pieces that wait for a place; further pieces are dropped, and peers ask for
 * them again.
 */
const MAX_WAITING = 4096;

/** Blocks of a lease that a peer has asked for: `count` from `at` on, counted over all groups. */
export interface Asked {
  readonly peer: string;
  readonly life: string;
  readonly transfer: string;
  readonly at: number;
  readonly count: number;
}

/** Options of `Pieces`. */
export interface PiecesOptions {
  readonly staging: Staging;
  /** Returns the grant of a piece. Null: the grant is over, and the peer was told. */
  readonly grantOf: (asked: Asked) => Grant | null;
  /** A copy of the grant's blocks begins. */
  readonly begun: (grant: Grant) => void;
  readonly ended: (grant: Grant) => void;
  /** Sends a piece. */
  readonly send: (asked: Asked, bytes: Uint8Array) => void;
}

/**
 * The pieces that peers have asked for. Each piece is copied to the staging arena when a place is
 * free, the oldest first, and then sent.
 *
 * A peer repeats its request for a piece that did not arrive in time. A piece that already waits or
 * is being copied is not taken again. Otherwise, with fewer places than readers, the repetitions
 * would take the places that other readers wait for.
 *
 * Invariant: no piece is in both `#waiting` and `#copying`; `#waiting` keeps the order of asking.
 */
export class Pieces {
  readonly counts = { pieces: 0, dropped: 0, bytesSent: 0 };
  readonly #options: PiecesOptions;
  #waiting = new Map<string, Asked>();
  /** By name: the job that copies the piece, and the grant whose blocks it reads. */
  readonly #copying = new Map<string, { readonly job: number; readonly grant: Grant }>();

  constructor(options: PiecesOptions) {
    this.#options = options;
  }

  /** Handles a peer's request for a piece. */
  receive(asked: Asked): void {
    const name = nameOf(asked);
    if (this.#waiting.has(name) || this.#copying.has(name)) return;
    this.#copy(name, asked);
  }

  /** Starts pieces that wait for a place. */
  tick(): void {
    if (this.#waiting.size === 0) return;
    const waiting = this.#waiting;
    this.#waiting = new Map();
    for (const [name, asked] of waiting) this.#copy(name, asked);
  }

  /** Ends the copies of a grant's blocks as soon as possible. */
  stop(grant: Grant): void {
    for (const copy of this.#copying.values())
      if (copy.grant === grant) this.#options.staging.cancel(copy.job);
  }

  /** Forgets all waiting pieces. */
  clear(): void {
    this.#waiting.clear();
  }

  #copy(name: string, asked: Asked): void {
    const { staging, grantOf, begun, ended, send } = this.#options;
    const grant = grantOf(asked);
    if (grant === null) return;
    const blocks = blocksOf(grant, asked.at, asked.count);
    if (blocks === null || asked.count > staging.pieceBlocks) {
      this.counts.dropped++;
      return;
    }
    const slot = staging.take();
    if (slot === null) {
      if (this.#waiting.size < MAX_WAITING) this.#waiting.set(name, asked);
      else this.counts.dropped++;
      return;
    }
    begun(grant);
    const job = staging.store(blocks, slot, (verdict) => {
      this.#copying.delete(name);
      // The bytes are sent as a copy, because the link may keep them while the place is used again.
      const bytes = verdict === Verdict.ok ? staging.bytes(slot, asked.count).slice() : null;
      staging.give(slot);
      ended(grant);
      if (bytes === null) {
        this.counts.dropped++;
        return;
      }
      this.counts.pieces++;
      this.counts.bytesSent += bytes.byteLength;
      send(asked, bytes);
    });
    this.#copying.set(name, { job, grant });
  }
}

/** Returns a name that no other piece has. Transfers have unique names. */
function nameOf({ life, transfer, at, count }: Asked): string {
  return `${at} ${count} ${life} ${transfer}`;
}

/**
 * Returns the blocks of a grant with these indexes, counted over all groups; null if there are
 * fewer.
 */
function blocksOf({ blocks }: Grant, at: number, count: number): Int32Array | null {
  const found = new Int32Array(count);
  let filled = 0;
  let start = 0;
  for (const list of blocks) {
    const from = Math.max(at + filled - start, 0);
    const part = filled < count ? list.subarray(from, from + count - filled) : list.subarray(0, 0);
    found.set(part, filled);
    filled += part.length;
    start += list.length;
  }
  return filled === count ? found : null;
}
