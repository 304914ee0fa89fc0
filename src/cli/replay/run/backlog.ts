/** How the queue grew while requests arrived, as `--json` prints it. */
export interface Load {
  /** Virtual seconds from the first arrival to the last. */
  arrivalSeconds: number;
  /** How many requests waited when the last one arrived; null if the replay ended before. */
  waitingAtLastArrival: number | null;
  /**
   * Mean number of waiting requests in each quarter of that time; null as above, and if all arrived
   * at once.
   */
  waitingByQuarter: number[] | null;
  /** More requests arrive than the engine can serve: the queue grew to the end. */
  exceedsCapacity: boolean;
}

const QUARTERS = 4;
/**
 * A queue counts as grown if it has at least this fraction of all requests, and at least this many.
 */
const GROWN_SHARE = 0.05;
const GROWN_COUNT = 4;

/** Counts waiting requests from the first arrival to the last, in constant memory. */
export class Backlog {
  readonly #lastArrivalMs: number;
  readonly #requests: number;
  /** Waiting requests times milliseconds, of each quarter. */
  readonly #held = new Array<number>(QUARTERS).fill(0);
  #atLastArrival: number | null = null;

  /**
   * @param lastArrivalMs when the last request arrives, in virtual time
   * @param requests number of requests
   */
  constructor(lastArrivalMs: number, requests: number) {
    this.#lastArrivalMs = lastArrivalMs;
    this.#requests = requests;
  }

  /** Notes that `waiting` requests waited at this moment. Moments must come in order. */
  read(atMs: number, waiting: number): void {
    if (atMs >= this.#lastArrivalMs) this.#atLastArrival ??= waiting;
  }

  /** Notes that `waiting` requests waited from one moment to another. */
  hold(fromMs: number, toMs: number, waiting: number): void {
    if (waiting === 0 || fromMs >= this.#lastArrivalMs) return;
    const width = this.#lastArrivalMs / QUARTERS;
    for (let i = 0; i < QUARTERS; i++) {
      const overlap = Math.min(toMs, (i + 1) * width) - Math.max(fromMs, i * width);
      if (overlap > 0) this.#held[i] += overlap * waiting;
    }
  }

  load(): Load {
    const all = this.#atLastArrival;
    const width = this.#lastArrivalMs / QUARTERS;
    const waitingByQuarter = all === null || width === 0 ? null : this.#held.map((sum) => sum / width);
    return {
      arrivalSeconds: this.#lastArrivalMs / 1000,
      waitingAtLastArrival: all,
      waitingByQuarter,
      exceedsCapacity: all !== null && waitingByQuarter !== null && this.#grewTo(all, waitingByQuarter),
    };
  }

  /**
   * The queue must be longer in every quarter than in the previous quarter. Neither a burst at the
   * end nor a burst that was worked off is overload.
   */
  #grewTo(atLastArrival: number, byQuarter: readonly number[]): boolean {
    if (atLastArrival < Math.max(GROWN_COUNT, GROWN_SHARE * this.#requests)) return false;
    return [...byQuarter, atLastArrival].every((value, i, all) => i === 0 || value > all[i - 1]);
  }
}
