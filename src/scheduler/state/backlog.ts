import type { Request } from '../request/request.js';

/** The number of admissions after which all admissions so far count half. */
const MEMORY = 256;

/**
 * The requests that were added and never admitted to a step: their number, their prompt tokens, and
 * the rate at which such requests are admitted. A request counts until the first plan that it is
 * in, also while its prefix is loaded, or until it ends. A session that began without a prompt
 * counts from its first chunk on. A preempted request that waits again does not count, nor does a
 * session that waits for its second chunk.
 *
 * Invariant: `requests` and `tokens` are the number of requests whose `backlogTokens` is not 0, and
 * the sum of their
 * `backlogTokens`.
 */
export class Backlog {
  /** Requests that were never admitted. */
  requests = 0;
  /** Prompt tokens of these requests; for a session, those of its first chunk. */
  tokens = 0;
  /**
   * Called once each, when the next request leaves the backlog. They are called from inside a step, and must not call
   * the scheduler.
   */
  readonly listeners = new Set<() => void>();
  // Requests and prompt tokens that were admitted recently, and the milliseconds in which requests
  // waited for that. Time with an empty queue does not count, because it does not show how fast an
  // engine is. All three are halved together.
  #admitted = 0;
  #admittedTokens = 0;
  #waitedMs = 0;
  /** Time up to which `#waitedMs` counts, while anything waits. */
  #countedTo = 0;

  /** Adds a request that was just added to the scheduler. `now` is in milliseconds of the scheduler's clock. */
  enter(request: Request, now: number): void {
    if (this.requests === 0) this.#countedTo = now;
    request.backlogTokens = request.numPromptTokens;
    this.requests++;
    this.tokens += request.backlogTokens;
  }

  /** Removes a request that was admitted, or has ended. Nothing happens if the request left before. */
  leave(request: Request, now: number, isAdmitted: boolean): void {
    const { backlogTokens } = request;
    if (backlogTokens === 0) return;
    request.backlogTokens = 0;
    this.requests--;
    this.tokens -= backlogTokens;
    this.#waitedMs += Math.max(0, now - this.#countedTo);
    this.#countedTo = now;
    if (this.listeners.size > 0) this.#tellListeners();
    if (!isAdmitted) return;
    this.#admitted++;
    this.#admittedTokens += backlogTokens;
    if (this.#admitted < MEMORY) return;
    this.#admitted /= 2;
    this.#admittedTokens /= 2;
    this.#waitedMs /= 2;
  }

  /**
   * Milliseconds until `requests` requests and `tokens` prompt tokens are admitted, if admissions
   * continue at the recent rate. Must be called while requests wait. The time since the last
   * admission counts, so the result grows while nothing is admitted.
   * @returns null if nothing was admitted yet, or no time has passed
   */
  msToAdmit(requests: number, tokens: number, now: number): number | null {
    const waitedMs = this.#waitedMs + Math.max(0, now - this.#countedTo);
    if (this.#admitted === 0 || waitedMs === 0) return null;
    return Math.ceil(waitedMs * Math.max(requests / this.#admitted, tokens / this.#admittedTokens));
  }

  #tellListeners(): void {
    const listeners = [...this.listeners];
    this.listeners.clear();
    for (const listener of listeners) listener();
  }
}
