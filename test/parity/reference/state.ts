// The state of the reference scheduler, the calls between two steps, and its queries.
import type { ConnectorOutput, TransferReport } from '../../../src/scheduler/connector/connector.js';
import type { FinishReason } from '../../../src/scheduler/request/status.js';
import type { SubjectChunk, SubjectCore, SubjectInput, SubjectOptions } from '../subject.js';
import { ReferenceBlocks } from './kv/blocks.js';
import { type Faults, NO_FAULTS } from './kv/faults.js';
import { ReferenceQueues } from './queues.js';
import type { ReferenceRequest } from './request.js';
import { type ReferenceRules, rulesOf } from './rules/rules.js';

/** Finish reasons of the statuses that end a request. */
const REASONS: Readonly<Record<string, FinishReason>> = {
  FINISHED_STOPPED: 'stop',
  FINISHED_LENGTH_CAPPED: 'length',
  FINISHED_ABORTED: 'abort',
  FINISHED_ERROR: 'error',
};

export const isIdle = ({ status }: ReferenceRequest) => status === 'WAITING_FOR_STREAMING_REQ';

/** The state of the reference scheduler, the calls between two steps, and its queries. */
export abstract class ReferenceState {
  protected readonly options: SubjectOptions;
  protected readonly faults: Faults;
  protected readonly rules: ReferenceRules;
  protected readonly blocks: ReferenceBlocks;
  /** Every known request, in the order of add; finished ones too, while a connector keeps their blocks. */
  protected readonly requests = new Map<string, ReferenceRequest>();
  protected readonly queues: ReferenceQueues;
  protected finished: string[] = [];
  protected previous = new Set<string>();
  /** Requests whose load has ended, and which have not been looked at since. */
  protected readonly received = new Set<ReferenceRequest>();
  /** Requests whose grammar failed, which the next update ends. */
  protected readonly failedGrammars = new Set<ReferenceRequest>();
  /** Requests that have begun to compute or to load, and are not done with their prompts. */
  protected readonly prefills = new Set<ReferenceRequest>();
  /** The requests that forced resets have preempted since the last step. */
  protected resetVictims: string[] = [];
  protected paused: 'no' | 'new' | 'all' = 'no';

  /** @param faults of vLLM, which the reference is to have too */
  constructor(options: SubjectOptions, faults: Partial<Faults> = {}) {
    this.options = options;
    this.faults = { ...NO_FAULTS, ...faults };
    this.rules = rulesOf(options);
    this.blocks = new ReferenceBlocks(options, this.faults, this.rules);
    this.queues = new ReferenceQueues(options.policy);
  }

  add(input: SubjectInput): void {
    if (this.requests.has(input.id)) throw new Error(`request ${input.id} is known already`);
    const request = this.blocks.open(input);
    this.requests.set(input.id, request);
    this.queues.push(request);
    this.options.connector?.onNewRequest(request);
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
    const requests = [...new Set(typeof ids === 'string' ? [ids] : ids)]
      .flatMap((id) => this.requests.get(id) ?? [])
      .filter((request) => !request.isFinished);
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
      const byTokens = this.rules.resetsByTokens || this.rules.preemptedOutputs !== 'deliver';
      this.preempt(request, byTokens);
      this.resetVictims.push(request.id);
      if (!byTokens) request.framesToDrop = request.numOutputPlaceholders;
      request.numOutputPlaceholders = 0;
    }
    if (resetRunning) this.previous.clear();
    if (resetRunning) this.blocks.fence.clear();
    const ok = this.blocks.pool.reset();
    this.blocks.tell();
    return { ok };
  }

  get numUnfinished(): number {
    const { running, waiting, skipped } = this.queues;
    if (this.paused === 'all') return 0;
    const numWaiting = waiting.length + skipped.filter((request) => !isIdle(request)).length;
    return running.length + (this.paused === 'new' ? 0 : numWaiting);
  }

  get(id: string): ReferenceRequest | undefined {
    const request = this.requests.get(id);
    return request?.isFinished ? undefined : request;
  }

  inspect() {
    const ids = (requests: ReferenceRequest[]) => requests.map((request) => request.id);
    const { running, waiting, skipped } = this.queues;
    return {
      running: ids(running),
      waiting: ids(waiting),
      skipped: ids(skipped),
      requests: [...this.requests.values()].filter((request) => !request.isFinished),
      draining: [...this.requests.values()].filter((request) => request.isFinished),
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

  /**
   * vLLM's _preempt_request.
   * @param drops outputs in flight are dropped, whatever the rules say of a preemption; outputs
   * that are dropped already stay dropped, with all behind them
   */
  protected preempt(request: ReferenceRequest, drops = false): void {
    const { preemptedOutputs } = this.rules;
    if (preemptedOutputs !== 'deliver' || drops) {
      const stays = request.dropsStale && request.numStale > 0;
      request.dropsStale = drops || stays || preemptedOutputs === 'discard';
      request.numStale = request.numInFlight;
      request.numOutputPlaceholders = 0;
    }
    this.#giveUp(request);
    this.prefills.delete(request);
    request.status = 'PREEMPTED';
    request.wasPreempted = true;
    request.numComputedTokens = 0;
    request.drafts = [];
    this.queues.requeue(request);
  }

  /** Ends a request, and gives its blocks back unless they are still read or written. */
  protected finish(request: ReferenceRequest, status: string): void {
    const isWritten = request.status === 'WAITING_FOR_REMOTE_KVS' && !this.received.has(request);
    this.received.delete(request);
    this.prefills.delete(request);
    this.failedGrammars.delete(request);
    request.status = status;
    const { connector } = this.options;
    // The connector gets only blocks that the group still needs.
    const { numComputedTokens: computed } = request;
    if (connector) this.blocks.drop(request, computed);
    const blocks = request.rows.map((row, group) => {
      const covered = Math.ceil(computed / this.blocks.groups[group].blockSize);
      const isClipped = this.rules.clipsHandOver && this.blocks.groups[group].spec.type !== 'mamba';
      return Int32Array.from(isClipped ? row.blocks.slice(0, covered) : row.blocks);
    });
    const answer = connector?.requestFinished(request, REASONS[status], { blocks });
    this.finished.push(request.id);
    request.finishedParams = answer?.transferParams ?? null;
    if (!isWritten && !answer?.delayFree) this.#forget(request);
  }

  /** vLLM's _update_from_kv_xfer_finished. */
  protected transfer(output: ConnectorOutput): void {
    this.options.connector?.updateConnectorOutput(output);
    for (const report of output.finishedReceiving ?? []) {
      const request = this.#reported(report);
      if (request.status === 'WAITING_FOR_REMOTE_KVS') this.received.add(request);
      else this.#release(request);
    }
    for (const report of output.finishedSending ?? []) this.#release(this.#reported(report));
  }

  #reported({ handle }: TransferReport): ReferenceRequest {
    const request = [...this.requests.values()].find((known) => known.handle === handle);
    if (!request) throw new Error(`no known request has the handle ${handle}`);
    return request;
  }

  #release(request: ReferenceRequest): void {
    if (!request.isFinished)
      throw new Error(`${request.id} is ${request.status}, so nobody may free its blocks`);
    this.#forget(request);
  }

  /** Gives the blocks of a request back, with the rule `fenceFrees` behind the batch in flight that may write them. */
  #giveUp(request: ReferenceRequest): void {
    const isWritten = this.rules.fenceFrees && this.options.connector !== undefined;
    this.blocks.release(request, isWritten && this.blocks.fence.isInFlight(request.lastBatch));
  }

  #forget(request: ReferenceRequest): void {
    this.#giveUp(request);
    this.requests.delete(request.id);
    request.isForgotten = true;
  }

  /** A load has ended: its good blocks are published (vLLM _update_waiting_for_remote_kv). */
  protected receive(request: ReferenceRequest): void {
    this.received.delete(request);
    if (request.numComputedTokens === 0) this.blocks.release(request);
    this.blocks.publish(request, request.numComputedTokens);
    if (request.numComputedTokens === request.numTokens) request.numComputedTokens--;
    request.status = request.wasPreempted ? 'PREEMPTED' : 'WAITING';
  }
}
