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
  // Whoever reports a block cannot know that its request was preempted or aborted meanwhile.
  'reassigned-block',
]);

/** What an anomaly is about: a request, which remembers how many there were and the last one. */
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
   * Counts one anomaly, and remembers it in the request that it is about, if there is one.
   * @param isRace the sender could not know that its request had ended, so the anomaly is not thrown
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
   * Ends a call: throws the first anomaly that was found in it.
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

  /** The count of each reason that was seen. */
  toObject(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
