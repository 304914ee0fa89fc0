import { isCount } from '../../../base/checks.js';
import type { PipelineMessage } from '../../transport/messages.js';
import { fromWire } from './message-parts.js';
import type { Packer } from './packer.js';

/** The first byte of an entry. Whoever reads another number skips the entry. */
const VERSION = 1;
/** The field of an entry of a stream that has the messages. */
export const FIELD = 'm';

/** Where a run of messages stands among all that one sender sent to one receiver. */
export interface Place {
  /** The sender's name. */
  readonly sender: string;
  /** Random: another one in each life of the sender. */
  readonly instance: string;
  /** Counts the beginnings of this sender: numbers count from 1 on again with each. */
  readonly epoch: number;
  /** Number of the first message, from 1 on. */
  readonly first: number;
}

/** Messages that travel together, as they came. */
export interface Entry extends Place {
  /** The messages in order; null: it only has a number (a mark), or it is none that this version knows. */
  readonly messages: readonly (PipelineMessage | null)[];
  /** Of these, those that are no messages. */
  readonly numForeign: number;
}

/** Joins packed messages, in order, to one entry. */
export function makeEntry(
  { sender, instance, epoch, first }: Place,
  messages: readonly Uint8Array[],
  packer: Packer,
): Buffer {
  return Buffer.concat([Uint8Array.of(VERSION), packer.pack([sender, instance, epoch, first]), ...messages]);
}

/** What stands for a message that is only a number: the receiver learns by it how many there were. */
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
