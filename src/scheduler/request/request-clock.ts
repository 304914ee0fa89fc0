/**
 * The base of the token counts of requests. The requests of a steady decode share one clock, so
 * that a step counts for all of them at once. Every other request has `STILL`.
 */
export class RequestClock {
  /** Tokens that each request of this clock has received. */
  sampled = 0;
  /** Tokens that were scheduled for each of them. */
  planned = 0;
  /** Tokens that each of them expects from the steps in flight, if steps are pipelined. */
  ahead = 0;
  /**
   * Whether a count of one of them was set, or an output of it dropped: they no longer decode in
   * step.
   */
  isDisturbed = false;
}

/** The clock of every request outside a steady decode: it is always 0. */
export const STILL = new RequestClock();
