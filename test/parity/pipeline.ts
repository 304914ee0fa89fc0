/**
 * Batches in flight, oldest first, in the order in which vLLM's EngineCore processes them. Without async scheduling
 * that is each batch at once. With it, a batch that is alone waits for a successor, unless it is empty
 * (step_with_batch_queue with a queue of two).
 */
export class Pipeline<Batch> {
  readonly #batches: Batch[] = [];

  constructor(private readonly isAsync: boolean) {}

  push(batch: Batch): void {
    this.#batches.push(batch);
  }

  /** The batch pushed last. */
  get last(): Batch {
    return this.#batches[this.#batches.length - 1];
  }

  /** The batch that the present step processes, if any. `scheduled` is what the present step scheduled, in tokens. */
  take(scheduled: number): Batch | undefined {
    const fills = this.isAsync && scheduled > 0 && this.#batches.length === 1;
    return fills ? undefined : this.#batches.shift();
  }
}
