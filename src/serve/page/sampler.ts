import { usableBlocks } from '../../core/usable-blocks.js';
import type { Engine } from '../../engine/engine.js';
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { Figures, Present, Sample, ServerHealth } from './answers.js';
import { StepWatch } from './step-watch.js';

/** The minimum time between two samples, however many clients watch. */
const SAMPLE_MS = 450;
/**
 * The number of samples that are kept. They cover five minutes, for a client that connects later.
 */
const MOST_SAMPLES = 600;
/** The time without a request after which nobody is considered to watch. */
const UNWATCHED_MS = 15_000;
/** The time span of the steps whose percentiles the figures show. */
const WINDOW_MS = 10_000;

/** The constant fields of figures. */
export type Served = Pick<Figures, 'model' | 'version' | 'control'>;

/**
 * The figures of an engine over the last minutes, shared by all clients. A sample is taken on
 * request if the last sample is old enough. Without requests nothing is measured.
 */
export class Sampler {
  readonly #engine: Engine;
  readonly #served: Served;
  readonly #health: () => ServerHealth;
  readonly #watch: StepWatch;
  #samples: Sample[] = [];
  #sampledAt = Number.NEGATIVE_INFINITY;
  #step: Figures['step'] = { p50: null, p99: null };
  #present: Present | null = null;
  #unwatched: NodeJS.Timeout | null = null;

  /** @param health reads the present health of the server */
  constructor(engine: Engine, served: Served, health: () => ServerHealth) {
    this.#engine = engine;
    this.#served = served;
    this.#health = health;
    this.#watch = new StepWatch(engine.number);
  }

  /**
   * The present figures, with the samples after the time `after`. Takes a sample if the last one is
   * old.
   */
  read(after: number): Figures {
    this.#stayOn();
    if (performance.now() - this.#sampledAt >= SAMPLE_MS) this.#sample();
    const { core, config } = this.#engine.scheduler;
    const { numBlocks, blockSize } = config;
    return {
      ...this.#served,
      numBlocks,
      usableBlocks: usableBlocks(core.config),
      blockSize,
      health: this.#health(),
      paused: this.#engine.scheduler.pauseMode,
      step: this.#step,
      present: this.#present,
      samples: this.#samples.filter(({ time }) => time > after),
    };
  }

  /** Whether anything is being measured. */
  get isWatching(): boolean {
    return this.#watch.isOn;
  }

  /** Stops all measuring. */
  close(): void {
    if (this.#unwatched !== null) clearTimeout(this.#unwatched);
    this.#unwatched = null;
    this.#watch.stop();
  }

  #stayOn(): void {
    if (this.#watch.isOn) {
      this.#unwatched?.refresh();
      return;
    }
    this.#watch.start();
    this.#unwatched = setTimeout(() => this.close(), UNWATCHED_MS).unref();
  }

  #sample(): void {
    const now = performance.now();
    const since = this.#sampledAt;
    this.#sampledAt = now;
    this.#step = this.#watch.percentiles(now - WINDOW_MS);
    const stats = statsOf(this.#engine);
    this.#present = stats && presentOf(stats);
    if (stats === null) return;
    const { scheduler } = stats;
    const { numRunning, numWaiting, numSkipped, numLoading } = scheduler;
    this.#samples.push({
      // The machine's clock may be set back, but samples stay in order.
      time: Math.max(Date.now(), (this.#samples.at(-1)?.time ?? 0) + 1),
      ...this.#watch.percentiles(since),
      running: numRunning,
      waiting: numWaiting + numSkipped - numLoading,
      loading: numLoading,
      generated: scheduler.generationTokens,
      queries: scheduler.prefixCacheQueries,
      hits: scheduler.prefixCacheHits,
      usage: scheduler.kvCacheUsage,
      loopDelayMs: this.#watch.drainLoopDelay(),
    });
    const oldest = this.#samples[this.#samples.length - 1].time - 300_000;
    if (this.#samples.length > MOST_SAMPLES || this.#samples[0].time < oldest)
      this.#samples = this.#samples.filter(({ time }) => time >= oldest).slice(-MOST_SAMPLES);
  }
}

/** The statistics; null if the engine no longer has any. */
function statsOf(engine: Engine): EngineStats | null {
  try {
    return engine.stats();
  } catch {
    // The engine is broken or disposed. Its health reports this.
    return null;
  }
}

function presentOf({ scheduler, steps }: EngineStats): Present {
  const { freeBlocks, cachedBlocks, quarantinedBlocks, groups, outstanding, anomalies, numPreemptions } =
    scheduler;
  return {
    freeBlocks,
    cachedBlocks,
    quarantinedBlocks,
    groups,
    outstanding,
    anomalies,
    steps,
    preemptions: numPreemptions,
  };
}
