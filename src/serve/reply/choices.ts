import { throwApart } from '../../base/collections/news.js';
import type { Engine } from '../../engine/engine.js';
import type { EngineOutputs } from '../../engine/outputs/engine-outputs.js';
import type { Choice } from './choice.js';

/**
 * The choices whose requests have not ended. One loop distributes the engine's outputs to them, at
 * the cost of a promise per step and nothing per token.
 */
export class Choices {
  readonly engine: Engine;
  /** By the id of the request. */
  readonly #byId = new Map<string, Choice>();
  #isReading = false;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /**
   * Starts the loop that reads the engine's outputs, unless it runs. Call this before submitting
   * the requests of new choices.
   */
  read(): void {
    if (this.#isReading) return;
    let outputs: AsyncIterable<EngineOutputs>;
    try {
      outputs = this.engine.outputs();
    } catch {
      // The engine has ended, and `submit` is about to report it.
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
      // A breaking engine first ends every request. Requests that are left here were not read
      // because the server was held up for too long.
      for (const choice of this.#byId.values()) choice.fail(error);
    }
    this.#byId.clear();
    this.#isReading = false;
  }

  #receive(outputs: EngineOutputs): void {
    const { length, requests, ends } = outputs;
    // One reading of the clock serves all tokens of a step.
    const now = performance.now();
    for (let row = 0; row < length; row++) {
      const { id } = requests[row];
      const choice = this.#byId.get(id);
      // The request does not belong to this server.
      if (choice === undefined) continue;
      if (ends[row]?.continues === false) this.#byId.delete(id);
      try {
        choice.receive(outputs, row, now);
      } catch (error) {
        // The error lies in the vocabulary, and must not affect other clients.
        throwApart(error);
      }
    }
  }
}
