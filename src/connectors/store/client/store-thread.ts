import { checkInteger } from '../../../base/errors.js';
import { knownNames } from '../../../base/known-names.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { checkClock, checkOptions } from '../../base/option-checks.js';
import { SlotFile } from '../slots/slot-file.js';
import { Outcome } from '../stores/block-store.js';
import { checkStore, type StoreOptions, type StoreSettings } from '../stores/store-options.js';
import { Breaker } from './breaker.js';
import { LocalLink } from './local-link.js';
import type { AnswerMessage, JobKind } from './messages.js';
import { StoreCounts, type StoreStats } from './store-counts.js';
import type { StoreLink } from './store-link.js';
import { ThreadHost } from './thread-host.js';
import { ThreadLink } from './thread-link.js';

/** Options of a `StoreThread`. */
export interface StoreThreadOptions {
  /** The store that keeps the blocks. */
  store: StoreOptions;
  /**
   * The arena that `get` writes and `put` reads, on the host or pinned. Without it, only `has` can
   * be used.
   */
  staging?: BlockArena;
  /** Maximum duration of a job in milliseconds; a slower job counts as failed. Default 1,000. */
  timeoutMs?: number;
  /**
   * First and longest pause after a failure of the store, in milliseconds. The pause doubles in
   * between. Default 100 and 5,000.
   */
  pauseMs?: number;
  maxPauseMs?: number;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
}

/** Called once with the result of a job: an `Outcome` for each key. */
export type StoreEnd = (outcomes: Uint8Array) => void;
/** Called once when a job no longer touches its places. */
export type StoreFree = () => void;

interface Job {
  readonly kind: JobKind;
  readonly numKeys: number;
  /** When the job counts as failed. */
  dueAt: number;
  readonly free: StoreFree | undefined;
  /** Null after it was called. */
  end: StoreEnd | null;
}

const OPTIONS = knownNames<StoreThreadOptions>('the options of a StoreThread', {
  store: true,
  staging: true,
  timeoutMs: true,
  pauseMs: true,
  maxPauseMs: true,
  now: true,
});
const MAX_MS = 2 ** 31 - 1;
/**
 * Milliseconds that a thread has to start and to open its store. Jobs of this period are due only
 * after it.
 */
const START_MS = 15_000;

/**
 * Runs a block store on a thread of its own, so that neither payload nor a slow server stalls the
 * event loop. A user's own store is called on this thread instead (`LocalLink`); everything else is
 * the same. No call waits, and none throws because of the store. Each job ends with outcomes, in
 * `drain`.
 *
 * A failure costs only the affected jobs. Failures are jobs slower than `timeoutMs`, a thread that
 * dies, and a store that is down. After a failure the store is left alone for a pause, in which
 * every job fails at once. A breaker decides when the store is tried again, and a dead thread is
 * restarted then. The thread keeps no process alive.
 *
 * Two events end a job, in this order: its result (`end`), and the release of its places (`free`).
 * A job that was too slow has ended while the thread may still write its places.
 */
export class StoreThread {
  readonly #settings: StoreSettings;
  /** The file of an embedded store, open and locked while this object is open. */
  readonly #file: SlotFile | null;
  readonly #staging: BlockArena | null;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  readonly #breaker: Breaker;
  /** Only for `put`: a full store can still be read. */
  readonly #putBreaker: Breaker;
  readonly #counts = new StoreCounts();
  /**
   * Jobs that the thread has, the oldest first. All jobs have the same time-out, so the oldest is
   * also due first.
   */
  readonly #jobs = new Map<number, Job>();
  /** Jobs that the breaker refused. */
  #refused: Job[] = [];
  #lastJob = 0;
  /** Null after the thread has died, until it is restarted. */
  #link: StoreLink | null = null;
  /** Whether this side has noticed that the thread has started. */
  #isReady = false;
  #closed = false;
  #closing: Promise<void> = Promise.resolve();

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG. ERR_BLOCKSTEP_NO_PACKAGE if the client of the store is not
   * installed. ERR_BLOCKSTEP_BAD_FILE if the file of an embedded store cannot be used, or another
   * process has it. A server that is down is no error.
   */
  constructor(options: StoreThreadOptions);
  /**
   * @param file the file of an embedded store, if the caller has opened it; it is closed with this
   * object
   * @internal
   */
  constructor(options: StoreThreadOptions, file: SlotFile | null);
  constructor(options: StoreThreadOptions, file: SlotFile | null = null) {
    checkOptions(options, OPTIONS);
    const { store, staging, timeoutMs = 1000, pauseMs = 100, maxPauseMs = 5000 } = options;
    this.#timeoutMs = checkInteger('timeoutMs', timeoutMs, 1, MAX_MS);
    checkInteger('pauseMs', pauseMs, 1, MAX_MS);
    checkInteger('maxPauseMs', maxPauseMs, pauseMs, MAX_MS);
    this.#now = checkClock(options.now);
    this.#settings = checkStore(store);
    this.#staging = staging ?? null;
    this.#breaker = new Breaker(this.#now, { pauseMs, maxPauseMs });
    this.#putBreaker = new Breaker(this.#now, { pauseMs, maxPauseMs });
    const { kind } = this.#settings;
    this.#file = kind === 'embedded' ? (file ?? SlotFile.open(this.#settings.path)) : null;
    this.#link = this.#start();
  }

  /** Number of jobs whose end `drain` has not reported yet. */
  get numPending(): number {
    return this.#refused.length + this.#jobs.size;
  }

  /** Whether a `has` or `get` would be tried now, because the store is not known to be down. */
  get accepts(): boolean {
    return !this.#closed && this.#breaker.isPassable;
  }

  /** Whether a `put` would be tried now, because the store is not known to be down or full. */
  get acceptsPuts(): boolean {
    return this.accepts && this.#putBreaker.isPassable;
  }

  /**
   * Asks which keys are stored: `done` or `missing`.
   * @param end see `StoreEnd`; called in a later `drain`
   */
  has(keys: readonly string[], end: StoreEnd): void {
    this.#submit('has', keys, new Int32Array(0), end, undefined);
  }

  /**
   * Reads values into places of the staging arena. A place whose outcome is not `done` keeps its
   * content, or has useless content.
   * @param places as many as keys, without repetition; the job owns them until `free`
   */
  get(keys: readonly string[], places: Int32Array, end: StoreEnd, free?: StoreFree): void {
    this.#submit('get', keys, places, end, free);
  }

  /**
   * Stores the content of places of the staging arena.
   * @param places as many as keys; not written until `free`
   */
  put(keys: readonly string[], places: Int32Array, end: StoreEnd, free?: StoreFree): void {
    this.#submit('put', keys, places, end, free);
  }

  /**
   * Calls the callback of every job that has ended since the last call, or that is too late now.
   */
  drain(): void {
    const refused = this.#refused;
    if (refused.length > 0) this.#refused = [];
    for (const job of refused) this.#finish(job, failed(job.numKeys));
    if (this.#jobs.size === 0) return;
    this.#drainAnswers();
    const now = this.#now();
    if (!this.#isReady && this.#link?.isReady === true) this.#begin(now);
    for (const [number, job] of this.#jobs) {
      if (job.dueAt > now) break;
      if (job.end !== null) this.#tooSlow(number, job);
    }
  }

  /** Returns the statistics and the state of the store. */
  stats(): StoreStats {
    return this.#counts.read(this.#breaker.state, this.#putBreaker.state, this.numPending);
  }

  /**
   * Ends the thread after its jobs are done. No further job is accepted, and no callback is called.
   * Idempotent.
   * @returns resolves when the thread has ended and nothing touches the staging arena
   */
  close(): Promise<void> {
    if (this.#closed) return this.#closing;
    this.#closed = true;
    this.#link?.close();
    this.#closing = (this.#link?.exit ?? Promise.resolve()).then(() => this.#file?.release());
    return this.#closing;
  }

  /**
   * The hash seed that the file of an embedded store keeps for engines without a configured seed;
   * null: there is no file.
   */
  get hashSeed(): Uint8Array | null {
    return this.#file?.seed ?? null;
  }

  #submit(
    kind: JobKind,
    keys: readonly string[],
    places: Int32Array,
    end: StoreEnd,
    free: StoreFree | undefined,
  ): void {
    const job: Job = { kind, numKeys: keys.length, dueAt: 0, free, end };
    if (!this.#admits(kind)) {
      this.#counts.refused++;
      this.#refused.push(job);
      return;
    }
    this.#link ??= this.#start();
    job.dueAt = this.#now() + this.#timeoutMs + (this.#isReady ? 0 : START_MS);
    this.#jobs.set(++this.#lastJob, job);
    this.#link.send({ job: this.#lastJob, kind, keys, places });
  }

  #admits(kind: JobKind): boolean {
    const breakers = kind === 'put' ? [this.#breaker, this.#putBreaker] : [this.#breaker];
    if (this.#closed || !breakers.every(({ isPassable }) => isPassable)) return false;
    for (const breaker of breakers) breaker.pass();
    return true;
  }

  /** The thread has started. From now on, the time of its jobs counts. */
  #begin(now: number): void {
    this.#isReady = true;
    for (const job of this.#jobs.values()) job.dueAt = Math.min(job.dueAt, now + this.#timeoutMs);
  }

  #drainAnswers(): void {
    if (this.#link === null) return;
    for (let next = this.#link.receive(); next !== null; next = this.#link.receive()) this.#applyAnswer(next);
  }

  #applyAnswer({ job: number, outcomes, error }: AnswerMessage): void {
    const job = this.#jobs.get(number);
    if (job === undefined) {
      if (error !== null) this.#fail('get', error);
      return;
    }
    this.#jobs.delete(number);
    // A late answer of a job that timed out says nothing about the present state of the store.
    if (job.end === null) this.#counts.late++;
    else if (error !== null) this.#fail(job.kind, error);
    else this.#succeed(job.kind, outcomes);
    this.#finish(job, outcomes);
  }

  #tooSlow(number: number, job: Job): void {
    this.#counts.timeouts++;
    this.#fail(job.kind, 'no answer in time');
    const isOver = this.#link?.giveUp(number) === true;
    if (isOver) this.#jobs.delete(number);
    this.#conclude(job, failed(job.numKeys));
    if (isOver) job.free?.();
  }

  #finish(job: Job, outcomes: Uint8Array): void {
    this.#conclude(job, outcomes);
    job.free?.();
  }

  #conclude(job: Job, outcomes: Uint8Array): void {
    const { end } = job;
    if (end === null) return;
    job.end = null;
    this.#counts.add(job.kind, outcomes, this.#staging?.bytesPerBlock ?? 0);
    end(outcomes);
  }

  #succeed(kind: JobKind, outcomes: Uint8Array): void {
    this.#breaker.good();
    if (kind !== 'put') return;
    if (outcomes.includes(Outcome.full)) this.#putBreaker.bad();
    else this.#putBreaker.good();
  }

  #fail(kind: JobKind, error: string): void {
    this.#counts.failures++;
    this.#counts.lastError = error;
    this.#breaker.bad();
    if (kind === 'put') this.#putBreaker.bad();
  }

  #start(): StoreLink {
    const link = this.#newLink();
    this.#isReady = false;
    void link.exit.then(() => this.#died(link));
    return link;
  }

  #newLink(): StoreLink {
    const settings = this.#settings;
    const staging = this.#staging ?? undefined;
    if (settings.kind === 'own') return new LocalLink(settings.open, staging);
    const store =
      settings.kind === 'redis'
        ? settings
        : { kind: 'slots' as const, fd: this.#file?.fd ?? -1, maxBytes: settings.maxBytes };
    const client = { store, staging: staging?.descriptor };
    return new ThreadLink(ThreadHost.for(this.#file), client, (error) => {
      this.#counts.lastError = error;
    });
  }

  /** The thread has ended and no longer touches any place. */
  #died(link: StoreLink): void {
    this.#drainAnswers();
    this.#link = null;
    link.release();
    if (!this.#closed) {
      this.#counts.deaths++;
      this.#counts.failures++;
      this.#breaker.bad();
      this.#putBreaker.bad();
    }
    // The next `drain` reports them.
    this.#refused.push(...this.#jobs.values());
    this.#jobs.clear();
  }
}

function failed(numKeys: number): Uint8Array {
  return new Uint8Array(numKeys).fill(Outcome.failed);
}
