import type { Request } from '../request/request.js';

/** Admissions after which those before count half. */
const MEMORY = 256;

/**
 * The requests that were added and were never admitted to a step: how many they are, their prompt tokens, and how fast they
 * are being admitted. Who was preempted and waits again is none of them, nor is a session that waits for its second chunk.
 * A request counts until the first plan that it stands in, also while its prefix is loaded, or until it ends.
 *
 * Invariant: `requests` and `tokens` are the number of requests whose `backlogTokens` is not 0, and the sum of these.
 */
export class Backlog {
  requests = 0;
  /** Their prompt tokens; of a session those of its first chunk. */
  tokens = 0;
  /** Called, and forgotten, when the next request leaves; from inside a step, so they must not call the scheduler. */
  readonly listeners = new Set<() => void>();
  // What was admitted lately, and the milliseconds in which anything waited for that: a queue that is empty says nothing of how
  // fast an engine is. All three are halved together.
  #admitted = 0;
  #admittedTokens = 0;
  #waitedMs = 0;
  /** Up to when `#waitedMs` counts, while anything waits. */
  #countedTo = 0;

  enter(request: Request, now: number): void {
    if (this.requests === 0) this.#countedTo = now;
    request.backlogTokens = request.numPromptTokens;
    this.requests++;
    this.tokens += request.backlogTokens;
  }

  /** It was admitted, or has ended; nothing if it had left before. */
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
   * While requests wait: milliseconds in which so many of them and so many prompt tokens are admitted, if it goes on as it did lately. The time
   * since the last admission counts: while nothing is admitted it grows.
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
