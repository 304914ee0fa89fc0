import { BlockstepError } from '../../../base/errors.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { CellMap } from '../cells/cell-map.js';
import type { Moves } from '../cells/moves.js';
import type { NativeContext, NativeCopies } from '../native/binding.js';
import { noRefusals, type RefusedCopy, refusalOf } from './copy-ends.js';

/** Copies of blocks in one direction, for one job of a lane. */
export interface CopyJob {
  readonly isSave: boolean;
  /** Blocks of the pool, and their places in an arena. */
  readonly blocks: Int32Array;
  readonly places: Int32Array;
  readonly arena: number;
  /** Called once, when no copy of the job touches memory any more. */
  end(verdict: Verdict): void;
}

/** A job that is not over. */
interface Waiting {
  readonly job: CopyJob;
  /** Blocks that were copied, or are being copied. */
  taken: number;
  isFailed: boolean;
  isCancelled: boolean;
}

/** Copies that llama.cpp's thread makes now. */
interface Turn {
  /** [copy] its job, the block, and the sequence that receives a load. */
  readonly copies: readonly (readonly [each: Waiting, block: number, sequence: number])[];
  /** Sequences that were opened for loads. */
  readonly sequences: readonly number[];
  readonly over: () => void;
}

/** Options of `CellCopies`. */
export interface CellCopiesOptions {
  readonly context: NativeContext;
  readonly cells: CellMap;
  /** The changes in front of the next program. */
  readonly moves: () => Moves;
  readonly blockSize: number;
  /** Most blocks of a text. */
  readonly maxBlocks: number;
  /** Called when a job has come. */
  readonly wake: () => void;
}

/** Bytes that are copied in front of a step. More of them follow behind the step. */
const TURN_BYTES = 64 * 2 ** 20;

/**
 * Copies KV blocks out of llama.cpp's cache and back, between two programs. A copy needs llama.cpp's
 * thread and the cells as `CellMap` knows them, so it never runs beside a step.
 *
 * A load goes into a sequence of its own, which then keeps the block for the requests that will hit
 * it. The block has no cells for `CellMap` until it was loaded: a step that comes before computes
 * its tokens.
 */
export class CellCopies {
  readonly counts = { saved: 0, loaded: 0, refused: noRefusals() };
  readonly #options: CellCopiesOptions;
  readonly #waiting: Waiting[] = [];
  #turn: Turn | null = null;
  /** Why the content of the cache is unknown; '': it is known. */
  #failure = '';
  #isDisposed = false;

  constructor(options: CellCopiesOptions) {
    this.#options = options;
  }

  /** Whether a job waits for a turn. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Adds a job. Jobs are carried out in this order. */
  add(job: CopyJob): void {
    const each: Waiting = { job, taken: 0, isFailed: false, isCancelled: false };
    if (this.#isDisposed) this.#end(each, Verdict.cancelled);
    else {
      this.#waiting.push(each);
      this.#options.wake();
    }
  }

  /** Ends a job at once, or when the copies that were begun are over. @returns false if it is over */
  cancel(job: CopyJob): boolean {
    const each = this.#waiting.find((other) => other.job === job);
    if (each === undefined) return false;
    each.isCancelled = true;
    if (!this.#isInTurn(each)) this.#end(each, Verdict.cancelled);
    return true;
  }

  /**
   * Ends jobs: those that have not begun are cancelled, since their copies would need the thread
   * that may compute now. Blocks this thread while copies of the others are made.
   */
  flush(jobs: ReadonlySet<CopyJob>): void {
    for (const each of [...this.#waiting]) if (jobs.has(each.job)) this.cancel(each.job);
    if (!this.#waiting.some(({ job }) => jobs.has(job))) return;
    const copies = this.#options.context.waitForCopies();
    if (copies !== null && this.#turn !== null) this.#settle(this.#turn, copies);
  }

  /**
   * Makes the next copies. No program may be computed meanwhile.
   * @throws by rejection ERR_BLOCKSTEP_EXECUTOR if llama.cpp's cache is in an unknown state
   */
  async run(): Promise<void> {
    const begun = this.#begin();
    if (begun === null) return;
    const { turn, moves, over } = begun;
    const copies = this.#options.context.copy(moves, moves.length);
    void copies.then((brought) => this.#settle(turn, brought));
    // The turn may be over before: `flush` takes the ends itself, and none come after `dispose`.
    await over;
    if (this.#failure === '') return;
    throw new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', `llama.cpp failed: ${this.#failure}`);
  }

  /** Ends every job. The context was disposed, or does no more. */
  dispose(): void {
    this.#isDisposed = true;
    const turn = this.#turn;
    this.#turn = null;
    for (const each of this.#waiting.splice(0)) this.#end(each, Verdict.cancelled);
    turn?.over();
  }

  /** Chooses the copies of a turn. @returns null: there are none */
  #begin(): { turn: Turn; moves: Int32Array; over: Promise<void> } | null {
    const { context, moves } = this.#options;
    const most = Math.max(1, Math.floor(TURN_BYTES / context.blockBytes()));
    const copies: [Waiting, number, number][] = [];
    const sequences: number[] = [];
    for (const each of [...this.#waiting]) {
      if (copies.length >= most) break;
      const { job } = each;
      const end = Math.min(job.blocks.length, each.taken + most - copies.length);
      const sequence = job.isSave ? -1 : this.#openFor(each);
      if (sequence >= 0) sequences.push(sequence);
      for (; each.taken < end && !each.isFailed; each.taken++) {
        const isBegun = job.isSave ? this.#save(each) : this.#load(each, sequence);
        if (isBegun) copies.push([each, job.blocks[each.taken], sequence]);
      }
      const isBegun = copies.some(([other]) => other === each);
      if (!isBegun && (each.isFailed || each.taken === job.blocks.length)) this.#over(each);
    }
    if (copies.length === 0) {
      this.#retire(sequences);
      return null;
    }
    let settled = (): void => {};
    const over = new Promise<void>((resolve) => {
      settled = resolve;
    });
    const turn = { copies, sequences, over: settled };
    this.#turn = turn;
    return { turn, moves: moves().drain(), over };
  }

  #save(each: Waiting): boolean {
    const { job } = each;
    const whole = this.#options.cells.wholeBlock(job.blocks[each.taken]);
    if (whole === null) return this.#refuse(each, 'gone');
    this.#options.moves().save(whole.sequence, whole.from, job.places[each.taken], job.arena);
    return true;
  }

  #load(each: Waiting, sequence: number): boolean {
    const { context, cells, moves, blockSize, maxBlocks } = this.#options;
    const { job, taken } = each;
    if (sequence < 0) return this.#refuse(each, 'noSequence');
    const from = context.placeOf(job.arena, job.places[taken]);
    if (from < 0) return this.#refuse(each, refusalOf(-from) ?? 'damaged');
    const place = from / blockSize;
    if (place >= maxBlocks) return this.#refuse(each, 'shape');
    // The old owners' cells are free before the load needs some.
    cells.give(job.blocks[taken], sequence, place);
    moves().load(sequence, from, job.places[taken], job.arena);
    return true;
  }

  #openFor({ job }: Waiting): number {
    return job.blocks.length === 0 ? -1 : (this.#options.cells.open() ?? -1);
  }

  #settle(turn: Turn, { ends, failure }: NativeCopies): void {
    // The turn is over already, and another one may have begun.
    if (this.#turn !== turn) return;
    this.#turn = null;
    this.#failure = failure;
    for (const [i, [each, block, sequence]] of turn.copies.entries()) {
      const why = i < ends.length ? refusalOf(ends[i]) : 'llama';
      if (why !== null) this.#refuse(each, why);
      else if (each.job.isSave) this.counts.saved++;
      else {
        this.#options.cells.fillLoaded(block, sequence);
        this.counts.loaded++;
      }
    }
    this.#retire(turn.sequences);
    for (const each of new Set(turn.copies.map(([each]) => each)))
      if (each.isFailed || each.isCancelled || each.taken === each.job.blocks.length) this.#over(each);
    turn.over();
  }

  /** The blocks stay in their sequences, for the requests that will hit them. */
  #retire(sequences: readonly number[]): void {
    for (const sequence of sequences) this.#options.cells.retire(sequence);
  }

  #refuse(each: Waiting, why: RefusedCopy): false {
    this.counts.refused[why]++;
    each.isFailed = true;
    return false;
  }

  #over(each: Waiting): void {
    const isWhole = !each.isFailed && each.taken === each.job.blocks.length;
    this.#end(each, isWhole ? Verdict.ok : each.isFailed ? Verdict.failed : Verdict.cancelled);
  }

  #end(each: Waiting, verdict: Verdict): void {
    const at = this.#waiting.indexOf(each);
    if (at >= 0) this.#waiting.splice(at, 1);
    each.job.end(verdict);
  }

  #isInTurn(each: Waiting): boolean {
    return this.#turn?.copies.some(([other]) => other === each) ?? false;
  }
}
