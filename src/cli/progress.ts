import type { Writable } from 'node:stream';
import CliProgress from 'cli-progress';
import type { Replay } from './replay.js';

/** A live bar of the requests that ended. Only for terminals; `stop` must be called, it ends the bar's own timer. */
export class Progress {
  readonly #bar: CliProgress.SingleBar;

  constructor(stream: Writable, total: number) {
    const format = '{bar} {percentage}% | {value}/{total} requests | {steps} steps | {virtual} s virtual';
    const options = {
      stream: stream as NodeJS.WritableStream,
      format,
      clearOnComplete: true,
      hideCursor: true,
    };
    this.#bar = new CliProgress.SingleBar(options, CliProgress.Presets.shades_classic);
    this.#bar.start(total, 0, { steps: 0, virtual: '0.0' });
  }

  update({ measurements, nowMs }: Replay): void {
    const { numEnded, steps } = measurements;
    this.#bar.update(numEnded, { steps, virtual: (nowMs / 1000).toFixed(1) });
  }

  stop(): void {
    this.#bar.stop();
  }
}
