import type { ServerResponse } from 'node:http';
import { toApiError } from '../api/api-error.js';
import type { Choice } from '../reply/choice.js';
import { EventStream } from '../reply/event-stream.js';
import type { Generation, GenerationReader } from '../reply/generation.js';
import type { ResponseBodies } from './response-bodies.js';

/**
 * A response of the responses API as events, while its one choice is generated. A slow client gets
 * fewer and longer events.
 */
export class StreamedResponse implements GenerationReader {
  readonly #bodies: ResponseBodies;
  readonly #interval: number;
  /** The number of the choice's tokens at the time of the last event. */
  #sentTokens = 0;
  #generation: Generation | null = null;
  #events: EventStream | null = null;
  #isOver = false;

  /** @param interval tokens of an event, 1 or more; the first token is sent at once */
  constructor(bodies: ResponseBodies, interval: number) {
    this.#bodies = bodies;
    this.#interval = interval;
  }

  /** Begins the response. @param headers that the server adds */
  start(generation: Generation, response: ServerResponse, headers: Readonly<Record<string, unknown>>): void {
    this.#generation = generation;
    const [choice] = generation.choices;
    this.#events = new EventStream(response, headers, () => this.changed(choice));
    this.#events.write(this.#bodies.begin());
    const left = (): void => {
      this.#isOver = true;
      generation.abort();
    };
    if (response.closed) left();
    else response.once('close', left);
    this.changed(choice);
  }

  changed(choice: Choice): void {
    const events = this.#events;
    // The choice may have text before the response has begun.
    if (events === null || this.#isOver || events.isBlocked) return;
    const { numTokens, hasEnded } = choice;
    if (this.#sentTokens > 0 && numTokens < this.#sentTokens + this.#interval && !hasEnded) return;
    this.#sentTokens = numTokens;
    const brought = this.#bodies.drain(choice);
    if (brought !== '') events.write(brought);
    if (!hasEnded) return;
    this.#isOver = true;
    void this.#last(choice).then((text) => {
      if (events.isClosed) return;
      events.write(text);
      events.end();
    });
  }

  async #last(choice: Choice): Promise<string> {
    try {
      if (choice.failure !== null) throw choice.failure;
      return this.#bodies.end(choice, await (this.#generation as Generation).usage());
    } catch (error) {
      return this.#bodies.fail(toApiError(error).body.error);
    }
  }
}
