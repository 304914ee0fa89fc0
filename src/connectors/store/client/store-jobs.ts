import { describeError, show } from '../../../base/errors.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { type BlockStore, Outcome } from '../stores/block-store.js';
import type { AnswerMessage, JobKind, JobMessage } from './messages.js';
import { StoreCall } from './store-call.js';

/** Maximum number of content bytes in one call of the store; at least one block. */
const PIECE_BYTES = 2 ** 23;
/** Maximum number of keys in one call of the store. */
const PIECE_KEYS = 1024;
/** Maximum number of calls under way at once, for reads and for writes separately. */
const CALLS = 2;
const METHODS = ['has', 'get', 'put', 'remove', 'close'] as const;

interface Job {
  readonly number: number;
  readonly outcomes: Uint8Array;
  error: string | null;
  /** Number of calls that are not over. */
  numLeft: number;
}

interface Piece {
  readonly job: Job;
  readonly call: StoreCall;
}

/** Calls of one direction. */
interface Lane {
  /** Number of calls that may begin. */
  free: number;
  readonly waiting: Piece[];
  readonly running: Set<Piece>;
}

/**
 * Carries out jobs with a store. Reads do not wait for writes. A job is done in pieces, so its
 * memory is limited: at most `CALLS` pieces of each direction exist at once. The store is called in
 * a later microtask, never inside `run`.
 *
 * Invariant: a call under way occupies one place of its lane until its promise is settled.
 */
export class StoreJobs {
  readonly #open: () => Promise<BlockStore>;
  readonly #staging: BlockArena | null;
  readonly #answer: (answer: AnswerMessage) => void;
  #store: BlockStore | null = null;
  /** Not null while the store is being opened. Never rejects. */
  #opening: Promise<void> | null = null;
  /** Jobs that were not answered. */
  readonly #jobs = new Map<number, Job>();
  readonly #lanes: Record<'read' | 'write', Lane> = { read: newLane(), write: newLane() };
  #isPumping = false;
  /** Called when no job is left. */
  #onIdle = (): void => {};

  /** @param open opens the store; called again after it has failed */
  constructor(
    open: () => Promise<BlockStore>,
    staging: BlockArena | null,
    answer: (answer: AnswerMessage) => void,
  ) {
    this.#open = open;
    this.#staging = staging;
    this.#answer = answer;
  }

  /**
   * Opens the store before the first job needs it. Never rejects: the next job tries again, and
   * reports the error.
   */
  open(): Promise<void> {
    this.#opening ??= this.#tryOpen();
    return this.#opening;
  }

  /** Begins a job. The answer comes later. */
  run({ job: number, kind, keys, places }: JobMessage): void {
    const outcomes = new Uint8Array(keys.length).fill(Outcome.failed);
    const job: Job = { number, outcomes, error: null, numLeft: 0 };
    this.#jobs.set(number, job);
    const size = this.#pieceOf(kind);
    const { waiting } = this.#lanes[kind === 'put' ? 'write' : 'read'];
    for (let from = 0; from < keys.length; from += size) {
      const to = Math.min(keys.length, from + size);
      const call = new StoreCall({
        kind,
        // If the store sorted its keys, values would be written to the wrong places.
        keys: Object.freeze(keys.slice(from, to)),
        places: places.subarray(from, to),
        outcomes: outcomes.subarray(from, to),
        staging: this.#staging,
        complain: (error) => this.#answer({ job: 0, outcomes: new Uint8Array(0), error }),
      });
      waiting.push({ job, call });
      job.numLeft++;
    }
    if (job.numLeft === 0) this.#finish(job);
    else this.#pumpSoon();
  }

  /** Gives up a job. @returns whether it was under way. It is then over, and never answered */
  giveUp(number: number): boolean {
    const job = this.#jobs.get(number);
    if (job === undefined) return false;
    this.#jobs.delete(number);
    for (const { waiting, running } of Object.values(this.#lanes)) {
      for (let i = waiting.length - 1; i >= 0; i--) if (waiting[i].job === job) waiting.splice(i, 1);
      for (const piece of running) if (piece.job === job) piece.call.giveUp();
    }
    if (this.#jobs.size === 0) this.#onIdle();
    return true;
  }

  /** Gives up every job. Afterwards no job touches the staging arena. */
  giveUpAll(): void {
    for (const number of [...this.#jobs.keys()]) this.giveUp(number);
  }

  /** Closes the store after every job has been answered. No further job may be submitted. */
  async close(): Promise<void> {
    if (this.#jobs.size > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    await this.#opening;
    await this.#store?.close();
  }

  async #tryOpen(): Promise<void> {
    try {
      // `#opening` must be set before `open` can throw synchronously.
      const store = await Promise.resolve().then(this.#open);
      checkMethods(store);
      this.#store = store;
    } catch (error) {
      this.#failWaiting(describeError(error).slice(0, 300));
    }
    this.#opening = null;
    this.#pumpSoon();
  }

  /** The store cannot be opened, so all waiting jobs fail. */
  #failWaiting(error: string): void {
    for (const { waiting } of Object.values(this.#lanes))
      for (const { job } of waiting.splice(0)) this.#callOver(job, error);
  }

  #pieceOf(kind: JobKind): number {
    if (kind === 'has' || this.#staging === null) return PIECE_KEYS;
    return Math.min(PIECE_KEYS, Math.max(1, Math.floor(PIECE_BYTES / this.#staging.bytesPerBlock)));
  }

  #pumpSoon(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  /** Begins as many calls as allowed. */
  #pump(): void {
    const lanes = Object.values(this.#lanes);
    if (this.#store === null) {
      if (lanes.some(({ waiting }) => waiting.length > 0)) void this.open();
      return;
    }
    for (const lane of lanes)
      while (lane.free > 0 && lane.waiting.length > 0)
        void this.#make(this.#store, lane, lane.waiting.shift() as Piece);
  }

  async #make(store: BlockStore, lane: Lane, piece: Piece): Promise<void> {
    const { job, call } = piece;
    // After a failure, the remaining calls would fail too, only later.
    if (job.error !== null) {
      this.#callOver(job, null);
      return;
    }
    lane.free--;
    lane.running.add(piece);
    const error = await call.make(store);
    lane.free++;
    lane.running.delete(piece);
    this.#callOver(job, error);
    this.#pumpSoon();
  }

  #callOver(job: Job, error: string | null): void {
    job.error ??= error;
    if (--job.numLeft === 0 && this.#jobs.has(job.number)) this.#finish(job);
  }

  #finish({ number, outcomes, error }: Job): void {
    this.#jobs.delete(number);
    this.#answer({ job: number, outcomes, error });
    if (this.#jobs.size === 0) this.#onIdle();
  }
}

function newLane(): Lane {
  return { free: CALLS, waiting: [], running: new Set() };
}

/** @throws if the value is no store */
function checkMethods(store: unknown): asserts store is BlockStore {
  const methods = Object(store) as Record<string, unknown>;
  const missing = METHODS.find((name) => typeof methods[name] !== 'function');
  if (missing !== undefined) throw new TypeError(`open gave ${show(store)}, which has no method ${missing}`);
}
