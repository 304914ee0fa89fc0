import type { Writable } from 'node:stream';

const ERASE = '\r\u001b[K';

/** Says how far the loading of a model is: in one line of a terminal that changes, or at its beginning and its end. */
export class Loading {
  readonly #stream: Writable & { isTTY?: boolean };
  readonly #what: string;
  readonly #start = performance.now();
  #shown = -1;

  /** @param what is loaded, in words */
  constructor(stream: Writable & { isTTY?: boolean }, what: string) {
    this.#stream = stream;
    this.#what = what;
    stream.write(`loading ${what}${stream.isTTY ? '' : '\n'}`);
  }

  /** @param share from 0 to 1 */
  update(share: number): void {
    const percent = Math.floor(100 * share);
    if (!this.#stream.isTTY || percent === this.#shown) return;
    this.#shown = percent;
    this.#stream.write(`${ERASE}loading ${this.#what}: ${percent} %`);
  }

  /** The model is there. */
  done(): void {
    const seconds = ((performance.now() - this.#start) / 1000).toFixed(1);
    this.#stream.write(`${this.#erase}loaded in ${seconds} s\n`);
  }

  /** It could not be loaded: what is written next has a line of its own. */
  failed(): void {
    this.#stream.write(this.#erase);
  }

  get #erase(): string {
    return this.#stream.isTTY ? ERASE : '';
  }
}
