import type { Writable } from 'node:stream';
import CliProgress from 'cli-progress';
import { counted, duration, grouped } from '../../report/markup/figures.js';
import type { Replay } from './run/replay.js';

/** A progress bar of the requests that have ended, for terminals only. `stop` must be called: it ends the bar's timer. */
export class Progress {
  readonly #bar: CliProgress.SingleBar;

  constructor(stream: Writable, total: number) {
    // The bar's own {value} and {total} would be written without thousands separators.
    const format = `{bar} {percentage} % | {ended} of ${counted(total, 'request')} | {steps} steps | {virtual} virtual`;
    const options = {
      stream: stream as NodeJS.WritableStream,
      format,
      barsize: 20,
      clearOnComplete: true,
      hideCursor: true,
    };
    this.#bar = new CliProgress.SingleBar(options, CliProgress.Presets.shades_classic);
    this.#bar.start(total, 0, { ended: '0', steps: '0', virtual: duration(0) });
  }

  update({ measurements, nowMs }: Replay): void {
    const { numEnded, steps } = measurements;
    const shown = { ended: grouped(numEnded), steps: grouped(steps), virtual: duration(nowMs) };
    this.#bar.update(numEnded, shown);
  }

  stop(): void {
    this.#bar.stop();
  }
}
