// An executor over paged KV, written from the documentation alone.
import {
  computedInStep,
  type Executor,
  type ExecutorLimits,
  type ExecutorPlan,
  type ExecutorRequest,
  type ExecutorResult,
  InputBatch,
  type StepInputs,
  type StepTables,
} from 'blockstep';
import { attend, kvOf, mix, rootOf, sampleAt, seedOf } from './model.js';
import { PagedKv } from './paged-kv.js';
import { ResultBuilder } from './result-builder.js';

/** Where a step fails: before it was prepared, before anything was written, or when all was sampled. */
export type StepFault = 'unprepared' | 'unwritten' | 'sampled';
/** How a row fails: it wrote nothing, or it wrote all; and it answers tokens nevertheless, or none. */
export interface RowFault {
  readonly writes: boolean;
  readonly answers: boolean;
}

/**
 * Blocks that are lost with a step: before it is computed, so that its tokens are worthless, or
 * behind it.
 */
export interface Loss {
  readonly blocks: readonly number[];
  readonly early: boolean;
}

/** Failures on purpose. */
export interface FaultSource {
  /** Whether `execute` throws before it takes the step. */
  submit(plan: ExecutorPlan): boolean;
  step(plan: ExecutorPlan): StepFault | null;
  row(plan: ExecutorPlan, entry: number): RowFault | null;
  loss(plan: ExecutorPlan, tables: StepTables): Loss | null;
}

export interface PagedExecutorOptions {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly watchesBlocks?: boolean;
  /** How many of the drafts are wrong, 0 to 1. */
  readonly draftErrorRate?: number;
  /** Whether a step is answered by a promise, which `computeNext` resolves. Default: never. */
  readonly deferStep?: () => boolean;
  /** Whether the answer of a computed step is kept back until `answerHeld`, so that later ones may come before it. */
  readonly holdAnswer?: () => boolean;
  readonly faults?: FaultSource;
}

/** The state of a request, by handle, until it has ended. */
interface RequestState {
  readonly root: number;
  draftState: number;
}

interface Job {
  readonly plan: ExecutorPlan;
  readonly tables: StepTables;
  readonly states: readonly RequestState[];
  readonly seeds: readonly number[];
}

interface QueuedJob extends Job {
  readonly resolve: (result: ExecutorResult) => void;
  readonly reject: (error: unknown) => void;
  /** Requests that ended when this step was already submitted: the batch forgets them behind it. */
  readonly endedBehind: number[];
}

export class PagedExecutor implements Executor {
  readonly limits: ExecutorLimits = { maxNumSeqs: 32, maxNumBatchedTokens: 256, maxModelLen: 512 };
  readonly watchesBlocks: boolean;
  readonly #options: PagedExecutorOptions;
  readonly #kv: PagedKv;
  readonly #batch: InputBatch;
  readonly #states = new Map<number, RequestState>();
  readonly #queue: QueuedJob[] = [];
  readonly #held: (() => void)[] = [];
  /** How often each handle was reported as finished. */
  readonly finished = new Map<number, number>();
  /** Entries that hit a block which an entry behind them in the same plan computes. */
  providersBehind = 0;
  draftsSeen = 0;
  draftsAccepted = 0;
  disposals = 0;

  constructor(options: PagedExecutorOptions) {
    this.#options = options;
    this.watchesBlocks = options.watchesBlocks ?? false;
    this.#kv = new PagedKv(options.numBlocks, options.blockSize);
    this.#batch = new InputBatch({ blockSize: options.blockSize });
  }

  get unwrittenReads(): number {
    return this.#kv.unwrittenReads;
  }
  /** Steps that wait for `computeNext`. */
  get numQueued(): number {
    return this.#queue.length;
  }
  get numHeld(): number {
    return this.#held.length;
  }
  get numStates(): number {
    return this.#states.size;
  }
  get numBatchRequests(): number {
    return this.#batch.numRequests;
  }

  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult | Promise<ExecutorResult> {
    if (tables === null) throw new Error('this executor reads the tables');
    if (this.#options.faults?.submit(plan)) throw new Error('refused on purpose');
    // States are looked up here and not when the step is computed. By then a request may have
    // ended, and a state that is made again would stay for ever. The seed is that of the chunk for
    // which the step was planned.
    const requests = plan.requests.slice(0, plan.numRequests);
    const job = {
      plan,
      tables,
      states: requests.map((r) => this.#stateOf(r)),
      seeds: requests.map((r) => seedOf(r.params)),
    };
    // A step is answered at once only when none waits before it: steps are computed in order.
    if (this.#queue.length === 0 && !(this.#options.deferStep?.() ?? false)) return this.#compute(job);
    return new Promise((resolve, reject) => this.#queue.push({ ...job, resolve, reject, endedBehind: [] }));
  }

  /** Computes the oldest step that waits, and answers it. */
  computeNext(): void {
    const job = this.#queue.shift();
    if (job === undefined) return;
    let answer: () => void;
    try {
      const result = this.#compute(job);
      answer = () => job.resolve(result);
    } catch (error) {
      answer = () => job.reject(error);
    }
    if (this.#options.holdAnswer?.() ?? false) this.#held.push(answer);
    else answer();
    this.#batch.forget(job.endedBehind);
  }

  /** Gives the answers that were kept back. */
  answerHeld(): void {
    for (const answer of this.#held.splice(0)) answer();
  }

  requestsFinished(handles: readonly number[]): void {
    for (const handle of handles) {
      this.finished.set(handle, (this.finished.get(handle) ?? 0) + 1);
      this.#states.delete(handle);
    }
    // Steps that wait may still compute these requests, and preparing one makes the forgotten data
    // again.
    const last = this.#queue.at(-1);
    if (last === undefined) this.#batch.forget(handles);
    else last.endedBehind.push(...handles);
  }

  dispose(): void {
    this.disposals++;
    this.#queue.length = 0;
  }

  #stateOf(request: ExecutorRequest): RequestState {
    let state = this.#states.get(request.handle);
    if (state === undefined) {
      state = { root: rootOf(request.cacheSalt, request.adapter), draftState: request.handle };
      this.#states.set(request.handle, state);
    }
    return state;
  }

  #compute(job: Job): ExecutorResult {
    const { plan, tables } = job;
    const { faults } = this.#options;
    if (this.watchesBlocks) for (const block of plan.takenBlocks) this.#kv.take(block);
    const fault = faults?.step(plan) ?? null;
    if (fault === 'unprepared') throw new Error('failed on purpose, unprepared');
    const loss = faults?.loss(plan, tables) ?? null;
    if (loss?.early) this.#lose(loss);
    const inputs = this.#batch.prepare(plan, tables);
    if (fault === 'unwritten') throw new Error('failed on purpose, unwritten');

    const rowFaults = job.states.map((_, i) => faults?.row(plan, i) ?? null);
    for (const i of this.#order(plan, tables))
      if (rowFaults[i]?.writes !== false) this.#write(job, inputs, i);

    const result = new ResultBuilder(inputs.numRequests, plan.maxDrafts > 0);
    for (let i = 0; i < inputs.numRequests; i++) {
      const rowFault = rowFaults[i] ?? null;
      if (rowFault !== null) result.fail(i);
      if (rowFault === null || rowFault.answers) this.#sample(job, inputs, i, result);
    }
    if (fault === 'sampled') throw new Error('failed on purpose, sampled');
    if (loss !== null) {
      this.#lose(loss);
      result.lose(loss.blocks);
    }
    const answer = result.build();
    this.#batch.sampled(plan, answer);
    return answer;
  }

  #lose({ blocks }: Loss): void {
    for (const block of blocks) this.#kv.take(block);
  }

  /**
   * Entries in an order in which the entry that computes a block comes before the entries that hit
   * it in the same step.
   */
  #order(plan: ExecutorPlan, tables: StepTables): readonly number[] {
    const order: number[] = [];
    const hits = computedInStep(plan, tables, this.#options.blockSize);
    for (const { entry, provider } of hits) if (provider > entry) this.providersBehind++;
    const done = new Set<number>();
    const visit = (i: number): void => {
      if (done.has(i)) return;
      done.add(i);
      for (const { entry, provider } of hits) if (entry === i) visit(provider);
      order.push(i);
    };
    for (let i = 0; i < plan.numRequests; i++) visit(i);
    return order;
  }

  /**
   * Writes the KV of the tokens of an entry, each from the KV of all positions before it, which is
   * read back.
   */
  #write({ tables, states }: Job, inputs: StepInputs, entry: number): void {
    const first = inputs.queryStart[entry] ?? 0;
    const end = inputs.queryStart[entry + 1] ?? 0;
    if (first === end) return;
    let at = 0;
    let attended = states[entry]?.root ?? 0;
    for (let t = first; t < end; t++) {
      const position = inputs.positions[t] ?? -1;
      attended = this.#kv.attend(tables, entry, attended, at, position);
      at = position;
      this.#kv.write(inputs.slots[t] ?? -1, kvOf(attended, inputs.tokens[t] ?? -1));
    }
  }

  /** Samples behind the last token that is no draft, and behind each draft that the sample before it equals. */
  #sample(
    { plan, tables, states, seeds }: Job,
    inputs: StepInputs,
    entry: number,
    result: ResultBuilder,
  ): void {
    const end = inputs.queryStart[entry + 1] ?? 0;
    // An entry without tokens hangs on a step that failed: nothing is to be answered for it.
    if (inputs.samples[entry] === 0 || inputs.queryStart[entry] === end) return;
    const state = states[entry];
    const seed = seeds[entry] ?? 0;
    if (state === undefined) return;
    let t = end - 1 - (inputs.numDrafts[entry] ?? 0);
    this.draftsSeen += end - 1 - t;
    let length = (inputs.positions[t] ?? 0) + 1;
    // All is read again behind all writes of the step, so that a foreign write shows.
    let attended = this.#kv.attend(tables, entry, state.root, 0, length);
    let sample = sampleAt(attended, seed);
    result.token(entry, sample);
    while (t + 1 < end && inputs.tokens[t + 1] === sample.token) {
      t++;
      this.draftsAccepted++;
      attended = this.#kv.attend(tables, entry, attended, length, length + 1);
      length++;
      sample = sampleAt(attended, seed);
      result.token(entry, sample);
    }
    this.#draft(state, attended, sample.token, seed, plan.maxDrafts, entry, result);
  }

  /** Drafts what follows: the model itself run ahead without memory, and now and then a wrong token or fewer of them. */
  #draft(
    state: RequestState,
    from: number,
    last: number,
    seed: number,
    most: number,
    entry: number,
    result: ResultBuilder,
  ): void {
    let attended = from;
    let token = last;
    for (let j = 0; j < most; j++) {
      state.draftState = mix(state.draftState, j);
      if ((state.draftState >>> 8) % 16 === 0) return;
      attended = attend(attended, kvOf(attended, token));
      token = sampleAt(attended, seed).token;
      if ((state.draftState >>> 0) / 2 ** 32 < (this.#options.draftErrorRate ?? 0.25)) token++;
      result.draft(entry, token);
    }
  }
}
