/** Places for requests that are under way at once. */
export class CallPlaces {
  #free: number;
  #isClosed = false;
  #wake: (() => void) | null = null;

  /** @param places how many there are */
  constructor(places: number) {
    this.#free = places;
  }

  /** Takes a place, as soon as there is one; or none, once they are closed. One caller at a time may wait. */
  async take(): Promise<void> {
    while (this.#free === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#free--;
  }

  /** Gives a place back. */
  giveBack(): void {
    this.#free++;
    this.#wake?.();
  }

  /** Nobody waits any more. */
  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }
}
