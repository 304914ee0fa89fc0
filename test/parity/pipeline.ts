import type { TraceConfig } from './trace.js';

/** Batches that the engine of a trace has in flight. */
export function depthOf({ pipeline_depth, async_scheduling }: TraceConfig): 1 | 2 | 3 {
  return pipeline_depth ?? (async_scheduling ? 2 : 1);
}

/**
 * Batches in flight, oldest first, in the order in which vLLM's EngineCore processes them. Without async scheduling
 * that is each batch at once. With it, the oldest batch waits until as many are in flight as the queue holds, unless the last one
 * is empty (step_with_batch_queue).
 */
export class Pipeline<Batch> {
  readonly #batches: Batch[] = [];

  /** @param depth most batches in flight, 1 without async scheduling */
  constructor(private readonly depth: number) {}

  push(batch: Batch): void {
    this.#batches.push(batch);
  }

  /** The batch pushed last. */
  get last(): Batch {
    return this.#batches[this.#batches.length - 1];
  }

  /** The batch that the present step processes, if any. `scheduled` is what the present step scheduled, in tokens. */
  shift(scheduled: number): Batch | undefined {
    const fills = scheduled > 0 && this.#batches.length < this.depth;
    return fills ? undefined : this.#batches.shift();
  }
}
