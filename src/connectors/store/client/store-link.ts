import type { AnswerMessage, JobMessage } from './messages.js';

/** Milliseconds that a link has to end by itself. */
export const GRACE_MS = 2000;

/** The way to a store: takes jobs, and has an answer for each of them. No method waits, and none throws. */
export interface StoreLink {
  /** Resolves when the link has ended: it touches no memory any more. */
  readonly exit: Promise<void>;
  /** Whether the link has started, and tried to open its store. */
  readonly isReady: boolean;
  send(job: JobMessage): void;
  /** The next answer; null if there is none now. Costs next to nothing then. */
  receive(): AnswerMessage | null;
  /**
   * Nobody waits for a job any more, since it was too slow.
   * @returns whether it is over: it touches its places no more, and no answer to it comes
   */
  giveUp(job: number): boolean;
  /**
   * Has the link end when it has done what it was given; if the store hangs, it is ended after a while. Until then it
   * keeps the process alive, so that what was given to the store is kept.
   */
  close(): void;
  /** Frees what is left of the link, after it has ended. */
  release(): void;
}
