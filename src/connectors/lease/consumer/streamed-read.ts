import { Verdict } from '../../../transfer/verdict.js';
import type { Slot, Staging } from '../wire/staging.js';
import type { Read } from './watch.js';

/** Consecutive blocks of a lease, and the blocks that they go to. */
interface Piece {
  /** Index of the first block, counted over all groups of the lease. */
  readonly at: number;
  readonly blocks: Int32Array;
  slot: Slot | null;
  askedAt: number;
  /** Its copy from the staging arena to the KV memory; 0 = not begun. */
  job: number;
  state: 'waiting' | 'asked' | 'copying' | 'over';
}

/** What a streamed read needs of its reader. */
export interface StreamEvents {
  /** Asks the peer for a piece. */
  fetch(read: Read, at: number, count: number): void;
  /** A copy of this side is over. */
  copied(read: Read, isGood: boolean): void;
  /** All pieces are copied. */
  done(read: Read): void;
}

/**
 * A read whose bytes come by messages, in pieces: each takes a slot of the staging arena before it is asked for, so that
 * never more is on its way than the arena holds.
 */
export class StreamedRead {
  readonly #read: Read;
  readonly #staging: Staging;
  readonly #events: StreamEvents;
  readonly #pieces: Piece[] = [];
  #numOver = 0;
  #stopped = false;

  /** @param lengths blocks of the lease, by group */
  constructor(read: Read, lengths: readonly number[], staging: Staging, events: StreamEvents) {
    this.#read = read;
    this.#staging = staging;
    this.#events = events;
    let start = 0;
    for (const [group, blocks] of read.order.blocks.entries()) {
      for (let i = 0; i < blocks.length; i += staging.pieceBlocks) {
        const part = blocks.subarray(i, i + staging.pieceBlocks);
        const at = start + read.order.firsts[group] + i;
        this.#pieces.push({ at, blocks: part, slot: null, askedAt: 0, job: 0, state: 'waiting' });
      }
      start += lengths[group];
    }
  }

  /** Whether pieces are to come from the peer. Otherwise all are copied or being copied, or there are no slots for them. */
  get isAsking(): boolean {
    return this.#pieces.some(({ state }) => state === 'asked');
  }

  /** Asks for pieces, as far as there are slots. */
  feed(now: number): void {
    for (const piece of this.#pieces) {
      if (this.#stopped || piece.state !== 'waiting') continue;
      const slot = this.#staging.take();
      if (slot === null) return;
      piece.slot = slot;
      piece.state = 'asked';
      this.#ask(piece, now);
    }
  }

  /** Asks again for the pieces that did not come in time. */
  askAgain(now: number, ms: number): void {
    for (const piece of this.#pieces) {
      if (piece.state === 'asked' && now - piece.askedAt >= ms) this.#ask(piece, now);
    }
  }

  /** Takes the bytes of a piece. @returns false if it was not waited for */
  take(at: number, bytes: Uint8Array, bytesPerBlock: number): boolean {
    const piece = this.#pieces.find((each) => each.at === at);
    if (piece?.state !== 'asked' || this.#stopped) return false;
    const { blocks, slot } = piece;
    if (slot === null || bytes.byteLength !== blocks.length * bytesPerBlock) return false;
    this.#staging.bytes(slot, blocks.length).set(bytes);
    piece.state = 'copying';
    const read = this.#read;
    piece.job = this.#staging.load(read.order.handle, slot, blocks, read.notBefore, (verdict) => {
      this.#leave(piece);
      this.#numOver++;
      this.#events.copied(read, verdict === Verdict.ok);
      if (!this.#stopped && this.#numOver === this.#pieces.length) this.#events.done(read);
    });
    read.numCopies++;
    return true;
  }

  /** Gives the slots of pieces back that did not come, and cancels the copies. */
  stop(): void {
    this.#stopped = true;
    for (const piece of this.#pieces) {
      if (piece.state === 'asked') this.#leave(piece);
      else if (piece.state === 'copying') this.#staging.cancel(piece.job);
    }
  }

  #ask(piece: Piece, now: number): void {
    piece.askedAt = now;
    this.#events.fetch(this.#read, piece.at, piece.blocks.length);
  }

  #leave(piece: Piece): void {
    if (piece.slot !== null) this.#staging.give(piece.slot);
    piece.slot = null;
    piece.state = 'over';
  }
}
