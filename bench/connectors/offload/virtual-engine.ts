// An engine whose steps and copies take virtual time.
import { offload } from '../../../src/connectors/offload/index.js';
import { DEFAULT_COST_MODEL } from '../../../src/executors/cost-model/cost-model.js';
import { CostModelExecutor } from '../../../src/executors/cost-model/cost-model-executor.js';
import {
  Engine,
  type EngineOptions,
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
} from '../../../src/index.js';
import { BlockArena, type CompletionQueue } from '../../../src/transfer.js';
import { type CopyCost, VirtualLane } from './virtual-lane.js';

/** An engine in virtual time. */
export interface VirtualOptions {
  numBlocks: number;
  blockSize: number;
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  maxModelLen: number;
  /** Blocks of the host tier; 0 = the pool alone. */
  hostBlocks: number;
  /** Bytes per second of a copy, in each direction. */
  bytesPerSecond: number;
}

/** A request of a run. */
export interface Arrival {
  readonly arrivalMs: number;
  readonly prompt: () => Int32Array;
  readonly maxTokens: number;
}

/** The result of a run on a virtual clock. Times are virtual. */
export interface VirtualResult {
  readonly seconds: number;
  readonly requests: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Prompt tokens found in the pool, and in the host tier. */
  readonly localHits: number;
  readonly hostHits: number;
  readonly preemptions: number;
  readonly ttftMs: { readonly mean: number; readonly p50: number; readonly p99: number };
  readonly copiedBytes: number;
}

/** Milliseconds that a job of a lane takes besides its bytes. */
const JOB_MS = 0.02;

/** Runs requests through an engine whose steps and copies take virtual time. */
export class VirtualRun implements Executor {
  readonly usesTables = false;
  readonly engine: Engine;
  readonly #lanes: VirtualLane[] = [];
  readonly #model: CostModelExecutor;
  readonly #connector: ReturnType<typeof offload>['connector'] | null;
  /** The steps in flight: the end of each, and the callback that tells the engine. */
  readonly #steps: { dueMs: number; answer: () => void }[] = [];
  readonly #ttft: number[] = [];
  #nowMs = 0;

  constructor({ hostBlocks, bytesPerSecond, ...sizes }: VirtualOptions) {
    const now = (): number => this.#nowMs;
    this.#model = new CostModelExecutor({
      model: DEFAULT_COST_MODEL,
      now,
      seed: 1,
      acceptanceRate: 0,
      maxEntries: sizes.maxNumSeqs,
      maxDrafts: 0,
      stepsInFlight: 1,
    });
    const cost: CopyCost = {
      bytesPerBlock: DEFAULT_COST_MODEL.kvBytesPerToken * sizes.blockSize,
      bytesPerSecond,
      jobMs: JOB_MS,
    };
    const makeLane = (queue: CompletionQueue, source: BlockArena, target: BlockArena): VirtualLane => {
      const lane = new VirtualLane(queue, source, target, now, cost);
      this.#lanes.push(lane);
      return lane;
    };
    const memory = { kv: BlockArena.allocate({ numBlocks: sizes.numBlocks, bytesPerBlock: 1 }) };
    const sides = hostBlocks === 0 ? null : offload({ memory, hostBlocks, makeLane, now });
    this.#connector = sides?.connector ?? null;
    const options: EngineOptions = {
      ...sizes,
      hashSeed: 1,
      now,
      executor: this,
      deadlines: false,
      executorTimeoutMs: 0,
    };
    this.engine = new Engine({ ...options, ...(sides !== null && sides) });
  }

  execute(plan: ExecutorPlan): Promise<ExecutorResult> {
    const { tokens, counts, finishMs } = this.#model.execute(plan);
    const answer = { tokens: tokens.slice(), counts: counts.slice() };
    return new Promise((resolve) => {
      this.#steps.push({ dueMs: finishMs, answer: () => resolve(answer) });
    });
  }

  /** @param closed how many requests are in the engine at once, whenever they arrive; undefined = they arrive by their times */
  async run(arrivals: readonly Arrival[], closed?: number): Promise<VirtualResult> {
    let next = 0;
    let outputTokens = 0;
    let promptTokens = 0;
    const isDue = (): boolean =>
      next < arrivals.length &&
      (closed === undefined ? arrivals[next].arrivalMs <= this.#nowMs : this.engine.stats().streams < closed);
    while (next < arrivals.length || this.engine.hasWork()) {
      while (isDue()) {
        const { prompt, maxTokens } = arrivals[next++];
        const tokens = prompt();
        const stream = this.engine.submit({ prompt: tokens, maxTokens, ignoreEos: true });
        promptTokens += tokens.length;
        outputTokens += maxTokens;
        void stream.result().then(({ timings }) => void this.#ttft.push(timings.firstTokenMs ?? Number.NaN));
      }
      while (this.engine.step().state === 'progress');
      this.#advance(
        closed === undefined && next < arrivals.length ? arrivals[next].arrivalMs : Number.POSITIVE_INFINITY,
      );
      // The answer of a step is a promise.
      for (let i = 0; i < 4; i++) await Promise.resolve();
    }
    for (let i = 0; i < 10; i++) await Promise.resolve();
    const { scheduler } = this.engine.stats();
    const sorted = this.#ttft.sort((a, b) => a - b);
    const at = (share: number): number =>
      sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    const result = {
      seconds: this.#nowMs / 1000,
      requests: arrivals.length,
      promptTokens,
      outputTokens,
      localHits: scheduler.prefixCacheHits,
      hostHits: this.#connector?.stats().host.hitTokens ?? 0,
      preemptions: scheduler.numPreemptions,
      ttftMs: { mean: sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length, p50: at(0.5), p99: at(0.99) },
      copiedBytes: this.#lanes.reduce((sum, { bytes }) => sum + bytes, 0),
    };
    this.engine.dispose();
    return result;
  }

  /** Moves the clock to the next thing that happens, and lets it happen. */
  #advance(arrivalMs: number): void {
    const step = this.#steps[0]?.dueMs ?? Number.POSITIVE_INFINITY;
    const due = Math.min(arrivalMs, step, ...this.#lanes.map(({ nextMs }) => nextMs));
    if (due !== Number.POSITIVE_INFINITY) this.#nowMs = Math.max(this.#nowMs, due);
    for (const lane of this.#lanes) lane.advance();
    if (step <= this.#nowMs) this.#steps.shift()?.answer();
  }
}
