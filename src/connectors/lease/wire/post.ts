import { randomBytes } from 'node:crypto';
import type { Link } from '../link/link.js';
import { type Answer, decode, type Envelope, encode, type Message, type Question } from './messages.js';

/** Takes a message of a peer. `payload` is the second frame. */
export type Take<M extends Message> = (
  peer: string,
  envelope: Envelope & { readonly message: M },
  payload: Uint8Array | undefined,
) => void;

const QUESTIONS: ReadonlySet<Message['kind']> = new Set([
  'hello',
  'beat',
  'open',
  'fetch',
  'confirm',
  'release',
]);

/**
 * Sends and takes the messages of one worker over its link. A message that cannot be read is counted, and so is one whose
 * taker throws: no message of a peer ever throws into the link.
 */
export class Post {
  /** Names this life of the worker: no other worker has the name, nor the same one after a restart. */
  readonly life = randomBytes(9).toString('base64url');
  readonly #link: Link;
  /** Messages that made no sense. */
  numMalformed = 0;
  /** Messages that were good, and whose taker failed all the same. */
  numFailed = 0;
  /** What the last one of these failed with. */
  lastFailure: unknown;

  constructor(link: Link) {
    this.#link = link;
  }

  listen(takeQuestion: Take<Question>, takeAnswer: Take<Answer>): void {
    this.#link.listen((peer, [header, payload]) => {
      const envelope = decode(header);
      if (envelope === null) {
        this.numMalformed++;
        return;
      }
      try {
        if (QUESTIONS.has(envelope.message.kind)) takeQuestion(peer, envelope as never, payload);
        else takeAnswer(peer, envelope as never, payload);
      } catch (error) {
        this.numFailed++;
        this.lastFailure = error;
      }
    });
  }

  /**
   * Sends a message.
   * @param to the life of the receiver; empty = not known yet
   * @returns false if the link dropped it
   */
  send(peer: string, to: string, message: Message, payload?: Uint8Array): boolean {
    const header = encode({ from: this.life, to, message });
    return this.#link.send(peer, payload === undefined ? [header] : [header, payload]);
  }

  /** Drops what the link keeps for a peer. */
  forget(peer: string): void {
    this.#link.forget(peer);
  }
}
