/** Weight of a new lookup in the means. */
const NEWEST = 1 / 8;
/** Number of tokens after which earlier computation counts half. */
const WINDOW_TOKENS = 65_536;
/**
 * A disk that is too slow is tried again after this many times the duration of a lookup, and after
 * at most this many milliseconds.
 */
const TRY_EVERY = 32;
const MOST_MS = 1000;
/**
 * Longest duration that counts, in milliseconds. A longer one, or a negative one, comes from a clock
 * that jumped.
 */
const LONGEST_MS = 600_000;

/**
 * Decides whether the disk is faster than computing, by their recent durations. A lookup lasts from
 * its order until its blocks arrive. A computed token takes its share of the time in which steps
 * run. If many requests share the steps, a token is therefore as cheap as it really is. All times
 * are milliseconds of the connector's clock. Before the first measurement, nothing is known.
 */
export class Pace {
  readonly #now: () => number;
  #busyMs = 0;
  #tokens = 0;
  /** Start of the running steps that are not counted yet; null: no step runs. */
  #since: number | null = null;
  /**
   * Duration of a lookup. It falls at once and rises as a mean, because the first lookup waits for
   * the disk's start. Null: there was no lookup.
   */
  #lookupMs: number | null = null;
  /** Mean share of a lookup's tokens that arrived. */
  #yield = 1;
  #isSlow = false;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A plan was made. @param numTokens number of tokens that it computes */
  plan(numTokens: number): void {
    this.#count();
    if (numTokens === 0) return;
    this.#since = this.#now();
    this.#tokens += numTokens;
    if (this.#tokens < WINDOW_TOKENS) return;
    this.#tokens /= 2;
    this.#busyMs /= 2;
  }

  /**
   * A request has ended. Steps that still run show with the next plan, which may come much later.
   */
  ended(): void {
    this.#count();
  }

  /** Whether the disk was slower than computing at the last decision. */
  get isSlow(): boolean {
    return this.#isSlow;
  }

  /** Returns the milliseconds for computing this many tokens; Infinity if unknown. */
  computingMs(numTokens: number): number {
    return this.#busyMs === 0 ? Number.POSITIVE_INFINITY : (numTokens * this.#busyMs) / this.#tokens;
  }

  /**
   * Whether to ask the disk. From time to time, a disk that was slower lately is asked too.
   * @param numTokens number of tokens that it saves
   * @param isSure whether the disk is known to have them
   */
  allows(numTokens: number, isSure: boolean): boolean {
    const ms = this.#lookupMs;
    this.#isSlow = ms !== null && ms > this.computingMs(isSure ? numTokens : numTokens * this.#yield);
    return !this.#isSlow || Math.abs(this.#now() - this.#askedAt) >= Math.min(MOST_MS, TRY_EVERY * (ms ?? 0));
  }

  /** Notes that the disk is asked. @returns the present time */
  ask(): number {
    this.#askedAt = this.#now();
    return this.#askedAt;
  }

  /**
   * A lookup is over, in time or too late. @param share the part of its tokens that arrived, 0 to 1
   */
  looked(begunAt: number, share: number): void {
    this.#yield += NEWEST * (share - this.#yield);
    const ms = this.#now() - begunAt;
    if (!isDuration(ms)) return;
    const before = this.#lookupMs ?? ms;
    this.#lookupMs = Math.min(ms, before + NEWEST * (ms - before));
  }

  #count(): void {
    if (this.#since === null) return;
    const ms = this.#now() - this.#since;
    if (isDuration(ms)) this.#busyMs += ms;
    this.#since = null;
  }
}

function isDuration(ms: number): boolean {
  return ms >= 0 && ms <= LONGEST_MS;
}
