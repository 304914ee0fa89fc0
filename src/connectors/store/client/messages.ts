// Jobs and answers, and the messages between the two threads.
import type { MessagePort } from 'node:worker_threads';
import type { BlockArena } from '../../../transfer/block-arena.js';
import type { RedisSettings } from '../stores/store-options.js';

/** The operation that a store performs on keys. */
export type JobKind = 'has' | 'get' | 'put';

/** A job for a store. */
export interface JobMessage {
  readonly job: number;
  readonly kind: JobKind;
  readonly keys: readonly string[];
  /** Blocks of the staging arena, the target or source of each value; none for `has`. */
  readonly places: Int32Array;
}

/**
 * The last message of a client. The thread finishes this client's jobs, and then itself if it has
 * no other client.
 */
export interface CloseMessage {
  readonly close: true;
  readonly isLast: boolean;
}

/** A job is done, and its places are no longer touched. */
export interface AnswerMessage {
  /** 0: the store's fault belongs to no job under way. */
  readonly job: number;
  /** An `Outcome` for each key. */
  readonly outcomes: Uint8Array;
  /** Why the store did not do the job; null if it did. */
  readonly error: string | null;
}

/** The store that a thread opens: a server, or a file that is already open and locked. */
export type ThreadStore =
  | RedisSettings
  | { readonly kind: 'slots'; readonly fd: number; readonly maxBytes: number };

/** A new client of a thread. */
export interface ClientMessage {
  readonly port: MessagePort;
  readonly store: ThreadStore;
  /** Describes the staging arena; undefined if there is none, so that only `has` can be used. */
  readonly staging: BlockArena['descriptor'] | undefined;
  /** Memory shared by both sides: the words of `Posted`. */
  readonly posted: SharedArrayBuffer;
}

/**
 * Indexes of the words that the thread writes. The other side reads them instead of polling for
 * messages.
 */
export const Posted = {
  /** Number of answers that the thread has posted. */
  answers: 0,
  /** 1 after the thread has tried to open the store. */
  ready: 1,
} as const;
