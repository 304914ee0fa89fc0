import { randomBytes } from 'node:crypto';
import type { Link } from '../link/link.js';
import { type Answer, decode, type Envelope, encode, type Message, type Question } from './messages.js';

/** Handles a message of a peer. `payload` is the second frame. */
export type Receive<M extends Message> = (
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
 * Sends and receives the messages of one worker over its link. Unreadable messages are counted, and
 * so are messages whose handler throws. No message of a peer ever throws into the link.
 */
export class Post {
  /**
   * Name of this life of the worker. No other worker has it, and a restarted worker gets a new one.
   */
  readonly life = randomBytes(9).toString('base64url');
  readonly #link: Link;
  /** Messages that could not be read. */
  numMalformed = 0;
  /** Valid messages whose handler threw. */
  numFailed = 0;
  /** The last error that a handler threw. */
  lastFailure: unknown;

  constructor(link: Link) {
    this.#link = link;
  }

  listen(receiveQuestion: Receive<Question>, receiveAnswer: Receive<Answer>): void {
    this.#link.listen((peer, [header, payload]) => {
      const envelope = decode(header);
      if (envelope === null) {
        this.numMalformed++;
        return;
      }
      try {
        if (QUESTIONS.has(envelope.message.kind)) receiveQuestion(peer, envelope as never, payload);
        else receiveAnswer(peer, envelope as never, payload);
      } catch (error) {
        this.numFailed++;
        this.lastFailure = error;
      }
    });
  }

  /**
   * Sends a message.
   * @param to the life of the receiver; empty = not known yet
   * @returns false if the link dropped the message
   */
  send(peer: string, to: string, message: Message, payload?: Uint8Array): boolean {
    const header = encode({ from: this.life, to, message });
    return this.#link.send(peer, payload === undefined ? [header] : [header, payload]);
  }

  /** Drops the link's state for a peer. */
  forget(peer: string): void {
    this.#link.forget(peer);
  }
}
