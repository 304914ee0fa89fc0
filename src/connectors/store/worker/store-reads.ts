import { Verdict } from '../../../transfer/verdict.js';
import type { KvLanes } from '../../base/kv-lanes.js';
import type { StoreThread } from '../client/store-thread.js';
import { Outcome } from '../stores/block-store.js';
import type { Staging } from './staging.js';

/** A load of a request on one rank. */
export interface Read {
  readonly job: number;
  readonly handle: number;
  /** The step whose plan began it, and the step that must be executed before it writes. */
  readonly step: number;
  readonly notBefore: number;
  readonly keys: readonly string[];
  readonly blocks: Int32Array;
}

interface ReadState extends Read {
  /** Blocks from the first one on for which reading has begun. */
  numBegun: number;
  /** Parts that are under way. */
  numParts: number;
  /** The copies among them. */
  readonly jobs: Set<number>;
  /** Index of the first block that did not come. What comes behind it is of no use, and is not read any more. */
  firstBad: number;
}

/** Told once that nothing writes the blocks of a read any more; `numGood` of its first blocks came. */
export type ReadEnd = (read: Read, numGood: number) => void;

/**
 * The loads of one rank: each block goes from the store to a place of the staging arena, and from there to the KV memory
 * by a lane. A long load is done in parts, as many at once as there are places.
 *
 * Invariant: a place is given back when neither the thread nor the lane has it, whatever became of its block.
 */
export class StoreReads {
  readonly #thread: StoreThread;
  readonly #lanes: KvLanes;
  readonly #staging: Staging;
  readonly #partBlocks: number;
  readonly #end: ReadEnd;
  /** Reads that have blocks left to begin, the oldest first. */
  readonly #waiting: ReadState[] = [];
  /** All that are not over. */
  readonly #reads = new Set<ReadState>();

  constructor(thread: StoreThread, lanes: KvLanes, staging: Staging, partBlocks: number, end: ReadEnd) {
    this.#thread = thread;
    this.#lanes = lanes;
    this.#staging = staging;
    this.#partBlocks = partBlocks;
    this.#end = end;
  }

  /** Reads that are not over. */
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

  /** Gives up a request's read, since the request has ended: its copies are cancelled. The read ends as ever. */
  cancel(handle: number): void {
    for (const read of this.#reads) {
      if (read.handle !== handle) continue;
      read.firstBad = 0;
      for (const job of read.jobs) this.#lanes.cancel(job);
    }
  }

  /** Gives up every read: what the store still answers is written to no block. The reads end as ever, with nothing that came. */
  fence(): void {
    for (const read of this.#reads) read.firstBad = 0;
    this.pump();
  }

  /** Begins as many parts as there are places for. */
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
    // The thread and, if anything came, the lane.
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
