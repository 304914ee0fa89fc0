import { Verdict, worseVerdict } from '../../../transfer/verdict.js';
import type { KvLanes } from '../../base/kv-lanes.js';
import type { StoreThread } from '../client/store-thread.js';
import { Outcome } from '../stores/block-store.js';
import type { Staging } from './staging.js';

/** Blocks that one rank stores. */
export interface Write {
  readonly job: number;
  readonly keys: readonly string[];
  readonly hashes: readonly bigint[];
  readonly blocks: Int32Array;
}

interface WriteState extends Write {
  numBegun: number;
  numParts: number;
  verdict: Verdict;
}

/** The callbacks of a `StoreWrites`. */
export interface WriteEvents {
  /** The blocks of a job are no longer read. Called once. */
  copied(job: number, verdict: Verdict): void;
  /** A block that was copied was not stored. */
  unstored(hash: bigint): void;
}

/**
 * The stores of one rank. A lane copies each block from the KV memory to a place of the staging
 * arena, and the thread stores it from there. Blocks are pinned only until they were copied.
 */
export class StoreWrites {
  readonly #thread: StoreThread;
  readonly #lanes: KvLanes;
  readonly #staging: Staging;
  readonly #partBlocks: number;
  readonly #events: WriteEvents;
  readonly #waiting: WriteState[] = [];

  constructor(
    thread: StoreThread,
    lanes: KvLanes,
    staging: Staging,
    partBlocks: number,
    events: WriteEvents,
  ) {
    this.#thread = thread;
    this.#lanes = lanes;
    this.#staging = staging;
    this.#partBlocks = partBlocks;
    this.#events = events;
  }

  add(write: Write): void {
    this.#waiting.push({ ...write, numBegun: 0, numParts: 0, verdict: Verdict.ok });
  }

  /**
   * Begins as many copies as there are places. While the store takes no values, waiting blocks are
   * given up.
   */
  pump(): void {
    while (this.#waiting.length > 0) {
      const write = this.#waiting[0];
      const left = write.keys.length - write.numBegun;
      if (!this.#thread.acceptsPuts) giveUp(write);
      else if (left > 0) {
        const count = Math.min(left, this.#partBlocks, this.#staging.room('store'));
        if (count === 0) return;
        this.#begin(write, count);
      }
      if (write.numBegun < write.keys.length) continue;
      this.#waiting.shift();
      if (write.numParts === 0) this.#events.copied(write.job, write.verdict);
    }
  }

  /** Stops reading blocks. Only blocks that were already copied are stored. */
  fence(): void {
    for (const write of this.#waiting) giveUp(write);
    this.pump();
  }

  #begin(write: WriteState, count: number): void {
    const from = write.numBegun;
    const end = from + count;
    write.numBegun = end;
    write.numParts++;
    const places = this.#staging.take('store', count);
    this.#lanes.store(write.blocks.subarray(from, end), places, (verdict) => {
      write.numParts--;
      write.verdict = worseVerdict(write.verdict, verdict);
      if (verdict === Verdict.ok) this.#put(write, from, places);
      else this.#staging.give('store', places);
      if (write.numParts === 0 && write.numBegun === write.keys.length)
        this.#events.copied(write.job, write.verdict);
    });
  }

  #put({ keys, hashes }: Write, from: number, places: Int32Array): void {
    const end = (outcomes: Uint8Array): void => {
      for (const [i, outcome] of outcomes.entries())
        if (outcome !== Outcome.done) this.#events.unstored(hashes[from + i]);
    };
    const free = (): void => this.#staging.give('store', places);
    this.#thread.put(keys.slice(from, from + places.length), places, end, free);
  }
}

/** Gives up the blocks that were not begun. */
function giveUp(write: WriteState): void {
  write.numBegun = write.keys.length;
  write.verdict = Verdict.failed;
}
