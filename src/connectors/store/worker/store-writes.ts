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

/** What `StoreWrites` tells. */
export interface WriteEvents {
  /** The blocks of a job are read no more. Told once. */
  copied(job: number, verdict: Verdict): void;
  /** A block that was copied was not stored. */
  unstored(hash: bigint): void;
}

/**
 * The stores of one rank: each block is copied from the KV memory to a place of the staging arena by a lane, and from there
 * it is stored. Blocks are kept from others only until they were copied.
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

  /** Begins as many copies as there are places for. While the store takes nothing, what waits is given up. */
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

  /** Reads no block any more: what was copied already is stored, and nothing else. */
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

/** What was not begun will not be. */
function giveUp(write: WriteState): void {
  write.numBegun = write.keys.length;
  write.verdict = Verdict.failed;
}
