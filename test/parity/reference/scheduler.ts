// vLLM's `Scheduler` and `AsyncScheduler`.
import type { ConnectorOutput } from '../../../src/scheduler/connector/connector.js';
import type { FlatTokens, Subject, SubjectOutputs } from '../subject.js';
import { allowed, replaceDrafts } from './grammars.js';
import { invalidate } from './loads.js';
import { type Entry, ReferencePlan } from './plan.js';
import type { ReferenceRequest } from './request.js';
import { Budget } from './rules/budget.js';
import { isIdle, ReferenceState } from './state.js';

/** A row of an update. */
interface Row {
  request: ReferenceRequest;
  tokens: number[];
  reason: number;
}

const REASONS = { stop: 1, length: 2, error: 4 } as const;
const STATUSES = {
  stop: 'FINISHED_STOPPED',
  length: 'FINISHED_LENGTH_CAPPED',
  error: 'FINISHED_ERROR',
} as const;

/** Places of a request in each group. */
function lengths({ rows }: ReferenceRequest): number[] {
  return rows.map(({ blocks }) => blocks.length);
}

/**
 * vLLM's Scheduler and AsyncScheduler in their plainest form: no native code, no reuse, no thought
 * of speed. It is an independent oracle for cases that no recorded trace covers, and is itself
 * compared with the traces.
 */
export class ReferenceScheduler extends ReferenceState implements Subject<ReferencePlan> {
  /** Rows of requests that failed outside of an update. */
  #failures: Row[] = [];

  schedule(): ReferencePlan {
    this.blocks.begin();
    const entries: Entry[] = [];
    const preempted: string[] = [];
    const { maxNumBatchedTokens: most } = this.options;
    const budget = new Budget(this.paused === 'all' ? 0 : most, most, this.rules.draftSlots);
    this.#scheduleRunning(entries, preempted, budget);
    if (preempted.length === 0 && this.paused === 'no') this.#admit(entries, budget);
    const common = this.blocks.commonPrefixes(this.queues.running[0]);
    this.previous = new Set(entries.map((entry) => entry.request.id));
    const plan = new ReferencePlan(
      entries,
      this.options.numSpeculativeTokens,
      this.rules.preemptedIds === 'sinceLast' ? [...this.resetVictims, ...preempted] : preempted,
      [...new Set(this.finished)],
      common,
      this.blocks.drainBlocksToZero(),
      this.blocks.drainCopies(),
    );
    this.finished = [];
    this.resetVictims = [];
    this.options.connector?.buildMetadata(plan);
    if (entries.length > 0) {
      const batch = this.blocks.fence.schedule();
      for (const { request } of entries) request.lastBatch = batch;
    }
    for (const entry of entries) {
      if (this.#advance(entry)) plan.pendingStructuredOutputTokens = true;
    }
    this.blocks.tell();
    return plan;
  }

  update(plan: ReferencePlan, result: FlatTokens, output: ConnectorOutput = {}): SubjectOutputs {
    if (plan.entries.length > 0) this.blocks.fence.process();
    const rows: Row[] = [];
    const failed = this.#fail(output, plan);
    const paused: ReferenceRequest[] = [];
    let offset = 0;
    for (const [i, { request, drafts, tokens }] of plan.entries.entries()) {
      const sampled = Array.from(result.tokens.subarray(offset, offset + result.counts[i]));
      offset += result.counts[i];
      const { isStale, isDropped } = this.#arrive(request, tokens);
      if (isDropped) continue;
      if (failed.includes(request) || request.isFinished || sampled.length === 0) continue;
      const row = this.#accept(request, drafts.length, sampled, isStale);
      if (row) rows.push(row);
      if (row && row.reason > 0 && !request.isFinished) paused.push(request);
    }
    rows.push(...this.#endFailed(failed));
    rows.push(...[...this.failedGrammars].map((request) => this.#endWithError(request)));
    this.queues.sweep();
    const { running } = this.queues;
    running.splice(0, running.length, ...running.filter((request) => !paused.includes(request)));
    this.transfer(output);
    this.blocks.tell();
    return this.#outputs(rows);
  }

  updateTransfers(output: ConnectorOutput): void {
    this.#failures.push(...this.#endFailed(this.#fail(output)));
    this.queues.sweep();
    this.transfer(output);
    this.blocks.tell();
  }

  /**
   * vLLM's _handle_invalid_blocks. Returns the requests whose tokens of this step are void. Under
   * the policy `fail` these requests end, otherwise they run and compute again.
   */
  #fail({ invalidBlocks = [] }: ConnectorOutput, plan?: ReferencePlan): ReferenceRequest[] {
    const invalid = new Set(invalidBlocks.map(({ block }) => block));
    const scheduled = (request: ReferenceRequest) =>
      plan?.entries.find((entry) => entry.request === request)?.tokens ?? 0;
    const damage = (requests: readonly ReferenceRequest[]) =>
      invalidate(requests, invalid, scheduled, this.blocks.groups, this.faults);
    const loads = damage(this.queues.skipped.filter(({ status }) => status === 'WAITING_FOR_REMOTE_KVS'));
    const runs = damage(this.queues.running);
    if (this.options.loadFailurePolicy === 'fail') {
      this.blocks.pool.unpublish(runs.blocks);
      return [...loads.affected, ...runs.affected];
    }
    // Requests that load go back to the start when their loads have ended: until then the loads
    // write blocks.
    for (const request of runs.restarted) {
      this.blocks.pool.unpublish(
        request.rows.flatMap(({ blocks }) => blocks).filter((block) => runs.blocks.has(block)),
      );
      this.blocks.release(request);
    }
    return runs.affected;
  }

  /**
   * Ends the requests whose loads failed, under the policy `fail`. Their rows come last, and have
   * no blocks.
   */
  #endFailed(failed: readonly ReferenceRequest[]): Row[] {
    if (this.options.loadFailurePolicy !== 'fail') return [];
    return failed.map((request) => this.#endWithError(request));
  }

  #endWithError(request: ReferenceRequest): Row {
    this.finish(request, STATUSES.error);
    request.finishedParams = null;
    request.stopReason = null;
    return { request, tokens: [], reason: REASONS.error };
  }

  /** Tokens of a batch are in flight no more. Whether its output is from before a preemption, and whether it is dropped. */
  #arrive(request: ReferenceRequest, tokens: number): { isStale: boolean; isDropped: boolean } {
    const isStale = request.numStale > 0;
    request.numInFlight -= tokens;
    request.numStale = Math.max(0, request.numStale - tokens);
    return { isStale, isDropped: isStale && request.dropsStale };
  }

  #outputs(present: Row[]): SubjectOutputs {
    const rows = [...this.#failures, ...present];
    this.#failures = [];
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
      if (request.isFinished) continue;
      request.drafts = request.isPrefillChunk ? [] : allowed(request.input.grammar, tokens);
    }
  }

  replaceDraftTokens(plan: ReferencePlan, drafts: FlatTokens): void {
    let end = 0;
    const rows = plan.entries.map((_, i) => {
      end += drafts.counts[i];
      return Array.from(drafts.tokens.subarray(end - drafts.counts[i], end));
    });
    replaceDrafts(plan, rows);
  }

  #scheduleRunning(entries: Entry[], preempted: string[], budget: Budget): void {
    const { running } = this.queues;
    for (let i = 0; i < running.length && budget.most > 0; i++) {
      const request = running[i];
      const tokens = this.#demand(request, budget.most);
      // Below 0 where drafts in flight reach the model's length: August passes over (#50062), May dies of it.
      if (tokens <= 0) continue;
      const held = lengths(request);
      while (!this.blocks.allocate(request, { tokens, lookahead: this.#lookahead })) {
        const victim = this.queues.victim();
        const scheduled = entries.findIndex((entry) => entry.request === victim);
        if (scheduled >= 0) budget.giveBack(entries.splice(scheduled, 1)[0].tokens);
        if (this.rules.movesCursor ? running.indexOf(victim) < i : scheduled >= 0) i--;
        this.preempt(victim);
        preempted.push(victim.id);
        if (victim === request) return;
      }
      const newBlocks = lengths(request).map((length, group) => length - held[group]);
      entries.push(this.#entry(request, 0, tokens, newBlocks));
      budget.spend(tokens);
    }
  }

  /** Tokens that a running request gets; 0 = it is passed over. */
  #demand(request: ReferenceRequest, budget: number): number {
    const { longPrefillTokenThreshold: threshold, maxModelLen } = this.options;
    const { numComputedTokens: computed, numOutputPlaceholders: placeholders } = request;
    const { maxTokens } = request.input;
    if (placeholders > 0 && computed + 2 - placeholders >= request.numPromptTokens + maxTokens) return 0;
    const wanted = request.numTokens + request.drafts.length + placeholders - computed;
    const tokens = Math.min(wanted, threshold || wanted, budget, maxModelLen - 1 - computed);
    return this.#alignChunk(request, computed, tokens);
  }

  /**
   * vLLM's _mamba_block_aligned_split: where only states at the ends of chunks are kept, chunks of
   * a prompt end where blocks do. One chunk ends with the prompt's last full block.
   */
  #alignChunk(request: ReferenceRequest, computed: number, tokens: number): number {
    const { chunkAlignment: size } = this.blocks;
    if (size === undefined || computed >= Math.max(request.numPromptTokens, request.numTokens - 1))
      return tokens;
    const full = request.numTokens - (request.numTokens % size);
    const last = this.#isEagle ? Math.max(full - size, 0) : full;
    if (this.rules.alignsEnds)
      return this.#alignEnd(request, computed, computed + tokens, last, size) - computed;
    if (computed + tokens < last) return tokens - (tokens % size);
    return computed < last ? Math.min(tokens, last - computed) : tokens;
  }

  /** The same of August: a chunk that stays in the prompt ends with a block, and where the prompt parts from another one. */
  #alignEnd(request: ReferenceRequest, start: number, until: number, last: number, size: number): number {
    const { maxNumBatchedTokens, longPrefillTokenThreshold } = this.options;
    const most = Math.min(maxNumBatchedTokens, longPrefillTokenThreshold || maxNumBatchedTokens);
    const aligned = until - (until % size);
    const stays = until < Math.max(request.numPromptTokens, request.numTokens - 1);
    const end = stays && (aligned > start || size <= most) ? aligned : until;
    const stops = [last, ...this.blocks.tailOf(request).filter((tail) => tail > last)];
    if (start % size > 0) stops.push(Math.ceil(start / size) * size);
    const { junction } = request;
    if (start < junction && junction < end) stops.push(junction - ((junction - start) % size));
    return Math.max(start, Math.min(end, ...stops.filter((stop) => stop > start)));
  }

  get #isEagle(): boolean {
    return this.options.speculativeMethod === 'eagle' && this.options.numSpeculativeTokens > 0;
  }

  get #lookahead(): number {
    return this.options.speculativeMethod === 'ngram' ? 0 : this.options.numSpeculativeTokens;
  }

  #admit(entries: Entry[], budget: Budget): void {
    const {
      maxNumSeqs,
      longPrefillTokenThreshold: threshold,
      enableChunkedPrefill,
      reserveFullIsl,
      maxModelLen,
      numBlocks,
      connector,
    } = this.options;
    const { rules, blocks } = this;
    const { running, skipped } = this.queues;
    const adapters = new Set(entries.flatMap(({ request }) => request.input.adapter ?? []));
    const passedOver: ReferenceRequest[] = [];
    while (budget.most > 0 && this.#seatsTaken() < maxNumSeqs) {
      const queue = this.queues.next();
      if (!queue) break;
      const request = queue[0];
      const awaits = () => request.numStale > 0 && !request.dropsStale;
      if (!this.#isReady(request) || awaits() || !this.#fits(request, adapters)) {
        if (!request.isFinished) passedOver.push(request);
        queue.shift();
        continue;
      }
      const isFresh = request.numComputedTokens === 0;
      const hits = isFresh ? this.blocks.match(request) : undefined;
      const local = hits?.tokens ?? request.numComputedTokens;
      const match = isFresh ? connector?.getNumNewMatchedTokens(request, local) : undefined;
      if (match?.numTokens === null) {
        passedOver.push(request);
        queue.shift();
        continue;
      }
      // vLLM of May dies of external tokens where chunks must be aligned; here they are refused.
      const takes = this.blocks.chunkAlignment === undefined || rules.stateLoads;
      const external = takes ? (match?.numTokens ?? 0) : 0;
      const loads = takes && match?.async === true;
      const computed = local + external;
      const missing = request.numTokens - computed;
      // With outputs in flight that a preemption did not void, the token is none to sample behind: no version of vLLM has that case.
      const samples = request.numOutputPlaceholders === 0;
      const padding = !loads && missing === 1 && samples ? this.#padding(entries) : 0;
      if (padding > 0 && (1 + padding > budget.most || computed + 1 + padding > maxModelLen)) break;
      const wanted = Math.min(missing + padding, threshold || missing + padding);
      if (!loads && !enableChunkedPrefill && wanted > budget.most) break;
      const tokens = loads ? 0 : this.#alignChunk(request, computed, Math.min(wanted, budget.most));
      if (!loads && tokens === 0) break;
      const looksAhead = rules.admissionLookahead ? !loads : !isFresh;
      const need = {
        tokens,
        external,
        lookahead: looksAhead ? this.#lookahead : 0,
        reserve: reserveFullIsl,
        publishes: !loads,
        spare: running.length > 0 ? Math.floor(rules.watermark * numBlocks) : 0,
        reserved: rules.loadReservation && loads ? this.#reserved() : 0,
      };
      if (!blocks.allocate(request, hits ? { ...need, hits } : need)) break;
      const rows = request.rows.map(({ blocks }) => Int32Array.from(blocks));
      connector?.updateStateAfterAlloc(request, rows, external);
      queue.shift();
      if (loads || computed + tokens < request.numTokens) this.prefills.add(request);
      if (loads) {
        blocks.noteLoaded(request, local, computed);
        request.status = 'WAITING_FOR_REMOTE_KVS';
        request.numComputedTokens = computed;
        passedOver.push(request);
        continue;
      }
      running.push(request);
      if (request.input.adapter) adapters.add(request.input.adapter);
      const kind = request.status === 'PREEMPTED' ? 2 : 1;
      request.status = 'RUNNING';
      request.numComputedTokens = computed;
      entries.push(this.#entry(request, kind, tokens, lengths(request), padding));
      budget.spend(tokens);
    }
    skipped.unshift(...passedOver);
    this.queues.sort();
  }

  /** Seats of `maxNumSeqs`; with `sessionSeats` those of sessions that wait for input too. */
  #seatsTaken(): number {
    const idle = [...this.requests.values()].filter(isIdle).length;
    return this.queues.running.length + (this.rules.sessionSeats === 'withIdle' ? idle : 0);
  }

  /** Drafts that nobody made for a request of one token, where all others decode. */
  #padding(entries: readonly Entry[]): number {
    const ran = entries.filter(({ kind }) => kind === 0);
    const decode = ran.length > 0 && ran.every(({ request }) => !request.isPrefillChunk);
    return this.rules.padDecode && decode ? this.options.numSpeculativeTokens : 0;
  }

  /** Blocks that the prompts under way still need; a request whose load failed wholly counts too, also if it is the one that asks. */
  #reserved(): number {
    return [...this.prefills].reduce((sum, request) => sum + this.blocks.missing(request), 0);
  }

  /** A blocked request need not stay blocked. */
  #isReady(request: ReferenceRequest): boolean {
    if (request.status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' && this.#hasGrammar(request))
      request.status = 'WAITING';
    if (this.received.has(request)) this.receive(request);
    return !request.isFinished && !request.status.startsWith('WAITING_FOR');
  }

  #hasGrammar(request: ReferenceRequest): boolean {
    try {
      return request.input.grammar?.ready() === true;
    } catch {
      // vLLM of May dies here. Where its rule holds the request ends at once.
      if (this.rules.grammarFailures === 'update') this.failedGrammars.add(request);
      else this.#failures.push(this.#endWithError(request));
      return false;
    }
  }

  /** Whether the request's adapter may run beside the others of this step. */
  #fits({ input: { adapter } }: ReferenceRequest, adapters: Set<string>): boolean {
    const { maxLoras } = this.options;
    return maxLoras === 0 || !adapter || adapters.has(adapter) || adapters.size < maxLoras;
  }

  /** @param padding drafts that nobody made */
  #entry(
    request: ReferenceRequest,
    kind: 0 | 1 | 2,
    tokens: number,
    newBlocks: number[],
    padding = 0,
  ): Entry {
    const { id, numComputedTokens: computed, numOutputPlaceholders: placeholders } = request;
    const numDrafts = Math.max(tokens + computed - request.numTokens - placeholders, 0);
    const padded = new Array<number>(padding).fill(-1);
    const drafts = kind === 0 ? request.drafts.slice(0, numDrafts) : padded;
    if (kind === 0) request.drafts = [];
    const outputs = request.numOutputTokens + placeholders;
    const needsAllTokens = !this.previous.has(id);
    return { request, kind, tokens, computed, drafts, newBlocks, outputs, needsAllTokens };
  }

  /** Counts what was scheduled as computed, before it ran. Whether a grammar must see tokens in flight first. */
  #advance({ request, tokens, drafts }: Entry): boolean {
    request.numComputedTokens += tokens;
    request.numInFlight += tokens;
    request.isPrefillChunk = request.numComputedTokens < request.numTokens + request.numOutputPlaceholders;
    if (!request.isPrefillChunk) this.prefills.delete(request);
    if (this.options.pipelineDepth === 1 || request.isPrefillChunk) return false;
    const isPending = request.input.grammar !== undefined && request.numOutputPlaceholders > 0;
    request.numOutputPlaceholders += 1 + drafts.length;
    request.drafts = new Array<number>(this.options.numSpeculativeTokens).fill(-1);
    return isPending;
  }

  /** @param isStale the request was preempted since: it has no computed tokens and no placeholders of this batch */
  #accept(request: ReferenceRequest, numDrafts: number, sampled: number[], isStale: boolean): Row | null {
    if (numDrafts > 0 && !isStale) {
      const rejected = numDrafts - (sampled.length - 1);
      if (request.numComputedTokens > 0) request.numComputedTokens -= rejected;
      if (request.numComputedTokens < 0) request.isOverdrawn = true;
      if (request.numOutputPlaceholders > 0) request.numOutputPlaceholders -= rejected;
    }
    if (request.framesToDrop > 0) {
      request.framesToDrop--;
      return null;
    }
    const wasRunning = request.status === 'RUNNING';
    const tokens: number[] = [];
    let reason: keyof typeof REASONS | null = null;
    for (const token of sampled) {
      tokens.push(token);
      reason = request.append(token, this.options.maxModelLen);
      if (reason) break;
    }
    this.blocks.name(request);
    if (this.options.pipelineDepth > 1) {
      if (!isStale) request.numOutputPlaceholders -= tokens.length;
      if (wasRunning) this.blocks.publish(request, request.numComputedTokens - request.numOutputPlaceholders);
    }
    const { grammar } = request.input;
    if (grammar && !grammar.acceptTokens(Int32Array.from(tokens))) {
      reason = 'error';
      request.isResumable = false;
    }
    if (reason) this.#stop(request, STATUSES[reason]);
    return { request, tokens, reason: reason ? REASONS[reason] : 0 };
  }

  /** Ends a request, or only its answer to a chunk (vLLM _handle_stopped_request). */
  #stop(request: ReferenceRequest, status: string): void {
    const next = request.isResumable ? request.inputs.shift() : null;
    if (next === null) {
      this.finish(request, status);
      return;
    }
    if (next) {
      request.begin(next);
      this.blocks.name(request);
    } else request.status = 'WAITING_FOR_STREAMING_REQ';
    this.queues.push(request);
  }
}
