import { type ChannelPayloads, channels } from '../../base/channels.js';

/** The number of steps whose durations are kept: four seconds at a thousand steps per second. */
const MOST_STEPS = 4096;
/** The interval between two checks of the event loop. */
const TICK_MS = 20;

/** The duration of steps, in milliseconds; null if there was none. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p99: number | null;
}

/**
 * While it is on, measures the durations of an engine's last steps and the delay of the event loop.
 * While it is off, it costs nothing.
 */
export class StepWatch {
  readonly #engine: number;
  readonly #times = new Float64Array(MOST_STEPS);
  readonly #latencies = new Float64Array(MOST_STEPS);
  #count = 0;
  #timer: NodeJS.Timeout | null = null;
  #tickedAt = 0;
  #longestDelayMs = 0;
  readonly #heard = (message: ChannelPayloads['blockstep:engine:step']): void => {
    if (message.engine !== this.#engine) return;
    const at = this.#count++ % MOST_STEPS;
    this.#times[at] = performance.now();
    this.#latencies[at] = message.latencyMs;
  };

  /** @param engine `Engine.number` */
  constructor(engine: number) {
    this.#engine = engine;
  }

  get isOn(): boolean {
    return this.#timer !== null;
  }

  start(): void {
    if (this.isOn) return;
    channels.engineStep.subscribe(this.#heard);
    this.#tickedAt = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
  }

  stop(): void {
    if (this.#timer === null) return;
    channels.engineStep.unsubscribe(this.#heard);
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /**
   * Percentiles of the steps since `since`, a time of `performance.now()`; of the last 4,096 steps
   * at most.
   */
  percentiles(since: number): Percentiles {
    const kept = Math.min(this.#count, MOST_STEPS);
    const latencies = this.#latencies
      .subarray(0, kept)
      .filter((_, i) => this.#times[i] >= since)
      .sort();
    if (latencies.length === 0) return { p50: null, p99: null };
    const at = (share: number): number => latencies[Math.ceil(share * latencies.length) - 1];
    return { p50: at(0.5), p99: at(0.99) };
  }

  /** The longest delay of the event loop since the last call, in milliseconds. */
  drainLoopDelay(): number {
    // The tick that is due now has not run, but its delay is already known.
    const longest = Math.max(this.#longestDelayMs, performance.now() - this.#tickedAt - TICK_MS);
    this.#longestDelayMs = 0;
    return longest;
  }

  #tick(): void {
    const now = performance.now();
    this.#longestDelayMs = Math.max(this.#longestDelayMs, now - this.#tickedAt - TICK_MS);
    this.#tickedAt = now;
  }
}
