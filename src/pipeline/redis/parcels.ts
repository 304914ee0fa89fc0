import type { ChainableCommander } from 'iovalkey';
import type { Link } from './links.js';
import type { RedisTransportSettings } from './redis-options.js';
import { FIELD, makeEntry } from './wire/entry.js';
import type { Packer } from './wire/packer.js';

/** A packed message that waits to be sent. */
export interface Letter {
  readonly link: Link;
  readonly number: number;
  readonly bytes: Uint8Array;
}

/** Letters to one receiver that are sent together. */
export interface Parcel {
  readonly link: Link;
  readonly entry: Buffer;
  readonly letters: readonly Letter[];
  /** Bytes of the letters. */
  readonly size: number;
  /** Whether the server has answered. */
  isSent: boolean;
}

/** Approximate maximum of letters and bytes that are sent together. */
const MOST_LETTERS = 256;
const MOST_BYTES = 2 ** 20;

/** Drains the next letters of a queue that are sent together. */
export function drainLetters(queue: Letter[]): Letter[] {
  let count = 0;
  let bytes = 0;
  for (const letter of queue) {
    if (count === MOST_LETTERS || (count > 0 && bytes + letter.bytes.length > MOST_BYTES)) break;
    count++;
    bytes += letter.bytes.length;
  }
  return queue.splice(0, count);
}

/** The name of the sender, and its packer. */
interface Sender {
  readonly name: string;
  readonly instance: string;
  readonly packer: Packer;
}

/** Makes one parcel for each receiver, or two if a number is missing in between. */
export function packLetters(letters: readonly Letter[], sender: Sender): Parcel[] {
  const runs: Letter[][] = [];
  const last = new Map<Link, Letter[]>();
  for (const letter of letters) {
    const { link, number } = letter;
    let run = last.get(link);
    if (run === undefined || run[0].number + run.length !== number) {
      run = [];
      runs.push(run);
      last.set(link, run);
    }
    run.push(letter);
  }
  return runs.map((run) => packParcel(run, sender));
}

/** Puts each letter of a parcel in a parcel of its own. */
export function splitParcel({ letters }: Parcel, sender: Sender): Parcel[] {
  return letters.map((letter) => packParcel([letter], sender));
}

function packParcel(letters: readonly Letter[], { name, instance, packer }: Sender): Parcel {
  const [{ link, number }] = letters;
  const bytes = letters.map((letter) => letter.bytes);
  return {
    link,
    entry: makeEntry({ sender: name, instance, epoch: link.epoch, first: number }, bytes, packer),
    letters,
    size: bytes.reduce((sum, { length }) => sum + length, 0),
    isSent: false,
  };
}

/**
 * Adds the commands that deliver a parcel to its receiver's inbox. @returns the index of XADD's
 * reply among all replies
 */
export function addCommands(
  commands: ChainableCommander,
  { link: { key, isKept, renewAt }, entry }: Parcel,
  { settings, now }: { readonly settings: RedisTransportSettings; readonly now: () => number },
): number {
  const { maxInboxEntries, ttlMs } = settings;
  const args = ['MAXLEN', '~', maxInboxEntries, '*', FIELD, entry] as const;
  commands.call('XADD', key, ...(isKept ? [] : ['NOMKSTREAM']), ...(args as unknown as string[]));
  const place = commands.length - 1;
  if (isKept && now() >= renewAt) commands.pexpire(key, ttlMs);
  return place;
}
