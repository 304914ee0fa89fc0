// Drives a reference executor by a scheduler; the unpaged computation.
import type { DeviceTables } from '../../../src/core/device-tables.js';
import type { StepTables } from '../../../src/core/tables.js';
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import type { TablesOnDevice } from '../../../src/executors/reference/device-runner.js';
import type { ReferenceExecutorOptions } from '../../../src/executors/reference/options.js';
import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import type { Plan, RequestInput, Scheduler, SchedulerOptions } from '../../../src/index.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import { PinnedTables } from '../../cuda/pinned-tables.js';
import { makeScheduler } from '../../support/driver.js';
import { type Model, unpagedText, wordy } from '../../support/unpaged-text.js';

export { type Model, unpagedText, wordy };

const NO_RESULT = { tokens: new Int32Array(0), counts: new Int32Array(0) };

/** A plan with its tables, submitted and not updated yet. */
export interface Submitted {
  plan: Plan;
  tables: StepTables;
  answer: Promise<ExecutorResult>;
}

/** The memory in which a GPU reads the tables. */
export type TablesIn = 'pinned' | 'device';

/** Called between a gather and the execution of its plan. */
export type Tamper = (plan: Plan, tables: StepTables) => void;

/**
 * A scheduler over a reference executor, stepped by hand. Steps are computed one after the other
 * when `computeAll` is called, or at the latest when their answer is needed. They are in flight
 * until then.
 *
 * On a GPU (`device`) the GPU computes them in its own time. With 'pinned' it reads the host's
 * tables, as they are after the tamper, in pinned memory. With 'device' the core has a mirror on
 * the GPU, and gathers there too.
 */
export class ReferenceDriver {
  readonly scheduler: Scheduler;
  readonly executor: ReferenceExecutor;
  readonly inputs = new Map<number, RequestInput>();
  readonly texts = new Map<number, number[]>();
  readonly ends = new Map<number, string>();
  readonly inFlight: Submitted[] = [];
  readonly #model: Model;
  readonly #waiting: (() => void)[] = [];
  /** On a GPU: where it reads the tables. */
  #pinned: PinnedTables | null = null;
  tamper: Tamper | null = null;
  /** Called around a gather on the GPU. */
  beforeGather: ((plan: Plan) => void) | null = null;
  afterGather: ((plan: Plan, tables: DeviceTables) => void) | null = null;
  readonly #tablesIn: TablesIn;

  constructor(
    options: Partial<WithRules<SchedulerOptions>> = {},
    reference: Partial<ReferenceExecutorOptions> = {},
    tables: TablesIn = 'pinned',
  ) {
    const defer = (computeOldest: () => void) => this.#waiting.push(computeOldest);
    const where = reference.device === undefined ? { defer } : {};
    this.#tablesIn = tables;
    // Its clock ticks: with equal arrival times two requests of one priority can preempt each other for ever.
    this.scheduler = makeScheduler(options);
    this.executor = new ReferenceExecutor({ ...this.scheduler.config, ...where, ...reference });
    if (tables === 'device') {
      this.scheduler.dispose();
      const { device, stream } = this.executor;
      this.scheduler = makeScheduler({ ...options, backend: 'cuda', device, stream });
    }
    const { seed = 0, eosTokenId } = reference;
    this.#model = eosTokenId === undefined ? { seed } : { seed, eosTokenId };
  }

  add(input: Partial<RequestInput> & { id: string }): number {
    const full: RequestInput = { prompt: wordy(10, 1), maxTokens: 8, ...input };
    const handle = this.scheduler.add(full);
    this.inputs.set(handle, full);
    this.texts.set(handle, []);
    return handle;
  }

  /** The text that a request must have got, as far as it has got one. */
  expectedText(handle: number): number[] {
    const { prompt } = this.inputs.get(handle) as RequestInput;
    return unpagedText(Int32Array.from(prompt), (this.texts.get(handle) as number[]).length, this.#model);
  }

  /** Plans a step and submits it unless there is nothing to compute. */
  schedule(): Plan {
    const plan = this.scheduler.schedule();
    if (plan.totalTokens === 0) return plan;
    const tables = this.scheduler.core.gather(plan.frame, plan.numRequests);
    this.tamper?.(plan, tables);
    const answer = Promise.resolve(this.executor.execute(plan, this.#whereItIsRead(plan, tables)));
    this.inFlight.push({ plan, tables, answer });
    return plan;
  }

  /** Lets every submitted step be computed. */
  computeAll(): void {
    for (const compute of this.#waiting.splice(0)) compute();
  }

  /** Delivers the oldest result. */
  async update(): Promise<void> {
    const [{ plan, answer }] = this.inFlight;
    if (this.#waiting.length > this.inFlight.length - 1) this.#waiting.shift()?.();
    const result = await answer;
    this.inFlight.shift();
    const { tokens, counts, errors, drafts } = result;
    this.#deliver(
      this.scheduler.update(plan, errors === undefined ? { tokens, counts } : { tokens, counts, errors }),
    );
    const { numSpeculativeTokens, pipelineDepth } = this.scheduler.config;
    if (numSpeculativeTokens > 0 && pipelineDepth === 1 && drafts !== undefined) {
      this.scheduler.updateDraftTokens(plan, drafts);
    }
  }

  /** Fills the pipeline and delivers the oldest result. */
  async step(): Promise<void> {
    let plan: Plan | null = null;
    while (this.inFlight.length < this.scheduler.config.pipelineDepth) {
      plan = this.schedule();
      if (plan.totalTokens === 0) break;
    }
    if (this.inFlight.length > 0) await this.update();
    else if (plan !== null) this.#deliver(this.scheduler.update(plan, NO_RESULT));
  }

  async run(maxSteps = 2000): Promise<void> {
    for (let i = 0; this.scheduler.hasWork(); i++) {
      if (i === maxSteps) throw new Error(`still at work: ${JSON.stringify(this.scheduler.stats())}`);
      await this.step();
    }
  }

  dispose(): void {
    this.scheduler.dispose();
    this.executor.dispose();
    this.#pinned?.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #whereItIsRead(plan: Plan, tables: StepTables): StepTables | TablesOnDevice {
    if (this.executor.device === 'cpu') return tables;
    if (this.#tablesIn === 'device') {
      this.beforeGather?.(plan);
      const gathered = this.scheduler.core.gatherOnDevice(plan.frame, plan.numRequests);
      this.afterGather?.(plan, gathered);
      return gathered;
    }
    this.#pinned ??= new PinnedTables(tables.buffer.byteLength, this.scheduler.config.pipelineDepth + 1);
    return this.#pinned.copy(tables);
  }

  #deliver(outputs: ReturnType<Scheduler['update']>): void {
    for (let i = 0; i < outputs.length; i++) {
      const { handle } = outputs.requests[i];
      const from = outputs.tokenOffsets[i];
      this.texts.get(handle)?.push(...outputs.tokens.subarray(from, from + outputs.tokenCounts[i]));
      const reason = outputs.finishReason(i);
      if (reason !== null) this.ends.set(handle, reason);
    }
  }
}
