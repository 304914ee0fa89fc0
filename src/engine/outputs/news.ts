/** Something with a listener: the stream of a request. */
export interface Heard {
  /** Called when there is something to take; null: nobody listens. */
  readonly listener: (() => void) | null;
  /** Whether the listener is about to be called. */
  isNews: boolean;
}

/**
 * The streams whose listeners are to be told that there is something to take.
 *
 * They are told in a microtask. So a step that the engine makes by itself first hands the executor its next step, and the clients' work on
 * the tokens costs the executor no time; and a listener is never called from inside a call of its own, or of the engine's.
 *
 * Invariant: a stream is in `#told` once at most, and then `isNews` is true.
 */
export class News {
  #told: Heard[] = [];
  /** The list of the round before, emptied, to be filled again. */
  #spare: Heard[] = [];

  add(stream: Heard): void {
    if (stream.isNews) return;
    stream.isNews = true;
    if (this.#told.push(stream) === 1) queueMicrotask(this.#tell);
  }

  readonly #tell = (): void => {
    const told = this.#told;
    this.#told = this.#spare;
    for (const stream of told) {
      stream.isNews = false;
      try {
        stream.listener?.();
      } catch (error) {
        // It is a mistake of the client's, and no other stream's: it is thrown where nobody's work is lost.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    told.length = 0;
    this.#spare = told;
  };
}
