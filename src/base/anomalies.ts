import type { AnomalyReason } from './anomaly-reason.js';
import { channels } from './channels.js';
import { BlockstepError } from './errors.js';
import { INSPECT, showFacts } from './inspect.js';

/**
 * Anomalies that are counted and never thrown: the sender may be right, because it races with the
 * end of the request.
 */
const NEVER_THROWN: ReadonlySet<AnomalyReason> = new Set([
  'abort-unknown',
  'abort-finished',
  'chunk-unknown',
  'chunk-finished',
  'end-unknown',
  'end-finished',
  // A worker that reports a block cannot know that the block's request was preempted or aborted
  // meanwhile.
  'reassigned-block',
]);

/**
 * The request that an anomaly is about. It remembers how many anomalies were about it, and the
 * reason of the last one.
 */
export interface AnomalySubject {
  /** Anomalies that were about this request. */
  numAnomalies: number;
  /** The reason of the last of these anomalies; null while there was none. */
  lastAnomaly: AnomalyReason | null;
}

/**
 * Counts anomalies by reason, and publishes each on the channel `blockstep:anomaly`. In strict mode
 * it keeps the first anomaly of a call, so that the end of the call can throw it (`throwFirst`).
 */
export class Anomalies {
  readonly #counts = new Map<AnomalyReason, number>();
  readonly #strict: boolean;
  #first: BlockstepError | undefined;

  constructor(strict: boolean) {
    this.#strict = strict;
  }

  /**
   * Counts one anomaly. If the anomaly is about a request, the request remembers it too.
   * @param reason why the event is an anomaly
   * @param detail the event in words, for people
   * @param about the request that the anomaly is about, if there is one
   * @param isRace true: the sender could not know that its request had ended, so strict mode does
   * not throw the anomaly
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
   * Ends a call: in strict mode throws the first anomaly that was found in the call.
   * @throws ERR_BLOCKSTEP_ANOMALY in strict mode, if the call found an anomaly that strict mode
   * throws
   */
  throwFirst(): void {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) throw first;
  }

  /** For `util.inspect` and `console.log`: the counts of `toObject`. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('Anomalies', depth, options, this.toObject());
  }

  /** How many anomalies of each reason were seen. A reason that was never seen has no entry. */
  toObject(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
