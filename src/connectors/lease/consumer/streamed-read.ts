import { Verdict } from '../../../transfer/verdict.js';
import type { Slot, Staging } from '../wire/staging.js';
import type { Read } from './watch.js';

/** Consecutive blocks of a lease, and their target blocks. */
interface Piece {
  /** Index of the first block, counted over all groups of the lease. */
  readonly at: number;
  readonly blocks: Int32Array;
  slot: Slot | null;
  askedAt: number;
  /** The job that copies from the staging arena to the KV memory; 0 = not begun. */
  job: number;
  state: 'waiting' | 'asked' | 'copying' | 'over';
}

/** The callbacks that a streamed read needs from its reader. */
export interface StreamEvents {
  /** Asks the peer for a piece. */
  fetch(read: Read, at: number, count: number): void;
  /** A copy of this side is over. */
  copied(read: Read, isGood: boolean): void;
  /** All pieces are copied. */
  done(read: Read): void;
}

/**
 * A read whose bytes arrive in messages, in pieces. Each piece takes a slot of the staging arena
 * before it is requested. The bytes under way therefore never exceed the arena.
 */
export class StreamedRead {
  readonly #read: Read;
  readonly #staging: Staging;
  readonly #events: StreamEvents;
  readonly #pieces: Piece[] = [];
  #numOver = 0;
  #stopped = false;

  /** @param lengths number of blocks of the lease, by group */
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

  /**
   * Whether pieces are expected from the peer. If not, every other piece is copied, being copied,
   * or waiting for a slot.
   */
  get isAsking(): boolean {
    return this.#pieces.some(({ state }) => state === 'asked');
  }

  /** Requests pieces while there are free slots. */
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

  /** Repeats the requests for pieces that did not arrive in time. */
  askAgain(now: number, ms: number): void {
    for (const piece of this.#pieces) {
      if (piece.state === 'asked' && now - piece.askedAt >= ms) this.#ask(piece, now);
    }
  }

  /** Handles the bytes of a piece. @returns false if the piece was not expected */
  receive(at: number, bytes: Uint8Array, bytesPerBlock: number): boolean {
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

  /** Frees the slots of pieces that did not arrive, and cancels the copies. */
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
