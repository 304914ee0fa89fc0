import type { SubjectChunk, SubjectCore, SubjectInput, SubjectOptions } from '../subject.js';
import { ReferenceBlocks } from './blocks.js';
import { ReferenceQueues } from './queues.js';
import type { ReferenceRequest } from './request.js';

export const isIdle = ({ status }: ReferenceRequest) => status === 'WAITING_FOR_STREAMING_REQ';

/** What the reference scheduler knows, what can be done to it between two steps, and what can be read of it. */
export abstract class ReferenceState {
  protected readonly options: SubjectOptions;
  protected readonly blocks: ReferenceBlocks;
  /** Every known request, in the order of add. */
  protected readonly requests = new Map<string, ReferenceRequest>();
  protected readonly queues: ReferenceQueues;
  protected finished: string[] = [];
  protected previous = new Set<string>();
  protected paused: 'no' | 'new' | 'all' = 'no';

  constructor(options: SubjectOptions) {
    this.options = options;
    this.blocks = new ReferenceBlocks(options);
    this.queues = new ReferenceQueues(options.policy);
  }

  add(input: SubjectInput): void {
    if (this.requests.has(input.id)) throw new Error(`request ${input.id} is known already`);
    const request = this.blocks.open(input);
    this.requests.set(input.id, request);
    this.queues.push(request);
  }

  addChunk(id: string, chunk: SubjectChunk): void {
    const request = this.#session(id);
    if (isIdle(request)) {
      request.begin(chunk);
      this.blocks.name(request);
      this.queues.sort();
    } else request.inputs.push(chunk);
  }

  endSession(id: string): void {
    const request = this.#session(id);
    if (isIdle(request)) this.abort(id);
    else request.inputs.push(null);
  }

  #session(id: string): ReferenceRequest {
    const request = this.requests.get(id);
    if (!request?.isResumable) throw new Error(`${id} is no session`);
    return request;
  }

  abort(ids: string | readonly string[]): string[] {
    const requests = [...new Set(typeof ids === 'string' ? [ids] : ids)].flatMap(
      (id) => this.requests.get(id) ?? [],
    );
    for (const request of requests) this.finish(request, 'FINISHED_ABORTED');
    this.queues.sweep();
    return requests.map((request) => request.id);
  }

  abortAll(): string[] {
    return this.abort([...this.requests.keys()]);
  }

  pause(mode: 'new' | 'all'): void {
    this.paused = mode;
  }

  resume(): void {
    this.paused = 'no';
  }

  resetPrefixCache({ resetRunning }: { resetRunning: boolean }): { ok: boolean } {
    while (resetRunning && this.queues.running.length > 0) {
      const request = this.queues.running[this.queues.running.length - 1];
      this.preempt(request);
      request.framesToDrop = request.numOutputPlaceholders;
      request.numOutputPlaceholders = 0;
    }
    if (resetRunning) this.previous.clear();
    return { ok: this.blocks.pool.reset() };
  }

  get numUnfinished(): number {
    const { running, waiting, skipped } = this.queues;
    if (this.paused === 'all') return 0;
    const numWaiting = waiting.length + skipped.filter((request) => !isIdle(request)).length;
    return running.length + (this.paused === 'new' ? 0 : numWaiting);
  }

  get(id: string): ReferenceRequest | undefined {
    return this.requests.get(id);
  }

  inspect(): { running: string[]; waiting: string[]; skipped: string[]; requests: ReferenceRequest[] } {
    const ids = (requests: ReferenceRequest[]) => requests.map((request) => request.id);
    const { running, waiting, skipped } = this.queues;
    return {
      running: ids(running),
      waiting: ids(waiting),
      skipped: ids(skipped),
      requests: [...this.requests.values()],
    };
  }

  get core(): SubjectCore {
    return this.blocks.core;
  }

  verify(): void {
    this.blocks.verify();
  }

  dispose(): void {
    this.requests.clear();
  }

  protected preempt(request: ReferenceRequest): void {
    this.blocks.release(request);
    request.status = 'PREEMPTED';
    request.numComputedTokens = 0;
    request.drafts = [];
    this.queues.requeue(request);
  }

  protected finish(request: ReferenceRequest, status: string): void {
    request.status = status;
    this.blocks.release(request);
    this.requests.delete(request.id);
    this.finished.push(request.id);
  }
}
