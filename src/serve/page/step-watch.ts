import { type ChannelPayloads, channels } from '../../base/channels.js';

/** Steps whose times are kept: at a thousand steps a second those of the last four seconds. */
const MOST_STEPS = 4096;
/** How often the event loop is looked at. */
const TICK_MS = 20;

/** How long steps took, in milliseconds; null if there was none. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p99: number | null;
}

/**
 * Watches the steps of an engine, and the event loop, while it is on: the times of the last steps, and by how much the loop was late. Off, it
 * costs nothing.
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

  /** Percentiles of the steps since `since`, as `performance.now()` has it: of the last 4,096 steps at most. */
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
    // The tick that is due now has not come: what it would say is known.
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
