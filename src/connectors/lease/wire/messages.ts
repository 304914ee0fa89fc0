// Every message between workers, and its checks.
import { isCount, isList, isObject } from '../../../base/checks.js';
import { MAX_TEXT } from './hand-over.js';

/** Version of the messages. Peers of different versions refuse each other. */
export const PROTOCOL = 3;

/** The messages of a reading worker to the worker that granted leases. */
export type Question =
  /** Begins a session. `rank` and `bytesPerBlock` must be those of the peer. The answer repeats `number`. */
  | {
      readonly kind: 'hello';
      readonly number: number;
      readonly protocol: number;
      readonly rank: number;
      readonly bytesPerBlock: number;
    }
  /** Renews leases, and asks which of them are valid. */
  | { readonly kind: 'beat'; readonly settings: string; readonly keys: readonly string[] }
  /** Announces a read of the blocks of a lease. */
  | { readonly kind: 'open'; readonly settings: string; readonly key: string; readonly transfer: string }
  /** Asks for the bytes of `count` blocks of an open read, from the block with index `at` on. */
  | { readonly kind: 'fetch'; readonly transfer: string; readonly at: number; readonly count: number }
  /** Asks whether the lease of a read was valid until now. A yes ends the lease. */
  | { readonly kind: 'confirm'; readonly transfer: string }
  /** The blocks of these leases are not needed, or no longer needed. */
  | { readonly kind: 'release'; readonly keys: readonly string[] };

/** The answers of the worker that granted leases. */
export type Answer =
  /**
   * The session begins. `arena` describes the KV memory, for readers that can map it; null = it
   * cannot be mapped.
   */
  | { readonly kind: 'welcome'; readonly number: number; readonly arena: unknown }
  | { readonly kind: 'unwelcome'; readonly number: number; readonly reason: string }
  /** `early`: leases that may still be granted. */
  | {
      readonly kind: 'beats';
      readonly alive: readonly string[];
      readonly early: readonly string[];
      readonly gone: readonly string[];
      readonly reason: string;
    }
  /**
   * A read may begin. The message has the ids of the leased blocks, by group, and the fewest and
   * most tokens that a reader may resume behind.
   */
  | {
      readonly kind: 'opened';
      readonly transfer: string;
      readonly blocks: readonly (readonly number[])[];
      readonly fewest: number;
      readonly most: number;
    }
  /** Bytes of blocks, in the second frame. */
  | { readonly kind: 'data'; readonly transfer: string; readonly at: number; readonly count: number }
  | { readonly kind: 'confirmed'; readonly transfer: string }
  /** A read is refused, or its lease has ended: the bytes read so far do not count. */
  | { readonly kind: 'closed'; readonly transfer: string; readonly reason: string }
  /** Asks the reader to stop. The reader must answer with `release`. */
  | { readonly kind: 'cancel'; readonly key: string }
  /** The sender has no session with the receiver, which must say hello. */
  | { readonly kind: 'stale' }
  /** The sender ends. */
  | { readonly kind: 'bye' };

export type Message = Question | Answer;

/** A message with its sender and receiver. */
export interface Envelope {
  /** The sender: a name that no other life of any worker has. */
  readonly from: string;
  /** The receiver, if the sender knows it; empty = not yet. */
  readonly to: string;
  readonly message: Message;
}

/** Maximum size of the first frame, in bytes. */
const MAX_HEADER = 2 ** 24;

type Rule = (message: Record<string, unknown>) => boolean;

const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_TEXT;
const areTexts = (value: unknown): boolean => isList(value, isText);
const areBlocks = (value: unknown): boolean => isList(value, (list) => isList(list, isBlock));
const isBlock = (value: unknown): boolean => isCount(value) && value < 2 ** 31;

/** The required fields of each kind of message. */
const RULES: Readonly<Record<Message['kind'], Rule>> = {
  hello: ({ number, protocol, rank, bytesPerBlock }) =>
    [number, protocol, rank, bytesPerBlock].every(isCount),
  beat: ({ settings, keys }) => isText(settings) && areTexts(keys),
  open: ({ settings, key, transfer }) => isText(settings) && isText(key) && isText(transfer),
  fetch: ({ transfer, at, count }) => isText(transfer) && isBlock(at) && isBlock(count) && count !== 0,
  confirm: ({ transfer }) => isText(transfer),
  release: ({ keys }) => areTexts(keys),
  welcome: ({ number, arena }) => isCount(number) && (arena === null || isObject(arena)),
  unwelcome: ({ number, reason }) => isCount(number) && isText(reason),
  beats: ({ alive, early, gone, reason }) => [alive, early, gone].every(areTexts) && isText(reason),
  opened: ({ transfer, blocks, fewest, most }) =>
    isText(transfer) && areBlocks(blocks) && isCount(fewest) && isCount(most),
  data: ({ transfer, at, count }) => isText(transfer) && isBlock(at) && isBlock(count) && count !== 0,
  confirmed: ({ transfer }) => isText(transfer),
  closed: ({ transfer, reason }) => isText(transfer) && isText(reason),
  cancel: ({ key }) => isText(key),
  stale: () => true,
  bye: () => true,
};

/** Encodes a message as the first frame of a link. */
export function encode(envelope: Envelope): Uint8Array {
  return Buffer.from(JSON.stringify(envelope));
}

/** Reads the first frame of a foreign message. @returns null if it is invalid */
export function decode(frame: Uint8Array | undefined): Envelope | null {
  if (frame === undefined || frame.byteLength > MAX_HEADER) return null;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength).toString());
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  const { from, to, message } = value;
  if (!isText(from) || from === '' || !isText(to) || !isObject(message)) return null;
  const { kind } = message;
  if (typeof kind !== 'string' || !Object.hasOwn(RULES, kind)) return null;
  return RULES[kind as Message['kind']](message) ? (value as unknown as Envelope) : null;
}
