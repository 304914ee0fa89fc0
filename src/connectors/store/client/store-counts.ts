import { Outcome } from '../stores/block-store.js';
import type { JobKind } from './messages.js';

/** Statistics of a `StoreThread` and the state of its store. Plain data. */
export interface StoreStats {
  /**
   * `up`: jobs are tried. `down`: no job is tried for a pause after a failure. `probing`: one job
   * is under way, and its result decides.
   */
  readonly state: 'up' | 'down' | 'probing';
  /** Whether the store takes new values. A full store can still be read. */
  readonly takesValues: boolean;
  /** Jobs that have not ended. */
  readonly pending: number;
  /** Keys that `has` asked for; `found` counts the keys that were there. */
  readonly lookups: number;
  readonly found: number;
  /**
   * `hits`: values that were read. `misses`: values that were not there. `corrupt`: values that
   * were there and were refused because they were damaged or foreign.
   */
  readonly hits: number;
  readonly misses: number;
  readonly corrupt: number;
  /** `stored`: values that were stored. `full`: values for which there was no room. */
  readonly stored: number;
  readonly full: number;
  /** Bytes of content that were read (`bytesIn`) and stored (`bytesOut`). */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /**
   * `failures`: jobs that failed. `timeouts`: the failures that took too long. `late`: late answers
   * of these jobs. `refused`: jobs that were not tried during a pause.
   */
  readonly failures: number;
  readonly timeouts: number;
  readonly late: number;
  readonly refused: number;
  /** Threads that ended unexpectedly. */
  readonly deaths: number;
  /** Message of the last failure; null if there was none. */
  readonly lastError: string | null;
}

const STATES = { closed: 'up', open: 'down', probing: 'probing' } as const;

/** Counts the work of a `StoreThread`. */
export class StoreCounts {
  failures = 0;
  timeouts = 0;
  late = 0;
  refused = 0;
  deaths = 0;
  lastError: string | null = null;
  #lookups = 0;
  /** Number of keys by kind of job and outcome. */
  readonly #outcomes: Record<JobKind, Float64Array> = {
    has: new Float64Array(6),
    get: new Float64Array(6),
    put: new Float64Array(6),
  };
  #bytesIn = 0;
  #bytesOut = 0;

  /** Counts the outcomes of a job. */
  add(kind: JobKind, outcomes: Uint8Array, bytesPerBlock: number): void {
    const counts = this.#outcomes[kind];
    const before = counts[Outcome.done];
    for (const outcome of outcomes) counts[outcome]++;
    const bytes = (counts[Outcome.done] - before) * bytesPerBlock;
    if (kind === 'has') this.#lookups += outcomes.length;
    else if (kind === 'get') this.#bytesIn += bytes;
    else this.#bytesOut += bytes;
  }

  read(state: keyof typeof STATES, putState: keyof typeof STATES, pending: number): StoreStats {
    const { has, get, put } = this.#outcomes;
    const { failures, timeouts, late, refused, deaths, lastError } = this;
    return {
      state: STATES[state],
      takesValues: putState === 'closed',
      pending,
      lookups: this.#lookups,
      found: has[Outcome.done],
      hits: get[Outcome.done],
      misses: get[Outcome.missing],
      corrupt: get[Outcome.corrupt],
      stored: put[Outcome.done],
      full: put[Outcome.full],
      bytesIn: this.#bytesIn,
      bytesOut: this.#bytesOut,
      failures,
      timeouts,
      late,
      refused,
      deaths,
      lastError,
    };
  }
}
