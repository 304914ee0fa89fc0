import { Control } from '../../core/core.js';
import type { SchedulerConfig } from '../options/options.js';
import { EntryKind, NEVER, type Plan } from '../plan/plan.js';
import type { StepOutputs } from '../plan/step-outputs.js';
import type { TakenResult } from '../plan/step-result.js';
import type { Request } from '../request/request.js';
import { RequestClock, STILL } from '../request/request-clock.js';
import { FinishCode } from '../request/status.js';
import { checkStop } from '../request/stop-conditions.js';
import type { SchedulerState, SteadyDecode } from '../state/scheduler-state.js';

/** Steps without a steady decode after one was broken up, so that a scheduler that breaks up each step pays little. */
const STEPS_APART = 4;
/** Ticks after which the clock begins anew: its counts stay small integers. */
export const MOST_TICKS = 2 ** 29;

/** Whether the options allow a steady decode: nothing but its end has to be decided for a request that decodes. */
export function maySteady(config: SchedulerConfig): boolean {
  const { pipelineDepth, numSpeculativeTokens, draftSlots, padDecode } = config;
  const isPlain = numSpeculativeTokens === 0 && draftSlots === 0 && !padDecode && pipelineDepth === 1;
  const { kvGroups, borrower, placement } = config;
  const isAlone = kvGroups === null && borrower === null && placement.authority === 'host';
  return config.steadyDecode && isPlain && isAlone;
}

/**
 * The running requests that decode in step: the first ones in `running`, each of which got one token in the last step
 * and gets one in the next. What the rules would find out anew for each of them stands in columns here, and their
 * counts are relative to one clock. So the two loops over requests that a step consists of (`planRun`, `updatePass`)
 * begin behind them. README.md says when requests join and leave.
 */
export class Steady implements SteadyDecode {
  readonly #s: SchedulerState;
  readonly clock = new RequestClock();
  readonly #requests: Request[] = [];
  /** The slot of each request, the token that ends its text, and the tick in whose update a rule has to look at it. */
  readonly slots: Int32Array;
  readonly ends: Int32Array;
  readonly dueAt: Int32Array;
  /** The entries that the update under way has to look at; then those whose requests have stopped. */
  readonly #looks: Int32Array;
  /** 0, 1, 2, ...: where the token of each entry stands. */
  readonly #offsets: Int32Array;
  /** Known tokens that a request must not exceed to be planned once more. */
  readonly #mostTokens: number;
  #numLooks = 0;
  /** Not 0: requests have stopped with the tokens taken last. */
  stopped: number = FinishCode.none;
  /** Names the present list of requests; a plan that has its columns remembers it. */
  #layout = 1;
  /** The step that planned them last. */
  #lastStep = -1;
  /** No request joins before this step. */
  #notBefore = 0;

  constructor(s: SchedulerState) {
    const { maxNumSeqs, maxModelLen } = s.config;
    this.#s = s;
    this.#mostTokens = Math.min(maxModelLen - 1, s.slotLimit);
    this.slots = new Int32Array(maxNumSeqs);
    this.ends = new Int32Array(maxNumSeqs);
    this.dueAt = new Int32Array(maxNumSeqs);
    this.#looks = new Int32Array(maxNumSeqs);
    this.#offsets = Int32Array.from({ length: maxNumSeqs }, (_, i) => i);
  }

  /** Requests that decode in step. */
  get size(): number {
    return this.#s.queues.numSteady;
  }

  /**
   * Gives each of its requests one token in a plan that has no entries yet; requests that have come to decode join
   * before. `NativeCore.run` fills in the computed tokens. The budget suffices, since all of them were in the last plan.
   * @returns entries of the plan; 0 if every running request has to be looked at
   */
  plan(plan: Plan): number {
    const { step } = plan;
    if (this.size > 0 && this.#lastStep !== step - 1) this.breakUp();
    if (step >= this.#notBefore) this.#join(step);
    if (this.size === 0) plan.steadyLayout = 0;
    else {
      this.enter(plan);
      this.notePlanned(step);
    }
    return this.size;
  }

  /** Gives each of its requests an entry of a plan that has none yet. */
  enter(plan: Plan): void {
    const count = this.size;
    if (plan.steadyLayout !== this.#layout) this.#fill(plan);
    plan.numSteady = count;
    plan.numRequests = count;
    plan.totalTokens = count;
  }

  /** Counts the token that the plan of this step gives each of its requests; the next `NativeCore.run` fills in the rest. */
  notePlanned(step: number): void {
    this.clock.planned++;
    this.#lastStep = step;
    this.#s.core.control[Control.numSteady] = this.size;
  }

  /** Counts the token that the plan has brought each of its requests, and leaves the tokens to native code. */
  noteSampled({ frame }: Plan): void {
    const { control } = this.#s.core;
    control[Control.sampledFrame] = frame;
    control[Control.numSampled] = this.size;
    this.clock.sampled++;
  }

  /**
   * Takes the tokens of its entries, and fills their rows. Each entry brings one; otherwise the steady decode is broken
   * up, and nothing was taken.
   * @param now the time, in milliseconds of the scheduler's clock
   * @returns entries whose tokens were taken: all of them or 0. `stopped` says whether requests have stopped with them
   */
  take(plan: Plan, result: TakenResult, outputs: StepOutputs, now: number): number {
    const count = plan.numSteady;
    this.stopped = FinishCode.none;
    if (count === 0 || this.size === 0) return 0;
    if (this.isBroken || count !== this.size || !this.#copyTokens(result, count)) {
      this.breakUp();
      return 0;
    }
    this.noteSampled(plan);
    this.#fillRows(outputs, count, now);
    return count;
  }

  /** Takes out the requests that have stopped with the tokens taken last, once they have left `running`. */
  dropStopped(): void {
    const { queues } = this.#s;
    if (this.stopped === FinishCode.none || this.clock.isDisturbed) return;
    const count = this.size;
    const stops = this.#looks;
    const first = stops[0];
    let kept = first;
    for (let stop = 0; stop < this.#numLooks; stop++) {
      const from = stops[stop] + 1;
      const to = stop + 1 < this.#numLooks ? stops[stop + 1] : count;
      this.#release(this.#requests[from - 1]);
      this.slots.copyWithin(kept, from, to);
      this.ends.copyWithin(kept, from, to);
      this.dueAt.copyWithin(kept, from, to);
      kept += to - from;
    }
    for (let i = first; i < kept; i++) this.#requests[i] = queues.running[i];
    queues.numSteady = kept;
    queues.steadyMoved = false;
    this.#layout++;
  }

  /** Breaks up if a rule has touched one of its requests: to be called before a plan is made. */
  check(): void {
    if (this.size > 0 && this.isBroken) this.breakUp();
  }

  /** Breaks up while a plan is made in which its entries stand: the rules go on with them. */
  breakUpIn(plan: Plan): void {
    plan.numSteady = 0;
    this.#lastStep = plan.step - 1;
    this.breakUp();
  }

  /** Ends the steady decode: each request has counts of its own again. The rules look at each in the next step. */
  breakUp(): void {
    const { queues } = this.#s;
    for (let i = 0; i < queues.numSteady; i++) this.#release(this.#requests[i]);
    this.#notBefore = this.#lastStep + STEPS_APART;
    this.#layout++;
    queues.numSteady = 0;
  }

  /** Nobody decodes in step: what was noted of those before is void. */
  #restart(): void {
    this.clock.planned = 0;
    this.clock.sampled = 0;
    this.clock.isDisturbed = false;
    this.#s.queues.steadyMoved = false;
  }

  /** Whether a rule has touched one of its requests: they no longer go in step. */
  get isBroken(): boolean {
    return this.#s.queues.steadyMoved || this.clock.isDisturbed || this.clock.planned > MOST_TICKS;
  }

  /** Lets the running requests behind the last one join, up to the first that does not decode plainly. */
  #join(step: number): void {
    const { queues, lastSteps } = this.#s;
    const { running } = queues;
    const clock = this.clock;
    const before = queues.numSteady;
    if (before === 0) this.#restart();
    let count = before;
    for (; count < running.length; count++) {
      const request = running[count];
      const { slot } = request;
      if (lastSteps[slot] !== step - 1 || !this.#mayJoin(request)) break;
      this.#requests[count] = request;
      this.slots[count] = slot;
      this.ends[count] = request.eosTokenId;
      request.tokensBase -= clock.sampled;
      request.computedBase -= clock.planned;
      request.clock = clock;
      this.dueAt[count] = this.#dueOf(request);
    }
    if (count === before) return;
    queues.numSteady = count;
    this.#layout++;
  }

  /** Whether a request decodes: one token of it is known and not computed, and nothing but its end is to be decided. */
  #mayJoin(request: Request): boolean {
    const { tokensBase, computedBase, grammar, finishCode } = request;
    const decodes = tokensBase === computedBase + 1 && computedBase > 0 && computedBase < this.#mostTokens;
    return decodes && grammar === null && finishCode === FinishCode.none;
  }

  /** The tick in whose update a rule looks at a request next: it may stop, or must not be planned any more. */
  #dueOf({ numTokens, checkFrom }: Request): number {
    const left = Math.min(checkFrom - numTokens, this.#mostTokens + 1 - numTokens);
    return this.clock.sampled + Math.max(1, left);
  }

  /** Gives a request counts of its own again. */
  #release(request: Request): void {
    const { sampled, planned } = this.clock;
    request.tokensBase += sampled;
    request.computedBase += planned;
    request.clock = STILL;
    const { slot } = request;
    const { bySlot, lastSteps } = this.#s;
    if (planned > 0 && bySlot[slot] === request && lastSteps[slot] !== NEVER)
      lastSteps[slot] = this.#lastStep;
  }

  /** Fills the columns of a plan that `NativeCore.run` does not write. */
  #fill(plan: Plan): void {
    const count = this.size;
    const { requests } = plan;
    for (let i = 0; i < count; i++) if (requests[i] !== this.#requests[i]) requests[i] = this.#requests[i];
    plan.slots.set(this.slots.subarray(0, count));
    plan.kinds.fill(EntryKind.running, 0, count);
    plan.numScheduledTokens.fill(1, 0, count);
    plan.maxOutputTokens.fill(1, 0, count);
    plan.needsAllTokens.fill(0, 0, count);
    plan.steadyLayout = this.#layout;
  }

  /**
   * Copies the token of each entry to where native code takes it from, and notes the entries to be looked at.
   * @returns false if an entry brings another number of tokens
   */
  #copyTokens({ tokens, counts }: TakenResult, count: number): boolean {
    const { sampled } = this.#s.core;
    const ends = this.ends;
    const dueAt = this.dueAt;
    const tick = this.clock.sampled + 1;
    let others = 0;
    let numLooks = 0;
    for (let i = 0; i < count; i++) {
      const token = tokens[i];
      others |= counts[i] ^ 1;
      sampled[i] = token;
      if (token === ends[i] || dueAt[i] <= tick) this.#looks[numLooks++] = i;
    }
    this.#numLooks = numLooks;
    return others === 0;
  }

  /** One row for each entry. The entries that were noted are looked at by the rule. */
  #fillRows(outputs: StepOutputs, count: number, now: number): void {
    const first = outputs.length;
    const { requests, tokens, finishReasons } = outputs;
    outputs.tokenOffsets.set(first === 0 ? this.#offsets : this.#offsets.subarray(0, count), first);
    outputs.tokenCounts.fill(1, first, first + count);
    finishReasons.fill(FinishCode.none, first, first + count);
    for (let i = 0; i < count; i++)
      if (requests[first + i] !== this.#requests[i]) requests[first + i] = this.#requests[i];
    let stopped: number = FinishCode.none;
    let numStops = 0;
    for (let look = 0; look < this.#numLooks; look++) {
      const i = this.#looks[look];
      const request = this.#requests[i];
      const reason = checkStop(request, tokens[i], now);
      finishReasons[first + i] = reason;
      stopped |= reason;
      if (reason !== FinishCode.none) {
        this.#looks[numStops++] = i;
        continue;
      }
      this.dueAt[i] = this.#dueOf(request);
      if (request.numComputedTokens >= this.#mostTokens) this.clock.isDisturbed = true;
    }
    this.#numLooks = numStops;
    this.stopped = stopped;
  }
}
