import { throwApart } from '../../base/collections/news.js';
import type { Engine } from '../../engine/engine.js';
import type { EngineOutputs } from '../../engine/outputs/engine-outputs.js';
import type { Choice } from './choice.js';

/**
 * The choices whose requests have not ended, and the one loop that hands each of them what the engine brings: a promise for a step, and
 * nothing for a token.
 */
export class Choices {
  readonly engine: Engine;
  /** By the id of the request. */
  readonly #byId = new Map<string, Choice>();
  #isReading = false;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /** Begins to read what the engine brings, if that has not begun. To be called before requests are submitted whose choices are added. */
  read(): void {
    if (this.#isReading) return;
    let outputs: AsyncIterable<EngineOutputs>;
    try {
      outputs = this.engine.outputs();
    } catch {
      // The engine has ended, as `submit` is about to say.
      return;
    }
    this.#isReading = true;
    void this.#read(outputs);
  }

  /** Adds a choice, in the same turn in which its request was submitted. */
  add(choice: Choice): void {
    this.#byId.set(choice.stream.id, choice);
  }

  async #read(outputs: AsyncIterable<EngineOutputs>): Promise<void> {
    try {
      for await (const item of outputs) this.#receive(item);
    } catch (error) {
      // An engine that breaks ends every request first. What is left here was not read because the server was held up for too long.
      for (const choice of this.#byId.values()) choice.fail(error);
    }
    this.#byId.clear();
    this.#isReading = false;
  }

  #receive(outputs: EngineOutputs): void {
    const { length, requests, ends } = outputs;
    // One reading of the clock does for all tokens of a step.
    const now = performance.now();
    for (let row = 0; row < length; row++) {
      const { id } = requests[row];
      const choice = this.#byId.get(id);
      // The request is none of this server's.
      if (choice === undefined) continue;
      if (ends[row]?.continues === false) this.#byId.delete(id);
      try {
        choice.receive(outputs, row, now);
      } catch (error) {
        // It is a mistake of a vocabulary, and no other client's.
        throwApart(error);
      }
    }
  }
}
