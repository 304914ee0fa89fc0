/** A batch as it was published. */
export interface Published {
  readonly seq: number;
  readonly payload: Uint8Array;
}

/** The batches that were published last, for subscribers that missed some. */
export class ReplayBuffer {
  readonly #batches: (Published | undefined)[];
  #next = 0;

  /** @param capacity batches that are kept */
  constructor(capacity: number) {
    this.#batches = new Array<Published | undefined>(capacity);
  }

  /** The batches come in the order of their numbers. */
  add(batch: Published): void {
    this.#batches[this.#next++ % this.#batches.length] = batch;
  }

  /** The batches from a number on that are still kept, oldest first. */
  *from(seq: number): Generator<Published> {
    const last = this.#next;
    for (let at = Math.max(0, last - this.#batches.length); at < last; at++) {
      const batch = this.#batches[at % this.#batches.length];
      // What was overwritten meanwhile is newer than what was asked for here.
      if (batch !== undefined && batch.seq >= seq) yield batch;
    }
  }
}
