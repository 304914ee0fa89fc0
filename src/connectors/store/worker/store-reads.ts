import { Verdict } from '../../../transfer/verdict.js';
import type { KvLanes } from '../../base/kv-lanes.js';
import type { StoreThread } from '../client/store-thread.js';
import { Outcome } from '../stores/block-store.js';
import type { Staging } from './staging.js';

/** A load of a request on one rank. */
export interface Read {
  readonly job: number;
  readonly handle: number;
  /** The step whose plan began the load, and the step that must be executed before it writes. */
  readonly step: number;
  readonly notBefore: number;
  readonly keys: readonly string[];
  readonly blocks: Int32Array;
}

interface ReadState extends Read {
  /** Number of leading blocks for which reading has begun. */
  numBegun: number;
  /** Number of parts under way. */
  numParts: number;
  /** The jobs of the copies among them. */
  readonly jobs: Set<number>;
  /**
   * Index of the first block that did not arrive. Later blocks are useless, and are no longer read.
   */
  firstBad: number;
}

/**
 * Called once when no copy writes the blocks of a read any more. `numGood` leading blocks arrived.
 */
export type ReadEnd = (read: Read, numGood: number) => void;

/**
 * The loads of one rank. Each block goes from the store to a place of the staging arena, and then
 * by a lane to the KV memory. A long load is done in parts, as many at once as there are places.
 *
 * Invariant: a place is given back when neither the thread nor the lane uses it, whatever the
 * outcome of its block.
 */
export class StoreReads {
  readonly #thread: StoreThread;
  readonly #lanes: KvLanes;
  readonly #staging: Staging;
  readonly #partBlocks: number;
  readonly #end: ReadEnd;
  /** Reads with blocks that were not begun, the oldest first. */
  readonly #waiting: ReadState[] = [];
  /** All reads that are not over. */
  readonly #reads = new Set<ReadState>();

  constructor(thread: StoreThread, lanes: KvLanes, staging: Staging, partBlocks: number, end: ReadEnd) {
    this.#thread = thread;
    this.#lanes = lanes;
    this.#staging = staging;
    this.#partBlocks = partBlocks;
    this.#end = end;
  }

  /** Number of reads that are not over. */
  get size(): number {
    return this.#reads.size;
  }

  add(read: Read): void {
    const begun: ReadState = {
      ...read,
      numBegun: 0,
      numParts: 0,
      jobs: new Set(),
      firstBad: read.keys.length,
    };
    this.#reads.add(begun);
    this.#waiting.push(begun);
  }

  /** Gives up the read of an ended request and cancels its copies. The read ends as usual. */
  cancel(handle: number): void {
    for (const read of this.#reads) {
      if (read.handle !== handle) continue;
      read.firstBad = 0;
      for (const job of read.jobs) this.#lanes.cancel(job);
    }
  }

  /**
   * Gives up every read. Later answers of the store are written to no block. The reads end as
   * usual, with no block.
   */
  fence(): void {
    for (const read of this.#reads) read.firstBad = 0;
    this.pump();
  }

  /** Begins as many parts as there are places. */
  pump(): void {
    while (this.#waiting.length > 0) {
      const read = this.#waiting[0];
      const left = Math.min(read.keys.length, read.firstBad) - read.numBegun;
      if (left <= 0) {
        this.#waiting.shift();
        if (read.numParts === 0) this.#over(read);
        continue;
      }
      const count = Math.min(left, this.#partBlocks, this.#staging.room('load'));
      if (count === 0) return;
      this.#begin(read, count);
    }
  }

  #begin(read: ReadState, count: number): void {
    const from = read.numBegun;
    read.numBegun += count;
    read.numParts++;
    const places = this.#staging.take('load', count);
    // The users of the places: the thread and, if a value arrived, the lane.
    let numUsers = 1;
    const release = (): void => {
      if (--numUsers === 0) this.#staging.give('load', places);
    };
    const end = (outcomes: Uint8Array): void => {
      let numCame = 0;
      while (numCame < count && outcomes[numCame] === Outcome.done) numCame++;
      if (numCame < count) read.firstBad = Math.min(read.firstBad, from + numCame);
      const numWanted = Math.min(numCame, read.firstBad - from);
      if (numWanted <= 0) {
        this.#partOver(read);
        return;
      }
      numUsers++;
      const blocks = read.blocks.subarray(from, from + numWanted);
      const wanted = places.subarray(0, numWanted);
      const job = this.#lanes.load(read.handle, wanted, blocks, read.notBefore, (verdict) => {
        read.jobs.delete(job);
        if (verdict !== Verdict.ok) read.firstBad = Math.min(read.firstBad, from);
        release();
        this.#partOver(read);
      });
      read.jobs.add(job);
    };
    this.#thread.get(read.keys.slice(from, from + count), places, end, release);
  }

  #partOver(read: ReadState): void {
    read.numParts--;
    const isBegun = read.numBegun >= Math.min(read.keys.length, read.firstBad);
    if (read.numParts > 0 || !isBegun) return;
    const at = this.#waiting.indexOf(read);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#over(read);
  }

  #over(read: ReadState): void {
    this.#reads.delete(read);
    this.#end(read, Math.min(read.firstBad, read.keys.length));
  }
}
