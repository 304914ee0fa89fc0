type Resolve<T> = (value: T | PromiseLike<T>) => void;

/**
 * Calls that wait for something, the oldest first. There is rarely more than one, which has its own
 * field, so that a wait allocates only its promise. A call is failed by resolving it with a promise
 * that rejects.
 */
export class Waiters<T> {
  #first: Resolve<T> | null = null;
  /** Younger calls; null if there were none yet. */
  #more: Resolve<T>[] | null = null;

  get isEmpty(): boolean {
    return this.#first === null;
  }

  /** Waits after those that already wait. */
  wait(): Promise<T> {
    coming = this as Waiters<unknown>;
    return new Promise<T>(come as (resolve: Resolve<T>) => void);
  }

  /** Removes and returns the oldest call; null: nobody waits. */
  shift(): Resolve<T> | null {
    const first = this.#first;
    this.#first = this.#more?.shift() ?? null;
    return first;
  }

  /** Answers all calls, the oldest first. */
  answerAll(answer: () => T | Promise<T>): void {
    for (let call = this.shift(); call !== null; call = this.shift()) call(answer());
  }

  /** @internal */
  add(resolve: Resolve<T>): void {
    if (this.#first === null) this.#first = resolve;
    else if (this.#more === null) this.#more = [resolve];
    else this.#more.push(resolve);
  }
}

/**
 * The object that is about to wait. A promise calls its executor function at once, so one shared
 * function suffices and no wait needs a closure.
 */
let coming: Waiters<unknown>;

function come(resolve: Resolve<unknown>): void {
  coming.add(resolve);
}
