import { Control } from '../../core/core.js';
import { NEVER, type Plan } from '../plan/plan.js';
import type { StepOutputs } from '../plan/step-outputs.js';
import type { ParsedResult } from '../plan/step-result.js';
import type { Request } from '../request/request.js';
import { RequestClock, STILL } from '../request/request-clock.js';
import { FinishCode } from '../request/status.js';
import { checkStop } from '../request/stop-conditions.js';
import type { SchedulerState, SteadyDecode } from '../state/scheduler-state.js';
import { endsAhead, joinInFlight, mayJoin } from './joining.js';
import { Members } from './members.js';
import { Rows } from './rows.js';

/**
 * Steps without a steady decode after one was broken up, so that a scheduler that breaks up each
 * step pays little.
 */
const STEPS_APART = 4;
/** The number of ticks after which the clock restarts, so that its counts stay small integers. */
export const MOST_TICKS = 2 ** 29;

/**
 * The running requests that decode in step, which are the first ones in `running`. Each got one
 * token in the last step and gets one in the next. Columns hold the values that the rules would
 * otherwise compute again for each of them, and their counts are relative to one clock. So the two
 * loops over requests in a step (`planRun`, `updatePass`) begin after them. README.md says when
 * requests join and leave.
 */
export class Steady implements SteadyDecode {
  readonly #s: SchedulerState;
  readonly clock = new RequestClock();
  readonly members: Members;
  /** Members whose last token the next step in flight brings, if there is one then. */
  #lasts: Request[] = [];
  /**
   * Requests among the first of `running` that are no longer planned, because a step in flight
   * brings their last token.
   */
  #resting: Request[] = [];
  readonly #rows: Rows;
  /** The requests that have stopped with the last tokens. */
  readonly #stops: Request[] = [];
  /**
   * Known tokens that a request must not exceed, so that it can be planned for as many steps as may
   * be in flight.
   */
  readonly #mostTokens: number;
  /** Not 0: requests have stopped with the last tokens. */
  stopped: number = FinishCode.none;
  /** Names the present steady decode; its plans remember it. */ #epoch = 1;
  /** The step that last planned them. */
  #lastStep = -1;
  /**
   * Whether a plan was made since the last tokens were processed. Otherwise the rules have to
   * publish the blocks that the next tokens fill, because no plan has done so.
   */
  isPlanned = false;
  /** No request joins before this step. */
  #notBefore = 0;

  constructor(s: SchedulerState) {
    const { maxNumSeqs, maxModelLen, pipelineDepth } = s.config;
    this.#s = s;
    this.members = new Members(maxNumSeqs);
    this.#mostTokens = Math.min(maxModelLen - 1, s.slotLimit) + 1 - pipelineDepth;
    this.#rows = new Rows(maxNumSeqs, s.core.sampled);
  }

  /** Requests that decode in step. */
  get size(): number {
    return this.members.size;
  }

  /**
   * Gives each member one token in a plan that has no entries yet; requests that have begun to
   * decode join before. `NativeCore.run` fills in the computed tokens. The budget suffices, because
   * all of them were in the last plan.
   * @returns entries of the plan; 0 if every running request must be examined
   */
  plan(plan: Plan): number {
    const { step } = plan;
    if (this.size > 0 && !this.wasPlannedBefore(step)) this.breakUp();
    if (this.#lasts.length + this.#resting.length > 0) this.#rest();
    if (step >= this.#notBefore) this.#join(step);
    if (this.size === 0) plan.steadyLayout = 0;
    else {
      this.enter(plan);
      this.notePlanned(step);
    }
    return this.size;
  }

  /** Gives each member an entry of a plan that has none yet. */
  enter(plan: Plan): void {
    const { members } = this;
    const count = members.size;
    if (plan.steadyLayout !== members.layout) members.fill(plan);
    plan.steadyEpoch = this.#epoch;
    plan.numSteady = count;
    plan.numRequests = count;
    plan.totalTokens = count;
  }

  /**
   * Counts the token that the plan of this step gives each member; the next `NativeCore.run` fills
   * in the rest.
   */
  notePlanned(step: number): void {
    const { core, inFlight, pipelined } = this.#s;
    const { control } = core;
    this.clock.planned++;
    this.#lastStep = step;
    this.isPlanned = true;
    control[Control.numSteady] = this.members.size;
    if (!pipelined) return;
    this.clock.ahead++;
    control[Control.numAhead] = inFlight.length;
  }

  /**
   * Counts the token that the plan has brought each member, and leaves the tokens to native code.
   */
  noteSampled({ frame, numSteady }: Plan): void {
    const { core, pipelined } = this.#s;
    const { control } = core;
    control[Control.sampledFrame] = frame;
    control[Control.numSampled] = numSteady;
    this.clock.sampled++;
    if (pipelined) this.clock.ahead--;
    this.isPlanned = false;
  }

  /** Counts the steps that were planned and updated in the native call of the step planned last. */
  noteRepeats(steps: number): void {
    this.clock.planned += steps;
    this.clock.sampled += steps;
    this.#lastStep += steps;
  }

  /** Whether the plan of the previous step gave each member a token. */
  wasPlannedBefore(step: number): boolean {
    return this.#lastStep === step - 1;
  }

  /** Whether a plan has an entry for each member, and no others. */
  isAllOf(plan: Plan): boolean {
    const { size, layout } = this.members;
    const isOfIt = plan.steadyEpoch === this.#epoch && plan.steadyLayout === layout;
    return isOfIt && plan.numSteady === size && plan.numRequests === size;
  }

  /**
   * Applies the tokens of its entries, and fills their rows. Each entry must have one; otherwise
   * the steady decode is broken up, and nothing was applied.
   * @param now the time, in milliseconds of the scheduler's clock
   * @returns entries whose tokens were applied: all of them or 0. `stopped` says whether requests
   * have stopped with them
   */
  apply(plan: Plan, result: ParsedResult, outputs: StepOutputs, now: number): number {
    this.stopped = FinishCode.none;
    if (plan.numSteady === 0 || this.size === 0) return 0;
    const tick = this.clock.sampled + 1;
    const mayApply = !this.isBroken && this.isPlanned && plan.steadyEpoch === this.#epoch;
    if (!mayApply || !this.#rows.copyTokens(plan, result, this.members, tick)) {
      this.breakUp();
      return 0;
    }
    this.noteSampled(plan);
    this.#s.counters.droppedOutputs += this.#rows.fill(plan, outputs);
    this.#look(plan, outputs, now);
    return plan.numSteady;
  }

  /** Removes the requests that have stopped with the last tokens, once they have left `running`. */
  dropStopped(): void {
    const { queues } = this.#s;
    if (this.stopped === FinishCode.none || this.clock.isDisturbed) return;
    for (const request of this.#stops) this.#release(request);
    queues.numSteady -= this.#stops.length;
    queues.steadyMoved = false;
    if (this.#resting.length > 0)
      this.#resting = this.#resting.filter((request) => !this.#stops.includes(request));
    this.members.remove(this.#stops);
    if (this.size === 0) queues.numSteady = 0;
  }

  /** Breaks up if a rule has touched a member. Must be called before a plan is made. */
  check(): void {
    if (this.size > 0 && this.isBroken) this.breakUp();
  }

  /** Breaks up while a plan with its entries is made; the rules continue with them. */
  breakUpIn(plan: Plan): void {
    plan.numSteady = 0;
    this.#lastStep = plan.step - 1;
    // The rules count the expected tokens of this plan's entries.
    if (this.#s.pipelined) this.clock.ahead--;
    this.breakUp();
  }

  /**
   * Ends the steady decode: each request has its own counts again. The rules examine each in the
   * next step.
   */
  breakUp(): void {
    const { requests, size } = this.members;
    for (let i = 0; i < size; i++) this.#release(requests[i]);
    this.members.clear();
    this.#lasts.length = 0;
    this.#resting.length = 0;
    this.#notBefore = this.#lastStep + STEPS_APART;
    this.#epoch++;
    this.#s.queues.numSteady = 0;
  }

  /** Whether a rule has touched a member, so that they no longer decode in step. */
  get isBroken(): boolean {
    return this.#s.queues.steadyMoved || this.clock.isDisturbed || this.clock.planned > MOST_TICKS;
  }

  /** Clears the notes, because no request decodes in step. */
  #restart(): void {
    const { clock } = this;
    clock.planned = 0;
    clock.sampled = 0;
    clock.ahead = 0;
    clock.isDisturbed = false;
    this.#epoch++;
    this.#lasts.length = 0;
    this.#resting.length = 0;
    this.#s.queues.numSteady = 0;
    this.#s.queues.steadyMoved = false;
  }

  /** Lets the next running requests join, up to the first that does not decode plainly. */
  #join(step: number): void {
    const { queues, lastSteps, inFlight } = this.#s;
    const { running } = queues;
    const { clock, members } = this;
    if (members.size === 0) this.#restart();
    for (let at = queues.numSteady; at < running.length; at++) {
      const request = running[at];
      if (lastSteps[request.slot] !== step - 1 || !mayJoin(this.#s, request, this.#mostTokens)) break;
      if (!joinInFlight(inFlight, this.#epoch, request)) break;
      request.tokensBase -= clock.sampled;
      request.computedBase -= clock.planned;
      request.placeholdersBase -= clock.ahead;
      request.clock = clock;
      members.add(request, this.#dueOf(request));
      queues.numSteady = at + 1;
    }
  }

  /**
   * Suspends the members whose last token a step in flight brings; `planRun` has the rule. They
   * stay in `running` until it comes.
   */
  #rest(): void {
    if (!this.#resting.every((request) => request.container === 'running' && endsAhead(request))) {
      this.breakUp();
      return;
    }
    let kept = 0;
    for (const request of this.#lasts) {
      if (request.clock !== this.clock) continue;
      if (endsAhead(request)) this.#resting.push(request);
      else this.#lasts[kept++] = request;
    }
    if (kept === this.#lasts.length) return;
    this.#lasts.length = kept;
    for (const request of this.#resting) this.#release(request);
    const all = this.members.requests.slice(0, this.size);
    this.members.remove(all.filter((request) => request.clock !== this.clock));
    if (this.size > 0) return;
    this.#resting.length = 0;
    this.#s.queues.numSteady = 0;
  }

  /**
   * The tick in whose update a rule next examines a request: it may stop, or must not be planned
   * any more.
   */
  #dueOf({ numTokens, checkFrom, promptPlusMaxTokens }: Request): number {
    const until = this.#s.pipelined ? Math.min(checkFrom, promptPlusMaxTokens - 1) : checkFrom;
    const left = Math.min(until, this.#mostTokens + 1) - numTokens;
    return this.clock.sampled + Math.max(1, left);
  }

  /** Gives a request its own counts again. */
  #release(request: Request): void {
    if (request.clock !== this.clock) return;
    const { sampled, planned, ahead } = this.clock;
    request.tokensBase += sampled;
    request.computedBase += planned;
    request.placeholdersBase += ahead;
    request.clock = STILL;
    const { slot } = request;
    const { bySlot, lastSteps } = this.#s;
    if (planned > 0 && bySlot[slot] === request && lastSteps[slot] !== NEVER)
      lastSteps[slot] = this.#lastStep;
  }

  /** Lets the rule examine the noted entries. */
  #look(plan: Plan, outputs: StepOutputs, now: number): void {
    const { tokens, finishReasons } = outputs;
    this.#stops.length = 0;
    let stopped: number = FinishCode.none;
    const { entries, rows, numLooks } = this.#rows;
    for (let look = 0; look < numLooks; look++) {
      const i = entries[look];
      const request = plan.requests[i];
      if (request.clock !== this.clock) this.#arrive(plan, request);
      const reason = checkStop(request, tokens[i], now);
      finishReasons[rows[look]] = reason;
      stopped |= reason;
      if (reason !== FinishCode.none) this.#stops.push(request);
      else if (request.clock === this.clock) this.#goOn(request);
    }
    this.stopped = stopped;
  }

  /**
   * The last token of a suspended request has come. No plan has published the blocks that its
   * earlier tokens fill.
   */
  #arrive(plan: Plan, request: Request): void {
    request.tokensBase++;
    request.placeholdersBase--;
    const settled = request.computedBase - request.placeholdersBase;
    if (settled >= request.nextPublish && this.#s.config.enablePrefixCaching) plan.settled.push(request);
  }

  #goOn(request: Request): void {
    this.members.dueAt[request.slot] = this.#dueOf(request);
    if (request.numTokens > this.#mostTokens) this.clock.isDisturbed = true;
    if (this.#s.pipelined && request.numTokens + 1 >= request.promptPlusMaxTokens) this.#lasts.push(request);
  }
}
