import { isCount } from '../../../base/checks.js';
import type { PipelineMessage } from '../../transport/messages.js';
import { fromWire } from './message-parts.js';
import type { Packer } from './packer.js';

/** The first byte of an entry. A reader skips entries with another number. */
const VERSION = 1;
/** The field of a stream's entry that holds the messages. */
export const FIELD = 'm';

/** The position of a run of messages among all messages from one sender to one receiver. */
export interface Place {
  /** The sender's name. */
  readonly sender: string;
  /** Random, and different in each life of the sender. */
  readonly instance: string;
  /** Number of the sender's present epoch. In each epoch, messages are numbered from 1. */
  readonly epoch: number;
  /** Number of the first message, from 1. */
  readonly first: number;
}

/** Messages that are sent together. */
export interface Entry extends Place {
  /**
   * The messages in order; null: the message is only a number (a mark), or of a kind unknown to
   * this version.
   */
  readonly messages: readonly (PipelineMessage | null)[];
  /** Number of messages of unknown kinds. */
  readonly numForeign: number;
}

/** Joins packed messages, in order, into one entry. */
export function makeEntry(
  { sender, instance, epoch, first }: Place,
  messages: readonly Uint8Array[],
  packer: Packer,
): Buffer {
  return Buffer.concat([Uint8Array.of(VERSION), packer.pack([sender, instance, epoch, first]), ...messages]);
}

/**
 * Makes a mark: a message that is only a number. It tells the receiver how many messages there
 * were.
 */
export function makeMark(packer: Packer): Uint8Array {
  return packer.pack(null);
}

/** Reads an entry; null: it is foreign, damaged, or of another version. Never throws. */
export function readEntry(bytes: unknown, packer: Packer): Entry | null {
  if (!(bytes instanceof Uint8Array) || bytes[0] !== VERSION) return null;
  try {
    const [place, ...wired] = packer.unpack(bytes.subarray(1));
    if (!Array.isArray(place)) return null;
    const [sender, instance, epoch, first] = place;
    if (typeof sender !== 'string' || typeof instance !== 'string') return null;
    if (!isCount(epoch) || !isCount(first) || first === 0) return null;
    const messages = wired.map(fromWire);
    const numForeign = wired.filter((each, i) => each !== null && messages[i] === null).length;
    return { sender, instance, epoch, first, messages, numForeign };
  } catch {
    return null;
  }
}
