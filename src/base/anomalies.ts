import type { AnomalyReason } from './anomaly-reason.js';
import { channels } from './channels.js';
import { BlockstepError } from './errors.js';
import { INSPECT, showFacts } from './inspect.js';

const NEVER_THROWN: ReadonlySet<AnomalyReason> = new Set([
  'abort-unknown',
  'abort-finished',
  'chunk-unknown',
  'chunk-finished',
  'end-unknown',
  'end-finished',
  // Who reports a block cannot know that its request was preempted or aborted meanwhile.
  'reassigned-block',
]);

/** Whoever an anomaly is about, as far as it is told of it. */
export interface AnomalySubject {
  numAnomalies: number;
  lastAnomaly: AnomalyReason | null;
}

export class Anomalies {
  readonly #counts = new Map<AnomalyReason, number>();
  readonly #strict: boolean;
  #first: BlockstepError | undefined;

  constructor(strict: boolean) {
    this.#strict = strict;
  }

  /**
   * Counts one anomaly, also with the request that it is about, where there is one.
   * @param isRace it comes of an end that its sender could not know of, so that it is not thrown
   */
  report(reason: AnomalyReason, detail: string, about?: AnomalySubject | null, isRace = false): void {
    if (about) {
      about.numAnomalies++;
      about.lastAnomaly = reason;
    }
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
    if (channels.anomaly.hasSubscribers) channels.anomaly.publish({ reason, detail });
    if (this.#strict && !isRace && !NEVER_THROWN.has(reason)) {
      this.#first ??= new BlockstepError('ERR_BLOCKSTEP_ANOMALY', `${reason}: ${detail}`);
    }
  }

  /**
   * Ends a call.
   * @throws ERR_BLOCKSTEP_ANOMALY in strict mode, if there was one
   */
  throwFirst(): void {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) throw first;
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('Anomalies', depth, options, this.toObject());
  }

  /** Reason to count, of those seen. */
  toObject(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
