import type { ServerResponse } from 'node:http';
import type { Bodies, ReplyHead } from './bodies.js';
import type { Choice } from './choice.js';
import type { Generation, GenerationReader } from './generation.js';

/** A reply that is sent when all its choices have ended. */
export class WholeReply implements GenerationReader {
  readonly #head: ReplyHead;
  readonly #bodies: Pick<Bodies, 'whole'>;
  readonly #ended: Promise<void>;
  #generation: Generation | null = null;
  #end: () => void = () => {};

  constructor(head: ReplyHead, bodies: Pick<Bodies, 'whole'>) {
    this.#head = head;
    this.#bodies = bodies;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  changed({ hasEnded }: Choice): void {
    if (hasEnded) this.#endIfWhole();
  }

  /**
   * The body, when all choices have ended; null if the client has left.
   * @throws by rejection why a choice failed
   */
  async body(generation: Generation, response: ServerResponse): Promise<object | null> {
    this.#generation = generation;
    let hasLeft = false;
    const left = (): void => {
      hasLeft = true;
      generation.abort();
      this.#end();
    };
    if (response.closed) left();
    else response.once('close', left);
    this.#endIfWhole();
    await this.#ended;
    response.off('close', left);
    if (hasLeft) return null;
    const { failure } = generation;
    if (failure !== null) throw failure;
    return this.#bodies.whole(this.#head, generation.choices, await generation.usage());
  }

  #endIfWhole(): void {
    const generation = this.#generation;
    if (generation === null) return;
    if (generation.failure !== null) {
      generation.abort();
      this.#end();
    } else if (generation.hasEnded) this.#end();
  }
}
