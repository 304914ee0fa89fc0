// The measurements of a server in its process.
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { quantile, type ServerMessage } from './messages.js';

/** Most idle times that are kept. */
const MOST_SAMPLES = 200_000;

/** The side of a server that measures itself, between the messages `begin` and `end` of the program that started it. */
export class SelfWatch {
  readonly #tokens: () => number;
  #idle: number[] = [];
  #delay: IntervalHistogram = monitorEventLoopDelay({ resolution: 1 });
  #start = { at: 0, tokens: 0, cpu: process.cpuUsage() };

  /** @param tokens tokens generated so far */
  constructor(tokens: () => number) {
    this.#tokens = tokens;
    process.on('message', (message) => {
      if (message === 'begin') this.#begin();
      else if (message === 'end') this.#end();
    });
    process.on('disconnect', () => process.exit(0));
  }

  /** The executor had nothing to do for so many milliseconds. */
  idle(ms: number): void {
    if (this.#idle.length < MOST_SAMPLES) this.#idle.push(ms);
  }

  #begin(): void {
    this.#idle = [];
    this.#delay = monitorEventLoopDelay({ resolution: 1 });
    this.#delay.enable();
    this.#start = { at: performance.now(), tokens: this.#tokens(), cpu: process.cpuUsage() };
  }

  #end(): void {
    const { at, tokens, cpu } = this.#start;
    const { user, system } = process.cpuUsage(cpu);
    const sorted = this.#idle.sort((a, b) => a - b);
    const window = {
      ms: performance.now() - at,
      tokens: this.#tokens() - tokens,
      processorMs: (user + system) / 1000,
      delayP50: this.#delay.percentile(50) / 1e6,
      delayP99: this.#delay.percentile(99) / 1e6,
      idleP50: sorted.length > 0 ? quantile(sorted, 0.5) : null,
    };
    process.send?.({ kind: 'window', window } satisfies ServerMessage);
  }
}
