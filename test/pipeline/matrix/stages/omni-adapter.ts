import { type Chunk, chunkKey } from './flow.js';

/** A request as the adapter sees it. The adapter writes the status. */
export interface Parkable {
  readonly id: string;
  status: string;
}

/** A queue as the adapter sees it: vLLM's, or ours as `BorrowQueue` shows it. */
export interface ParkQueue<R> extends Iterable<R> {
  readonly length: number;
  remove(request: R): unknown;
  pushBack(request: R): unknown;
  pushFront(request: R): unknown;
}

export interface ParkQueues<R> {
  readonly waiting: ParkQueue<R>;
  readonly running: ParkQueue<R>;
}

/** The options of an adapter. */
export interface OmniAdapterOptions {
  /** Its stage. Chunks come from the stage before. */
  readonly stage: number;
  readonly maxNumSeqs: number;
  readonly receive: (key: string) => Chunk | null;
  /** Called when a chunk has come, with the request object that was polled for. */
  readonly onChunk?: (request: Parkable) => void;
  /**
   * Called at the end of `processPendingChunks`: the work of another thread while a step is
   * planned.
   */
  readonly meanwhile?: () => void;
  /**
   * Whether `finishRequests` restores the status from before the parking; true since vllm-omni #2871, and in every row of
   * the matrix.
   */
  readonly restoresStatus?: boolean;
}

/**
 * vllm-omni's `OmniChunkTransferAdapter`, as far as scheduling goes, under its names. It knows requests by id, as the
 * original does. The status test has no guard against finished requests, as the original has none.
 */
export class OmniAdapter<R extends Parkable> {
  /** DW and DR: the requests that are parked while a step is planned. */
  readonly waitingForChunkWaiting: R[] = [];
  readonly waitingForChunkRunning: R[] = [];
  readonly parked = [this.waitingForChunkWaiting, this.waitingForChunkRunning];
  /** The work list of the receiving thread. */
  #pendingLoads: R[] = [];
  readonly #cancelledLoads = new Set<string>();
  readonly #finishedLoads = new Set<string>();
  readonly #readyChunks = new Set<string>();
  readonly #exhausted = new Set<string>();
  readonly #nextChunk = new Map<string, number>();
  readonly #originStatus = new Map<string, string>();
  readonly #options: OmniAdapterOptions;

  constructor(options: OmniAdapterOptions) {
    this.#options = options;
  }

  processPendingChunks({ waiting, running }: ParkQueues<R>): void {
    this.#park(waiting, 'WAITING', this.waitingForChunkWaiting);
    this.#park(running, 'RUNNING', this.waitingForChunkRunning);
    while (running.length > this.#options.maxNumSeqs) {
      const tail = [...running].at(-1) as R;
      running.remove(tail);
      tail.status = 'PREEMPTED';
      waiting.pushFront(tail);
    }
    this.#options.meanwhile?.();
  }

  restoreQueues({ waiting, running }: ParkQueues<R>): void {
    for (const request of this.waitingForChunkWaiting.splice(0)) waiting.pushBack(request);
    for (const request of this.waitingForChunkRunning.splice(0)) running.pushBack(request);
  }

  /** A chunk is used up by the step that its request is in. */
  postprocess({
    requests,
    numRequests,
  }: {
    readonly requests: readonly R[];
    readonly numRequests: number;
  }): void {
    for (let i = 0; i < numRequests; i++) this.#readyChunks.delete((requests[i] as R).id);
  }

  finishRequests(requests: readonly R[]): void {
    if (this.#options.restoresStatus === false) return;
    for (const request of requests) request.status = this.#originStatus.get(request.id) ?? request.status;
  }

  cleanupReceiver({ id }: Pick<R, 'id'>): void {
    this.#readyChunks.delete(id);
    this.#exhausted.delete(id);
    this.#nextChunk.delete(id);
    this.#originStatus.delete(id);
    this.#cancelledLoads.add(id);
    this.#finishedLoads.delete(id);
  }

  /** One pass of the receiving thread over its work list. */
  poll(): void {
    const { stage, receive, onChunk } = this.#options;
    const again: R[] = [];
    for (const request of this.#pendingLoads) {
      const { id } = request;
      if (this.#cancelledLoads.has(id)) continue;
      const next = this.#nextChunk.get(id) ?? 0;
      const chunk = receive(chunkKey(id, stage - 1, next));
      if (chunk === null) {
        again.push(request);
        continue;
      }
      this.#nextChunk.set(id, next + 1);
      if (chunk.finished) this.#exhausted.add(id);
      this.#finishedLoads.add(id);
      onChunk?.(request);
    }
    this.#pendingLoads = again;
  }

  #park(queue: ParkQueue<R>, target: string, parked: R[]): void {
    for (const request of [...queue]) {
      const { id } = request;
      if (request.status !== 'WAITING_FOR_CHUNK') {
        if (this.#readyChunks.has(id) || this.#exhausted.has(id)) continue;
        this.#cancelledLoads.delete(id);
        this.#pendingLoads.push(request);
        request.status = 'WAITING_FOR_CHUNK';
      }
      if (this.#finishedLoads.has(id)) {
        this.#finishedLoads.delete(id);
        this.#readyChunks.add(id);
        request.status = target;
        continue;
      }
      queue.remove(request);
      this.#originStatus.set(id, target);
      parked.push(request);
    }
  }
}
