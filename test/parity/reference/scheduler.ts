import type {
  FlatTokens,
  Subject,
  SubjectCore,
  SubjectInput,
  SubjectOptions,
  SubjectOutputs,
} from '../subject.js';
import { ReferenceBlocks } from './blocks.js';
import { type Entry, ReferencePlan } from './plan.js';
import { ReferenceQueues } from './queues.js';
import type { ReferenceRequest } from './request.js';

const REASONS = { stop: 1, length: 2 } as const;
const STATUSES = { stop: 'FINISHED_STOPPED', length: 'FINISHED_LENGTH_CAPPED' } as const;

/**
 * vLLM's Scheduler and AsyncScheduler in their plainest form: no native code, no reuse, no thought of speed. It is an
 * oracle of its own for what no recorded trace covers, and itself held to the traces.
 */
export class ReferenceScheduler implements Subject<ReferencePlan> {
  readonly #options: SubjectOptions;
  readonly #blocks: ReferenceBlocks;
  /** Every known request, in the order of add. */
  readonly #requests = new Map<string, ReferenceRequest>();
  readonly #queues: ReferenceQueues;
  #finished: string[] = [];
  #previous = new Set<string>();
  #paused: 'no' | 'new' | 'all' = 'no';

  constructor(options: SubjectOptions) {
    this.#options = options;
    this.#blocks = new ReferenceBlocks(options);
    this.#queues = new ReferenceQueues(options.policy);
  }

  add(input: SubjectInput): void {
    if (this.#requests.has(input.id)) throw new Error(`request ${input.id} is known already`);
    const request = this.#blocks.open(input);
    this.#requests.set(input.id, request);
    this.#queues.push(request);
  }

  abort(ids: string | readonly string[]): string[] {
    const requests = [...new Set(typeof ids === 'string' ? [ids] : ids)].flatMap(
      (id) => this.#requests.get(id) ?? [],
    );
    for (const request of requests) this.#finish(request, 'FINISHED_ABORTED');
    this.#queues.sweep();
    return requests.map((request) => request.id);
  }

  abortAll(): string[] {
    return this.abort([...this.#requests.keys()]);
  }

  pause(mode: 'new' | 'all'): void {
    this.#paused = mode;
  }

  resume(): void {
    this.#paused = 'no';
  }

  resetPrefixCache({ resetRunning }: { resetRunning: boolean }): { ok: boolean } {
    while (resetRunning && this.#queues.running.length > 0) {
      const request = this.#queues.running[this.#queues.running.length - 1];
      this.#preempt(request);
      request.framesToDrop = request.numOutputPlaceholders;
      request.numOutputPlaceholders = 0;
    }
    if (resetRunning) this.#previous.clear();
    return { ok: this.#blocks.pool.reset() };
  }

  schedule(): ReferencePlan {
    const entries: Entry[] = [];
    const preempted: string[] = [];
    const budget = this.#paused === 'all' ? 0 : this.#options.maxNumBatchedTokens;
    const left = this.#scheduleRunning(entries, preempted, budget);
    if (preempted.length === 0 && this.#paused === 'no') this.#admit(entries, left);
    const common = this.#blocks.commonPrefix(this.#queues.running[0]);
    this.#previous = new Set(entries.map((entry) => entry.request.id));
    const plan = new ReferencePlan(
      entries,
      this.#options.numSpeculativeTokens,
      preempted,
      this.#finished,
      common,
    );
    this.#finished = [];
    for (const entry of entries) this.#advance(entry);
    return plan;
  }

  update(plan: ReferencePlan, result: FlatTokens): SubjectOutputs {
    const rows: { request: ReferenceRequest; tokens: number[]; reason: number }[] = [];
    let offset = 0;
    for (const [i, { request, drafts }] of plan.entries.entries()) {
      const sampled = Array.from(result.tokens.subarray(offset, offset + result.counts[i]));
      offset += result.counts[i];
      if (request.isFinished || sampled.length === 0) continue;
      const row = this.#accept(request, drafts.length, sampled);
      if (row) rows.push(row);
    }
    this.#queues.sweep();
    let at = 0;
    return {
      length: rows.length,
      requests: rows.map((row) => row.request),
      tokens: Int32Array.from(rows.flatMap((row) => row.tokens)),
      tokenOffsets: Int32Array.from(rows, (row) => {
        at += row.tokens.length;
        return at - row.tokens.length;
      }),
      tokenCounts: Int32Array.from(rows, (row) => row.tokens.length),
      finishReasons: Uint8Array.from(rows, (row) => row.reason),
    };
  }

  updateDraftTokens(plan: ReferencePlan, drafts: FlatTokens): void {
    let offset = 0;
    for (const [i, { request }] of plan.entries.entries()) {
      const tokens = Array.from(drafts.tokens.subarray(offset, offset + drafts.counts[i]));
      offset += drafts.counts[i];
      if (!request.isFinished) request.drafts = request.isPrefillChunk ? [] : tokens;
    }
  }

  get numUnfinished(): number {
    const { running, waiting } = this.#queues;
    if (this.#paused === 'all') return 0;
    return running.length + (this.#paused === 'new' ? 0 : waiting.length);
  }

  get(id: string): ReferenceRequest | undefined {
    return this.#requests.get(id);
  }

  inspect(): { running: string[]; waiting: string[]; skipped: string[]; requests: ReferenceRequest[] } {
    const ids = (requests: ReferenceRequest[]) => requests.map((request) => request.id);
    const { running, waiting } = this.#queues;
    return {
      running: ids(running),
      waiting: ids(waiting),
      skipped: [],
      requests: [...this.#requests.values()],
    };
  }

  get core(): SubjectCore {
    return this.#blocks.core;
  }

  verify(): void {
    this.#blocks.verify();
  }

  dispose(): void {
    this.#requests.clear();
  }

  /** Returns the budget that is left. */
  #scheduleRunning(entries: Entry[], preempted: string[], tokenBudget: number): number {
    let budget = tokenBudget;
    const { running } = this.#queues;
    for (let i = 0; i < running.length && budget > 0; i++) {
      const request = running[i];
      const tokens = this.#demand(request, budget);
      if (tokens === 0) continue;
      const held = request.blocks.length;
      while (!this.#blocks.allocate(request, tokens, [], this.#lookahead, false)) {
        const victim = this.#queues.victim();
        const scheduled = entries.findIndex((entry) => entry.request === victim);
        if (scheduled >= 0) {
          budget += entries.splice(scheduled, 1)[0].tokens;
          i--;
        }
        this.#preempt(victim);
        preempted.push(victim.id);
        if (victim === request) return budget;
      }
      entries.push(this.#entry(request, 0, tokens, request.blocks.length - held));
      budget -= tokens;
    }
    return budget;
  }

  /** Tokens that a running request gets; 0 = it is passed over. */
  #demand(request: ReferenceRequest, budget: number): number {
    const { longPrefillTokenThreshold: threshold, maxModelLen } = this.#options;
    const { numComputedTokens: computed, numOutputPlaceholders: placeholders } = request;
    const { maxTokens } = request.input;
    if (placeholders > 0 && computed + 2 - placeholders >= request.numPromptTokens + maxTokens) return 0;
    const wanted = request.numTokens + request.drafts.length + placeholders - computed;
    return Math.min(wanted, threshold || wanted, budget, maxModelLen - 1 - computed);
  }

  get #lookahead(): number {
    return this.#options.speculativeMethod === 'ngram' ? 0 : this.#options.numSpeculativeTokens;
  }

  #preempt(request: ReferenceRequest): void {
    this.#blocks.release(request);
    request.status = 'PREEMPTED';
    request.numComputedTokens = 0;
    request.drafts = [];
    this.#queues.requeue(request);
  }

  #admit(entries: Entry[], tokenBudget: number): void {
    const {
      maxNumSeqs,
      longPrefillTokenThreshold: threshold,
      enableChunkedPrefill,
      reserveFullIsl,
    } = this.#options;
    let budget = tokenBudget;
    const { running, waiting } = this.#queues;
    while (waiting.length > 0 && budget > 0 && running.length < maxNumSeqs) {
      const request = waiting[0];
      const hits = this.#blocks.match(request);
      const computed = hits.length * this.#options.blockSize;
      const wanted = Math.min(request.numTokens - computed, threshold || request.numTokens);
      if (!enableChunkedPrefill && wanted > budget) return;
      const tokens = Math.min(wanted, budget);
      if (!this.#blocks.allocate(request, tokens, hits, 0, reserveFullIsl)) return;
      waiting.shift();
      running.push(request);
      const kind = request.status === 'PREEMPTED' ? 2 : 1;
      request.status = 'RUNNING';
      request.numComputedTokens = computed;
      entries.push(this.#entry(request, kind, tokens, request.blocks.length));
      budget -= tokens;
    }
  }

  #entry(request: ReferenceRequest, kind: 0 | 1 | 2, tokens: number, newBlocks: number): Entry {
    const { id, numComputedTokens: computed, numOutputPlaceholders: placeholders } = request;
    const numDrafts = Math.max(tokens + computed - request.numTokens - placeholders, 0);
    const drafts = kind === 0 ? request.drafts.slice(0, numDrafts) : [];
    if (kind === 0) request.drafts = [];
    const outputs = request.numOutputTokens + placeholders;
    const needsAllTokens = !this.#previous.has(id);
    return { request, kind, tokens, computed, drafts, newBlocks, outputs, needsAllTokens };
  }

  /** Counts what was scheduled as computed, before it ran. */
  #advance({ request, tokens, drafts }: Entry): void {
    request.numComputedTokens += tokens;
    request.isPrefillChunk = request.numComputedTokens < request.numTokens + request.numOutputPlaceholders;
    if (this.#options.pipelineDepth === 1 || request.isPrefillChunk) return;
    request.numOutputPlaceholders += 1 + drafts.length;
    request.drafts = new Array<number>(this.#options.numSpeculativeTokens).fill(-1);
  }

  #accept(request: ReferenceRequest, numDrafts: number, sampled: number[]) {
    if (numDrafts > 0) {
      const rejected = numDrafts - (sampled.length - 1);
      if (request.numComputedTokens > 0) request.numComputedTokens -= rejected;
      if (request.numOutputPlaceholders > 0) request.numOutputPlaceholders -= rejected;
    }
    if (request.framesToDrop > 0) {
      request.framesToDrop--;
      return null;
    }
    const wasRunning = request.status === 'RUNNING';
    const tokens: number[] = [];
    let reason: 'stop' | 'length' | null = null;
    for (const token of sampled) {
      tokens.push(token);
      reason = request.append(token, this.#options.maxModelLen);
      if (reason) break;
    }
    if (this.#options.pipelineDepth > 1) {
      request.numOutputPlaceholders -= tokens.length;
      if (wasRunning)
        this.#blocks.publish(request, request.numComputedTokens - request.numOutputPlaceholders);
    }
    if (reason) this.#finish(request, STATUSES[reason]);
    return { request, tokens, reason: reason ? REASONS[reason] : 0 };
  }

  #finish(request: ReferenceRequest, status: string): void {
    request.status = status;
    this.#blocks.release(request);
    this.#requests.delete(request.id);
    this.#finished.push(request.id);
  }
}
