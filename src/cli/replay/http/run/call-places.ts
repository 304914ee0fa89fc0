/** Places for requests that are under way at once. Each is taken by the request that has arrived first, as soon as it is free. */
export class CallPlaces {
  /** When each of the free places became free, the earliest first; null: there is no limit. */
  readonly #freed: number[] | null;
  #isClosed = false;
  #wake: (() => void) | null = null;

  /** @param places how many there are; null: no limit */
  constructor(places: number | null) {
    this.#freed = places === null ? null : new Array<number>(places).fill(0);
  }

  /**
   * Takes a place, as soon as there is one; or none, once they are closed. One caller at a time may wait.
   * @returns when the place became free, as `giveBack` was told; 0: it always was
   */
  async take(): Promise<number> {
    const freed = this.#freed;
    if (freed === null) return 0;
    while (freed.length === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return freed.shift() ?? 0;
  }

  /** Gives a place back. Moments must come in order. */
  giveBack(nowMs: number): void {
    this.#freed?.push(nowMs);
    this.#wake?.();
  }

  /** Nobody waits any more. */
  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }
}
