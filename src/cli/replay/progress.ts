import type { Writable } from 'node:stream';
import CliProgress from 'cli-progress';
import { counted, grouped } from '../../report/markup/figures.js';

/**
 * A progress bar of the requests that have ended, for terminals only. `stop` must be called: it
 * ends the bar's timer.
 */
export class Progress {
  readonly #bar: CliProgress.SingleBar;

  constructor(stream: Writable, total: number) {
    // The bar's own {value} and {total} would lack thousands separators.
    const format = `{bar} {percentage} % | {ended} of ${counted(total, 'request')} | {how}`;
    const options = {
      stream: stream as NodeJS.WritableStream,
      format,
      barsize: 20,
      clearOnComplete: true,
      hideCursor: true,
    };
    this.#bar = new CliProgress.SingleBar(options, CliProgress.Presets.shades_classic);
    this.#bar.start(total, 0, { ended: '0', how: '' });
  }

  /** Shows the number of ended requests. @param how further progress, in words */
  update(numEnded: number, how: string): void {
    this.#bar.update(numEnded, { ended: grouped(numEnded), how });
  }

  stop(): void {
    this.#bar.stop();
  }
}
