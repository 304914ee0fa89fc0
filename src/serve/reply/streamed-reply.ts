import type { ServerResponse } from 'node:http';
import { toApiError } from '../api/api-error.js';
import { type Bodies, DONE, event, type ReplyHead } from './bodies.js';
import type { Choice } from './choice.js';
import { EventStream } from './event-stream.js';
import type { Generation, GenerationReader } from './generation.js';

/** Matches ASCII text that needs no escaping in a JSON string, as most pieces do. */
const PLAIN = /^[ !#-[\]-~]*$/;

/**
 * A reply that is sent in chunks while its choices are generated. The first token is sent at once,
 * then one chunk per `interval` tokens, and the rest at the end. A slow client gets fewer and
 * longer chunks.
 */
export class StreamedReply implements GenerationReader {
  readonly #head: ReplyHead;
  readonly #bodies: Bodies;
  /** Whether the head is pure ASCII, as are ids and the names of most models. */
  readonly #isAscii: boolean;
  /** By index: the beginning of the choice's chunks. */
  readonly #starts: string[] = [];
  /** The end of all chunks. */
  #chunkEnd = '';
  readonly #interval: number;
  /**
   * By index: the number of the choice's tokens at the time of the last chunk; 0 before the first.
   */
  readonly #sentTokens: number[] = [];
  /** By index: whether the last chunk of the choice was sent. */
  readonly #sent: boolean[] = [];
  #generation: Generation | null = null;
  #events: EventStream | null = null;
  #isOver = false;

  /** @param interval tokens of a chunk, 1 or more */
  constructor(head: ReplyHead, bodies: Bodies, interval: number) {
    this.#head = head;
    this.#bodies = bodies;
    this.#interval = interval;
    this.#isAscii = PLAIN.test(head.id + head.model);
  }

  /** Begins the response. @param headers that the server adds */
  start(generation: Generation, response: ServerResponse, headers: Readonly<Record<string, unknown>>): void {
    this.#generation = generation;
    const events = new EventStream(response, headers, () => this.#sendAll());
    this.#events = events;
    for (const { index } of generation.choices) {
      [this.#starts[index], this.#chunkEnd] = this.#bodies.around(this.#head, index);
      const first = this.#bodies.first(this.#head, index);
      if (first !== '') events.write(first);
    }
    const left = (): void => {
      this.#isOver = true;
      generation.abort();
    };
    if (response.closed) left();
    else response.once('close', left);
    this.#sendAll();
  }

  changed(choice: Choice): void {
    // Choices may have text before the response has begun.
    if (this.#events === null || this.#isOver) return;
    const sent = this.#sentTokens[choice.index] ?? 0;
    if (sent > 0 && choice.numTokens < sent + this.#interval && !choice.hasEnded) return;
    this.#send(choice, this.#events);
    if (choice.hasEnded) this.#endIfWhole();
  }

  #sendAll(): void {
    if (this.#events === null || this.#generation === null || this.#isOver) return;
    for (const choice of this.#generation.choices) this.#send(choice, this.#events);
    this.#endIfWhole();
  }

  #send(choice: Choice, events: EventStream): void {
    const { index } = choice;
    if (events.isBlocked || this.#sent[index] || choice.failure !== null) return;
    const piece = choice.drainText();
    this.#sentTokens[index] = choice.numTokens;
    const parts = choice.drainParts();
    if (choice.end !== null) {
      this.#sent[index] = true;
      events.write(this.#bodies.last(this.#head, choice, piece, parts));
    } else if (parts !== null || (piece !== '' && choice.hasLikely)) {
      events.write(this.#bodies.chunk(this.#head, choice, piece, parts));
    } else if (piece !== '') {
      const isPlain = PLAIN.test(piece);
      const inside = isPlain ? piece : JSON.stringify(piece).slice(1, -1);
      events.write(this.#starts[index] + inside + this.#chunkEnd, isPlain && this.#isAscii);
    }
  }

  #endIfWhole(): void {
    const generation = this.#generation as Generation;
    const { failure } = generation;
    if (failure !== null) {
      this.#isOver = true;
      generation.abort();
      this.#finish(event(toApiError(failure).body));
      return;
    }
    if (!generation.choices.every(({ index }) => this.#sent[index])) return;
    this.#isOver = true;
    if (!this.#head.includesUsage) this.#finish('');
    else {
      const usage = generation.usage().then((counts) => this.#bodies.usage(this.#head, counts));
      void usage.catch((error: unknown) => event(toApiError(error).body)).then((text) => this.#finish(text));
    }
  }

  #finish(text: string): void {
    const events = this.#events as EventStream;
    if (events.isClosed) return;
    events.write(text + DONE);
    events.end();
  }
}
