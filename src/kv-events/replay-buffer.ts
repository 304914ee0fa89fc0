/** A published batch. */
export interface Published {
  readonly seq: number;
  readonly payload: Uint8Array;
}

/** The latest published batches, for subscribers that missed some. */
export class ReplayBuffer {
  readonly #batches: (Published | undefined)[];
  #next = 0;

  /** @param capacity number of kept batches */
  constructor(capacity: number) {
    this.#batches = new Array<Published | undefined>(capacity);
  }

  /** Adds a batch. Batches must come in the order of their numbers. */
  add(batch: Published): void {
    this.#batches[this.#next++ % this.#batches.length] = batch;
  }

  /** The batches from a number on that are still kept, oldest first. */
  *from(seq: number): Generator<Published> {
    const last = this.#next;
    for (let at = Math.max(0, last - this.#batches.length); at < last; at++) {
      const batch = this.#batches[at % this.#batches.length];
      // A batch that was overwritten meanwhile is newer than this replay.
      if (batch !== undefined && batch.seq >= seq) yield batch;
    }
  }
}
