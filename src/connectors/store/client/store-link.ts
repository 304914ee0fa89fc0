import type { AnswerMessage, JobMessage } from './messages.js';

/** Milliseconds that a link has to end by itself. */
export const GRACE_MS = 2000;

/**
 * The link to a store: takes jobs, and has one answer for each of them. No method waits, and none
 * throws.
 */
export interface StoreLink {
  /** Resolves when the link has ended and no longer touches memory. */
  readonly exit: Promise<void>;
  /** Whether the link has started and tried to open its store. */
  readonly isReady: boolean;
  send(job: JobMessage): void;
  /** Returns the next answer; null if there is none. An empty call costs almost nothing. */
  receive(): AnswerMessage | null;
  /**
   * Gives up a job that was too slow.
   * @returns whether the job is over: it no longer touches its places, and no answer to it will
   * come
   */
  giveUp(job: number): boolean;
  /**
   * Ends the link after its jobs are done. If the store hangs, the link is ended after a while.
   * Until then the link keeps the process alive, so that values given to the store are kept.
   */
  close(): void;
  /** Frees the resources of the link after it has ended. */
  release(): void;
}
