import { BlockstepError } from '../../src/base/errors.js';
import type { ConnectorOutput } from '../../src/scheduler/connector/connector.js';
import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import { carryRules, type WithRules } from '../../src/scheduler/options/single-rules.js';
import { EntryKind, type Plan } from '../../src/scheduler/plan/plan.js';
import type { StepOutputs } from '../../src/scheduler/plan/step-outputs.js';
import type { Request, RequestInput } from '../../src/scheduler/request/request.js';
import type { ChunkInput } from '../../src/scheduler/request/session.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { steppable } from './authority/decided-scheduler.js';
import { type Executed, FakeModel, type TokenAt } from './fake-model.js';

export const NO_RESULT = { tokens: new Int32Array(0), counts: new Int32Array(0) };

/** A small scheduler: blocks of 4 tokens, 32 usable blocks, a clock that ticks once a call. */
export function makeScheduler(options: Partial<WithRules<SchedulerOptions>> = {}): Scheduler {
  let tick = 0;
  return steppable({
    numBlocks: 33,
    blockSize: 4,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 64,
    maxModelLen: 128,
    hashSeed: 7,
    now: () => tick++,
    ...carryRules(options),
  });
}

/** `length` tokens that no other `seed` has. */
export function prompt(length: number, seed = 0): Int32Array {
  return Int32Array.from({ length }, (_, i) => seed * 1000 + i);
}

/** The code of the BlockstepError that a call throws; fails when it throws none. */
export function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  throw new Error('nothing was thrown');
}

/** xorshift: the same numbers from the same seed. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed + 1) * 0x9e3779b9;
  }

  /** An integer from 0 to `below` - 1. */
  below(below: number): number {
    let x = this.#state | 0;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x;
    return (x >>> 0) % below;
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}

export interface DriverOptions {
  tokenAt?: TokenAt;
  /** Drafts a step at depth 1 when the scheduler speculates; default numSpeculativeTokens. */
  draft?: number;
}

/**
 * Steps a scheduler over the fake model and keeps what its clients saw, by handle. It throws when a client would get a
 * token that was computed from blocks nobody had written.
 */
export class Driver {
  readonly scheduler: Scheduler;
  readonly model: FakeModel;
  /** Tokens delivered to each incarnation. */
  readonly texts = new Map<number, number[]>();
  /** Of sessions: the answer that is being given, and chunks that are still to be answered. */
  readonly #answers = new Map<number, { tokens: number[]; chunks: Int32Array[] }>();
  /** Terminal reports of each incarnation: its row's reason, or `abort`. */
  readonly ends = new Map<number, string[]>();
  /** Ids in `plan.finished`, in order. */
  readonly finished: string[] = [];
  /** Handles in `plan.finishedHandles`, in order. */
  readonly finishedHandles: number[] = [];
  /** Executed and not delivered, oldest first. */
  readonly inFlight: Executed[] = [];
  /** Outputs of the last update, as `id:tokens[:reason]`. */
  last: string[] = [];
  /** The report of the connector's workers with the next update. */
  report: ConnectorOutput | null = null;
  readonly #draft: number;

  constructor(options: Partial<WithRules<SchedulerOptions>> | Scheduler = {}, driver: DriverOptions = {}) {
    this.scheduler = options instanceof Scheduler ? options : makeScheduler(options);
    this.model = new FakeModel(this.scheduler, driver.tokenAt);
    this.#draft = driver.draft ?? this.scheduler.config.numSpeculativeTokens;
  }

  add(input: Partial<RequestInput> & { id: string }): number {
    const full: RequestInput = { prompt: prompt(8), maxTokens: 8, ...input };
    const handle = this.scheduler.add(full);
    this.model.know(handle, full);
    this.texts.set(handle, []);
    this.ends.set(handle, []);
    if (full.resumable === true) this.#answers.set(handle, { tokens: [], chunks: [] });
    return handle;
  }

  addChunk(handle: number, chunk: Partial<ChunkInput> = {}): string {
    const full: ChunkInput = { prompt: prompt(3, 9), ...chunk };
    const outcome = this.scheduler.addChunk(handle, full);
    if (outcome !== 'skipped') this.#answers.get(handle)?.chunks.push(Int32Array.from(full.prompt));
    if (outcome === 'started') this.#continue(handle);
    return outcome;
  }

  endSession(handle: number): string {
    const outcome = this.scheduler.endSession(handle);
    if (outcome === 'ended') this.ends.get(handle)?.push('abort');
    return outcome;
  }

  /**
   * Gives the model the text before the next answer of a session: all tokens so far but the last,
   * and the chunk.
   */
  #continue(handle: number): void {
    const answer = this.#answers.get(handle) as { tokens: number[]; chunks: Int32Array[] };
    const kept = [...this.model.prompt(handle), ...answer.tokens.slice(0, -1)];
    this.model.continue(handle, kept, answer.chunks.shift() as Int32Array);
    answer.tokens = [];
  }

  abort(ids: string | number | Iterable<string | number>): string[] {
    const before = new Map(this.scheduler.inspect().requests.map(({ id, handle }) => [id, handle]));
    return this.#aborted(before, this.scheduler.abort(ids));
  }

  abortAll(): string[] {
    const before = new Map(this.scheduler.inspect().requests.map(({ id, handle }) => [id, handle]));
    return this.#aborted(before, this.scheduler.abortAll());
  }

  #aborted(before: Map<string, number>, ended: string[]): string[] {
    for (const id of ended) this.ends.get(before.get(id) as number)?.push('abort');
    return ended;
  }

  /** Schedules and executes one plan; an empty one is not in flight. */
  schedule(fails?: (entry: number, plan: Plan) => boolean): Plan {
    const plan = this.scheduler.schedule();
    this.finished.push(...plan.finished);
    this.finishedHandles.push(...plan.finishedHandles);
    this.#checkAdapters(plan);
    if (plan.totalTokens > 0) {
      this.inFlight.push(this.model.execute(plan, fails && ((entry) => fails(entry, plan))));
      if (plan.pendingStructuredOutputTokens) this.#defer(plan);
    }
    return plan;
  }

  /** Samples a plan whose grammars must see what is in flight first: everything before it is delivered. */
  #defer(plan: Plan): void {
    while (this.inFlight.length > 1) {
      const { errors } = this.inFlight[0];
      if (errors.length > 0 && errors.every((code) => code === 1)) this.failStep();
      else this.update();
    }
    const { numSpeculativeTokens } = this.scheduler.config;
    if (numSpeculativeTokens > 0) {
      this.scheduler.replaceDraftTokens(plan, this.model.draftsFor(plan, numSpeculativeTokens));
      this.model.refuse(this.inFlight[0]);
    }
  }

  #checkAdapters(plan: Plan): void {
    const { maxLoras } = this.scheduler.config;
    const requests = plan.requests.slice(0, plan.numRequests);
    const adapters = new Set(requests.flatMap(({ adapter }) => (adapter === '' ? [] : [adapter])));
    if (maxLoras > 0 && adapters.size > maxLoras) throw new Error(`${adapters.size} adapters in one step`);
  }

  /** Delivers the oldest result, or an empty one for the given empty plan. */
  update(empty?: Plan): StepOutputs {
    const [executed] = this.inFlight;
    const report = this.report;
    this.report = null;
    if (executed === undefined) {
      if (empty === undefined) throw new Error('nothing is in flight');
      return this.#deliver(this.scheduler.update(empty, NO_RESULT, report), []);
    }
    const { plan, tokens, counts, errors, tainted } = executed;
    const result = { tokens, counts, ...(errors.some((code) => code !== 0) ? { errors } : {}) };
    const outputs = this.#deliver(this.scheduler.update(plan, result, report), tainted);
    this.inFlight.shift();
    const { numSpeculativeTokens, pipelineDepth } = this.scheduler.config;
    if (numSpeculativeTokens > 0 && pipelineDepth === 1) {
      this.scheduler.updateDraftTokens(plan, this.model.drafts(executed, this.#draft));
    }
    return outputs;
  }

  /** Delivers the failure of the oldest step as a whole; it must have been executed with every row failing. */
  failStep(): StepOutputs {
    const report = this.report;
    this.report = null;
    const outputs = this.#deliver(this.scheduler.failStep(this.inFlight[0].plan, report), []);
    this.inFlight.shift();
    return outputs;
  }

  /** Fills the pipeline, then delivers the oldest result. */
  step(): void {
    let plan: Plan | undefined;
    while (this.inFlight.length < this.scheduler.config.pipelineDepth) {
      plan = this.schedule();
      if (plan.totalTokens === 0) break;
    }
    this.update(plan);
  }

  /** Steps until nothing is left to do, or the given condition fails. */
  run(maxSteps = 1000, goesOn = () => this.scheduler.hasWork()): void {
    for (let i = 0; goesOn(); i++) {
      if (i === maxSteps) throw new Error(`still at work: ${JSON.stringify(this.scheduler.stats())}`);
      this.step();
    }
  }

  request(handle: number): Request {
    const request = this.scheduler.getByHandle(handle);
    if (request === undefined) throw new Error(`no request has handle ${handle}`);
    return request;
  }

  text(handle: number): number[] {
    return this.texts.get(handle) as number[];
  }

  /** A session's answer must be the one that the model gives to all tokens before it. */
  #checkAnswer(handle: number, tokens: Int32Array): void {
    const answer = this.#answers.get(handle) as { tokens: number[] };
    answer.tokens.push(...tokens);
    const right = this.model.text(handle, answer.tokens.length);
    if (answer.tokens.some((token, i) => token !== right[i])) {
      throw new Error(`a session answered ${answer.tokens}, not ${right}`);
    }
  }

  /** An answer has ended; with a chunk waiting, the next one begins. */
  #pause(handle: number): void {
    if ((this.#answers.get(handle)?.chunks.length ?? 0) > 0) this.#continue(handle);
  }

  /** The number of times that each id was in `plan.finished`. */
  timesFinished(id: string): number {
    return this.finished.filter((other) => other === id).length;
  }

  #deliver(outputs: StepOutputs, tainted: readonly string[]): StepOutputs {
    this.last = [];
    for (let i = 0; i < outputs.length; i++) {
      const { id, handle } = outputs.requests[i];
      const from = outputs.tokenOffsets[i];
      const tokens = outputs.tokens.subarray(from, from + outputs.tokenCounts[i]);
      if (tokens.length > 0 && tainted.includes(id))
        throw new Error(`${id} got tokens from unwritten blocks`);
      this.texts.get(handle)?.push(...tokens);
      const reason = outputs.finishReason(i);
      if (this.#answers.has(handle)) this.#checkAnswer(handle, tokens);
      if (outputs.continues[i] === 1) this.#pause(handle);
      else if (reason !== null) this.ends.get(handle)?.push(reason);
      this.last.push(`${id}:${tokens.length}${reason === null ? '' : `:${reason}`}`);
    }
    return outputs;
  }
}

/** Blocks that are free when nothing is held. */
export function allBlocks(scheduler: Scheduler): number {
  return scheduler.config.numBlocks - 1;
}

/**
 * Lists the remains of all requests. In a correct scheduler every block is free, no row is in use,
 * and all invariants hold.
 */
export function leftovers(scheduler: Scheduler): string[] {
  scheduler.verify();
  const { freeBlocks, rowsInUse, numRunning, numWaiting, numSkipped, numDraining } = scheduler.stats();
  const found: string[] = [];
  if (freeBlocks !== allBlocks(scheduler)) found.push(`${allBlocks(scheduler) - freeBlocks} blocks`);
  if (rowsInUse !== 0) found.push(`${rowsInUse} rows`);
  if (numRunning + numWaiting + numSkipped + numDraining !== 0) found.push('requests');
  return found;
}

/** Everything that a plan says, as text; given its scheduler, the blocks of each entry as well. */
export function describePlan(plan: Plan, scheduler?: Scheduler): string {
  const entries = Array.from({ length: plan.numRequests }, (_, i) => {
    const numbers = [plan.kinds, plan.numScheduledTokens, plan.numComputedTokens, plan.numBlocks];
    const rest = [plan.numNewBlocks, plan.numDraftTokens, plan.needsAllTokens];
    const columns = [...numbers, ...rest].map((column) => column[i]);
    if (plan.kinds[i] !== EntryKind.running) columns.push(plan.numHitBlocks[i]);
    const blocks = scheduler?.core.blocks(plan.slots[i]).join(',') ?? '';
    return `${plan.requests[i].id} ${columns.join(',')} ${blocks}`;
  });
  const { step, totalTokens, preempted, finished, numCommonPrefixBlocks } = plan;
  return JSON.stringify([step, totalTokens, numCommonPrefixBlocks, preempted, finished, entries]);
}

/** Blocks, sequences and tokens per step that are few, so that requests of at most 40 tokens get in each other's way. */
export function drawPool(random: Random) {
  return {
    numBlocks: 12 + random.below(14),
    blockSize: [2, 4][random.below(2)],
    maxNumSeqs: 2 + random.below(5),
    maxNumBatchedTokens: 6 + random.below(30),
    maxModelLen: 40,
    policy: random.chance(50) ? 'priority' : 'fcfs',
    enablePrefixCaching: !random.chance(10),
  } satisfies Partial<SchedulerOptions>;
}
