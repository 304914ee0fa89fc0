/**
 * The clock that the token counts of requests are relative to. The requests of a steady decode share one clock, so that a step
 * counts for all of them at once. Every other request has `STILL`.
 */
export class RequestClock {
  /** Tokens that each request of this clock has got. */
  sampled = 0;
  /** Tokens that were scheduled for each of them. */
  planned = 0;
  /** Tokens that the steps in flight are expected to bring each of them, where steps are pipelined. */
  ahead = 0;
  /** Somebody has set a count of one of them, or dropped an output of it: they no longer go in step. */
  isDisturbed = false;
}

/** The clock of every request outside a steady decode: it stands at 0. */
export const STILL = new RequestClock();
