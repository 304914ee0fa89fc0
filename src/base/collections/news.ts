/** An object with a listener, such as the stream of a request. */
export interface Heard {
  /** Called in a later microtask; null: nobody listens. */
  readonly listener: (() => void) | null;
  /** Whether the listener is about to be called. */
  isNews: boolean;
}

/**
 * The objects whose listeners are to be called, once each, in a microtask.
 *
 * A step that the engine makes by itself therefore first hands the executor its next step. The
 * clients' work on the tokens costs the executor no time. A listener is never called from inside a
 * call of its own, or of the engine's.
 *
 * Invariant: an object is in `#told` once at most, and then its `isNews` is true.
 */
export class News {
  #told: Heard[] = [];
  /** The list of the previous round, emptied for reuse. */
  #spare: Heard[] = [];

  add(heard: Heard): void {
    if (heard.isNews) return;
    heard.isNews = true;
    if (this.#told.push(heard) === 1) queueMicrotask(this.#tell);
  }

  readonly #tell = (): void => {
    const told = this.#told;
    this.#told = this.#spare;
    for (const heard of told) {
      heard.isNews = false;
      try {
        heard.listener?.();
      } catch (error) {
        throwApart(error);
      }
    }
    told.length = 0;
    this.#spare = told;
  };
}

/** Throws the error of one listener in a microtask of its own, where it harms nobody else. */
export function throwApart(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
