type Resolve<T> = (value: T | PromiseLike<T>) => void;

/**
 * Calls that wait for something, the oldest first. Nearly always there is one at most, which stands in a field of its own: a wait makes
 * a promise and nothing besides. A call is failed by resolving it with a promise that rejects.
 */
export class Waiters<T> {
  #first: Resolve<T> | null = null;
  /** Younger calls; null: there were none yet. */
  #more: Resolve<T>[] | null = null;

  get isEmpty(): boolean {
    return this.#first === null;
  }

  /** Waits behind those that wait already. */
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

/** Who is about to wait: a promise calls its executor at once, so that one function does for all and no wait needs a closure. */
let coming: Waiters<unknown>;

function come(resolve: Resolve<unknown>): void {
  coming.add(resolve);
}
