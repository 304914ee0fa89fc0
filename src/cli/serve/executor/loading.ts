import type { Writable } from 'node:stream';

const ERASE = '\r\u001b[K';

/**
 * Shows the progress of loading or downloading a model. A terminal gets one changing line. Other
 * streams get lines at the start and the end.
 */
export class Loading {
  readonly #stream: Writable & { isTTY?: boolean };
  readonly #what: string;
  readonly #done: string;
  /** Percent between two lines if no line can change. */
  readonly #interval: number;
  readonly #start = performance.now();
  #shown = 0;

  /** @param what the loaded object, in words */
  constructor(stream: Writable & { isTTY?: boolean }, what: string, isDownload = false) {
    this.#stream = stream;
    this.#what = `${isDownload ? 'downloading' : 'loading'} ${what}`;
    this.#done = isDownload ? 'downloaded' : 'loaded';
    this.#interval = stream.isTTY ? 1 : isDownload ? 10 : 101;
    stream.write(`${this.#what}${stream.isTTY ? '' : '\n'}`);
  }

  /** @param share from 0 to 1 */
  update(share: number): void {
    const percent = Math.floor(100 * share);
    const isNext = percent < this.#shown || percent >= this.#shown + this.#interval;
    if (!isNext) return;
    this.#shown = percent - (percent % this.#interval);
    this.#stream.write(`${this.#erase}${this.#what}: ${percent} %${this.#stream.isTTY ? '' : '\n'}`);
  }

  /** Reports the success. */
  done(): void {
    const seconds = ((performance.now() - this.#start) / 1000).toFixed(1);
    this.#stream.write(`${this.#erase}${this.#done} in ${seconds} s\n`);
  }

  /** Ends the line after a failure, so that the next output has its own line. */
  failed(): void {
    this.#stream.write(this.#erase);
  }

  get #erase(): string {
    return this.#stream.isTTY ? ERASE : '';
  }
}
