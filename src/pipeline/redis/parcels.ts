import type { Link } from './links.js';
import { makeEntry } from './wire/entry.js';
import type { Packer } from './wire/packer.js';

/** A packed message that waits for its turn. */
export interface Letter {
  readonly link: Link;
  readonly number: number;
  readonly bytes: Uint8Array;
}

/** Letters to one receiver that go out together. */
export interface Parcel {
  readonly link: Link;
  readonly entry: Buffer;
  readonly numLetters: number;
  /** Bytes of the letters. */
  readonly size: number;
  /** Whether the server has answered. */
  isSent: boolean;
}

/** Letters and bytes that go out together, about. */
const MOST_LETTERS = 256;
const MOST_BYTES = 2 ** 20;

/** Takes the next letters out of a queue: as many as go out together. */
export function takeLetters(queue: Letter[]): Letter[] {
  let count = 0;
  let bytes = 0;
  for (const letter of queue) {
    if (count === MOST_LETTERS || (count > 0 && bytes + letter.bytes.length > MOST_BYTES)) break;
    count++;
    bytes += letter.bytes.length;
  }
  return queue.splice(0, count);
}

/** Makes one parcel for each receiver, but two where a number is missing between. */
export function packLetters(
  letters: readonly Letter[],
  { name, instance, packer }: { readonly name: string; readonly instance: string; readonly packer: Packer },
): Parcel[] {
  const runs: { link: Link; first: number; bytes: Uint8Array[] }[] = [];
  const last = new Map<Link, (typeof runs)[number]>();
  for (const { link, number, bytes } of letters) {
    let run = last.get(link);
    if (run === undefined || run.first + run.bytes.length !== number) {
      run = { link, first: number, bytes: [] };
      runs.push(run);
      last.set(link, run);
    }
    run.bytes.push(bytes);
  }
  return runs.map(({ link, first, bytes }) => ({
    link,
    entry: makeEntry({ sender: name, instance, epoch: link.epoch, first }, bytes, packer),
    numLetters: bytes.length,
    size: bytes.reduce((sum, { length }) => sum + length, 0),
    isSent: false,
  }));
}
