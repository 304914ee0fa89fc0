/** Share of a new lookup in the means. */
const NEWEST = 1 / 8;
/** Tokens after which what was computed before counts half. */
const WINDOW_TOKENS = 65_536;
/** While the disk is slower, it is tried again after so many times the duration of a lookup, and after so many milliseconds at most. */
const TRY_EVERY = 32;
const MOST_MS = 1000;

/**
 * Whether the disk is faster than computing, by what both took lately. A lookup takes from its order until its blocks are there; a
 * computed token takes its share of the time in which steps run. So while many requests share the steps, a token costs as little as it
 * really does. All times are milliseconds of the connector's clock; while it stands still, nothing is known.
 */
export class Pace {
  readonly #now: () => number;
  #busyMs = 0;
  #tokens = 0;
  /** Since when steps run that are not counted; null: none runs. */
  #since: number | null = null;
  /** Duration of a lookup, which falls at once and rises as a mean: the first one waits for the disk's start. Null: there was none. */
  #lookupMs: number | null = null;
  /** Mean share of the tokens of a lookup that came of it. */
  #yield = 1;
  #isSlow = false;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A plan was made. @param numTokens that it computes */
  plan(numTokens: number): void {
    this.#count();
    if (numTokens === 0) return;
    this.#since = this.#now();
    this.#tokens += numTokens;
    if (this.#tokens < WINDOW_TOKENS) return;
    this.#tokens /= 2;
    this.#busyMs /= 2;
  }

  /** A request has ended. Whatever runs still shows with the next plan, which may come much later. */
  ended(): void {
    this.#count();
  }

  /** Whether the disk was slower than computing when somebody wanted something of it last. */
  get isSlow(): boolean {
    return this.#isSlow;
  }

  /** Milliseconds in which so many tokens are computed; Infinity while that is not known. */
  computingMs(numTokens: number): number {
    return this.#busyMs === 0 ? Number.POSITIVE_INFINITY : (numTokens * this.#busyMs) / this.#tokens;
  }

  /**
   * Whether to ask the disk. Now and then it is asked although it was slower lately.
   * @param numTokens that it saves
   * @param isSure whether it is known to have them
   */
  allows(numTokens: number, isSure: boolean): boolean {
    const ms = this.#lookupMs;
    this.#isSlow = ms !== null && ms > this.computingMs(isSure ? numTokens : numTokens * this.#yield);
    return !this.#isSlow || this.#now() - this.#askedAt >= Math.min(MOST_MS, TRY_EVERY * (ms ?? 0));
  }

  /** The disk is asked. @returns the present time */
  ask(): number {
    this.#askedAt = this.#now();
    return this.#askedAt;
  }

  /** A lookup is over, be it in time or too late. @param share of its tokens that came */
  looked(begunAt: number, share: number): void {
    const ms = this.#now() - begunAt;
    const before = this.#lookupMs ?? ms;
    this.#lookupMs = Math.min(ms, before + NEWEST * (ms - before));
    this.#yield += NEWEST * (share - this.#yield);
  }

  #count(): void {
    if (this.#since === null) return;
    this.#busyMs += this.#now() - this.#since;
    this.#since = null;
  }
}
