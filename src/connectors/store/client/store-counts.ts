import { Outcome } from '../stores/block-store.js';
import type { JobKind } from './messages.js';

/** What a `StoreThread` has done so far, and how its store is. Plain data. */
export interface StoreStats {
  /** `up`; `down`: left alone for a pause after a failure; `probing`: one job is under way that will tell. */
  readonly state: 'up' | 'down' | 'probing';
  /** Whether the store takes new values: it may be full while it can be read. */
  readonly takesValues: boolean;
  /** Jobs that have not ended. */
  readonly pending: number;
  /** Keys that were asked for by `has`, and of these those that were there. */
  readonly lookups: number;
  readonly found: number;
  /** Values that were read; that were not there; and that were there and refused, since they were damaged or foreign. */
  readonly hits: number;
  readonly misses: number;
  readonly corrupt: number;
  /** Values that were stored; and for which there was no room. */
  readonly stored: number;
  readonly full: number;
  /** Bytes of content that were read and stored. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Jobs that failed; of these those that took too long; late answers of these; jobs that were not tried in a pause. */
  readonly failures: number;
  readonly timeouts: number;
  readonly late: number;
  readonly refused: number;
  /** Threads that ended without being told to. */
  readonly deaths: number;
  /** What was said of the last failure; null if there was none. */
  readonly lastError: string | null;
}

const STATES = { closed: 'up', open: 'down', probing: 'probing' } as const;

/** Counts what a `StoreThread` does. */
export class StoreCounts {
  failures = 0;
  timeouts = 0;
  late = 0;
  refused = 0;
  deaths = 0;
  lastError: string | null = null;
  #lookups = 0;
  /** Keys by kind of job and outcome. */
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
