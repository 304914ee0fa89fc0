/** Places for concurrent requests. A free place goes to the request that arrived first, at once. */
export class CallPlaces {
  /** When each free place became free, the earliest first; null: there is no limit. */
  readonly #freed: number[] | null;
  #isClosed = false;
  #wake: (() => void) | null = null;

  /** @param places number of places; null: no limit */
  constructor(places: number | null) {
    this.#freed = places === null ? null : new Array<number>(places).fill(0);
  }

  /**
   * Acquires a place as soon as there is one. After `close`, the call returns without a place. One
   * caller at a time may wait.
   * @returns when the place became free, as passed to `giveBack`; 0: from the start
   */
  async acquire(): Promise<number> {
    const freed = this.#freed;
    if (freed === null) return 0;
    while (freed.length === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return freed.shift() ?? 0;
  }

  /** Returns a place. Moments must come in order. */
  release(nowMs: number): void {
    this.#freed?.push(nowMs);
    this.#wake?.();
  }

  /** Ends all waiting. */
  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }
}
