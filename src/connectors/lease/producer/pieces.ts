import { Verdict } from '../../../transfer/verdict.js';
import type { Staging } from '../wire/staging.js';
import type { Grant } from './grant.js';

/** Pieces that may wait for a place; more are dropped, and asked for again. */
const MAX_WAITING = 4096;

/** Blocks of a lease that a peer has asked for: `count` from `at` on, counted over all groups. */
export interface Asked {
  readonly peer: string;
  readonly life: string;
  readonly transfer: string;
  readonly at: number;
  readonly count: number;
}

/** What `Pieces` need. */
export interface PiecesOptions {
  readonly staging: Staging;
  /** The grant that a piece is of; null: it is over, and the peer was told. */
  readonly grantOf: (asked: Asked) => Grant | null;
  /** A copy of the grant's blocks begins. */
  readonly begun: (grant: Grant) => void;
  readonly ended: (grant: Grant) => void;
  /** Sends a piece. */
  readonly send: (asked: Asked, bytes: Uint8Array) => void;
}

/**
 * The pieces that peers have asked for: each is copied to the staging arena as soon as there is a place, the oldest first, and sent.
 *
 * A peer asks again for what did not come in time. What waits here or is being copied is not taken twice: where there are fewer places
 * than readers, the repetitions would take the places of what others wait for.
 *
 * Invariant: no piece is in `#waiting` and `#copying`; `#waiting` is in the order of asking.
 */
export class Pieces {
  readonly counts = { pieces: 0, dropped: 0, bytesSent: 0 };
  readonly #options: PiecesOptions;
  #waiting = new Map<string, Asked>();
  /** By name: the job that copies it, and whose blocks it reads. */
  readonly #copying = new Map<string, { readonly job: number; readonly grant: Grant }>();

  constructor(options: PiecesOptions) {
    this.#options = options;
  }

  /** Takes what a peer asks for. */
  take(asked: Asked): void {
    const name = nameOf(asked);
    if (this.#waiting.has(name) || this.#copying.has(name)) return;
    this.#copy(name, asked);
  }

  /** Goes on with what waits for a place. */
  tick(): void {
    if (this.#waiting.size === 0) return;
    const waiting = this.#waiting;
    this.#waiting = new Map();
    for (const [name, asked] of waiting) this.#copy(name, asked);
  }

  /** Has the copies of a grant's blocks end as soon as they can. */
  stop(grant: Grant): void {
    for (const copy of this.#copying.values())
      if (copy.grant === grant) this.#options.staging.cancel(copy.job);
  }

  /** Forgets what waits. */
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
      // The bytes go with a copy: the link may keep them for a while, and the place is used again.
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

/** A name that no other piece has: reads have names of their own. */
function nameOf({ life, transfer, at, count }: Asked): string {
  return `${at} ${count} ${life} ${transfer}`;
}

/** The blocks of a grant with these indexes, counted over all groups; null if there are not so many. */
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
