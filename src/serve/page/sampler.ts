import { usableBlocks } from '../../core/usable-blocks.js';
import type { Engine } from '../../engine/engine.js';
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { Figures, Present, Sample, ServerHealth } from './answers.js';
import { StepWatch } from './step-watch.js';

/** At most so many samples a second are taken, however many watch. */
const SAMPLE_MS = 450;
/** Samples that are kept: five minutes of them, for one who comes later. */
const MOST_SAMPLES = 600;
/** When nobody has asked for so long, nobody watches. */
const UNWATCHED_MS = 15_000;
/** The steps whose percentiles are said in figures are those of so long. */
const WINDOW_MS = 10_000;

/** What figures say that never changes. */
export type Served = Pick<Figures, 'model' | 'version' | 'control'>;

/**
 * The figures of an engine over the last minutes, for all who watch. A sample is taken when somebody asks and the last one is old enough; while
 * nobody asks nothing is measured.
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

  /** @param health how the server is now */
  constructor(engine: Engine, served: Served, health: () => ServerHealth) {
    this.#engine = engine;
    this.#served = served;
    this.#health = health;
    this.#watch = new StepWatch(engine.number);
  }

  /** The figures as they are, with the samples behind the one of time `after`. Takes a sample if the last one is old. */
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

  /** Ends all measuring. */
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
      // The clock of the machine may be set back; samples stay in their order.
      time: Math.max(Date.now(), (this.#samples.at(-1)?.time ?? 0) + 1),
      ...this.#watch.percentiles(since),
      running: numRunning,
      waiting: numWaiting + numSkipped - numLoading,
      parked: numLoading,
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

/** The statistics; null of an engine that has none any more. */
function statsOf(engine: Engine): EngineStats | null {
  try {
    return engine.stats();
  } catch {
    // It is broken or disposed, which its health says.
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
