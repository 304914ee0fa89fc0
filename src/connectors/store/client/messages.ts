import type { MessagePort } from 'node:worker_threads';
import type { BlockArena } from '../../../transfer/block-arena.js';
import type { RedisSettings } from '../stores/store-options.js';

/** What a store is asked to do with keys. */
export type JobKind = 'has' | 'get' | 'put';

/** A job for a store. */
export interface JobMessage {
  readonly job: number;
  readonly kind: JobKind;
  readonly keys: readonly string[];
  /** Blocks of the staging arena: where each value goes to, or comes from; none for `has`. */
  readonly places: Int32Array;
}

/** The last message of a client: the thread ends what it has begun for it, and then itself, if nobody else uses it. */
export interface CloseMessage {
  readonly close: true;
  readonly isLast: boolean;
}

/** A job was done, and its places are touched no more. */
export interface AnswerMessage {
  /** 0: what the store did wrong belongs to no job that is under way. */
  readonly job: number;
  /** An `Outcome` for each key. */
  readonly outcomes: Uint8Array;
  /** Why the store did not do the job; null if it did. */
  readonly error: string | null;
}

/** What a thread has to open: a server, or a file that is open and locked already. */
export type ThreadStore =
  | RedisSettings
  | { readonly kind: 'slots'; readonly fd: number; readonly maxBytes: number };

/** A client of a thread begins. */
export interface ClientMessage {
  readonly port: MessagePort;
  readonly store: ThreadStore;
  /** How the thread finds the staging arena; undefined if it has none, so that only `has` can be asked. */
  readonly staging: BlockArena['descriptor'] | undefined;
  /** Memory of both sides: the words of `Posted`. */
  readonly posted: SharedArrayBuffer;
}

/** Words that the thread writes, so that the other side need not look for messages that are not there. */
export const Posted = {
  /** Answers that the thread has posted. */
  answers: 0,
  /** 1 when the thread has tried to open the store. */
  ready: 1,
} as const;
