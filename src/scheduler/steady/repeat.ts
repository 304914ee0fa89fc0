import { parseInt32Array } from '../../base/arrays.js';
import { channels } from '../../base/channels.js';
import { Control } from '../../core/core.js';
import type { LogWriter } from '../log/log.js';
import type { Plan } from '../plan/plan.js';
import type { StepOutputs } from '../plan/step-outputs.js';
import { ParsedResult, type StepResult } from '../plan/step-result.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { MOST_TICKS, type Steady } from './steady.js';

/** The public calls of the scheduler that repeated steps need; `SchedulerCalls` has them. */
interface Calls {
  readonly state: SchedulerState;
  readonly gate: { checkFree(): void; during<T>(act: () => T): T; change<T>(act: () => T): T };
  readonly aborts: { readonly size: number };
  /** The log; null = none is written. */
  readonly log: LogWriter | null;
  readClock(): void;
  /** Hands the native commands so far to the log. */
  flushLog(): void;
  /** Completes the fields of a plan with KV cache groups, once its entries have their blocks. */
  endGroups(plan: Plan): void;
  /** Asks the connector for the metadata of a plan that moved no blocks. */
  askConnector(plan: Plan): void;
}

/**
 * Whether the options allow repeated steps. A repeated step names its blocks to a connector only,
 * not to a mirror or to a client of `reportBlocks`.
 */
export function mayRepeat({ config, core }: SchedulerState): boolean {
  return core.backend.name === 'host' && !config.reportBlocks;
}

/**
 * Repeats steps while every running request gets its next token and nothing else happens. The next
 * plan is then the last plan, one token further, and only the tokens of an update are new. Any
 * other call of the scheduler ends the series. So does a step that needs a decision: the rules make
 * that step.
 */
export class Repeat {
  readonly #calls: Calls;
  readonly #s: SchedulerState;
  readonly #steady: Steady;
  /** The maximum number of plans in flight. */
  readonly #depth: number;
  /**
   * The number of the present series of repeated steps; 0 = no series. A plan with this number in
   * `repeats` has the right fields for the series.
   */
  #run = 0;
  #lastRun = 0;
  /** The first tick in whose update a rule must examine a request. */
  #nextDue = 0;
  /** The plan that is being made. */
  #plan: Plan;
  /** Whether others receive each plan: a connector, the sink of KV cache events, the log. */
  readonly #isTold: boolean;
  readonly #log: LogWriter | null;
  // The arrays of the last result, and the checked views of them, because an executor may reuse its
  // arrays.
  #tokens: Int32Array | null = null;
  #counts: Int32Array | null = null;
  #tokensView: Int32Array = new Int32Array(0);
  #countsView: Int32Array = new Int32Array(0);
  readonly #takeBlocks = (): void => {
    const { size } = this.#steady;
    const { core, config, keepsInFlight, inFlight } = this.#s;
    const { frame } = this.#plan;
    if (config.kvGroups !== null) core.native.beginStep();
    // Each plan in flight gives each entry one token.
    if (keepsInFlight) core.frames[frame].numInFlightTokens.fill(inFlight.length, 0, size);
    const taken = core.native.run(frame, 0, size);
    if (taken !== size) throw new Error(`a repeated step found blocks for ${taken} of its ${size} entries`);
    if (config.kvGroups !== null) this.#calls.endGroups(this.#plan);
  };
  readonly #readClock = (): void => this.#calls.readClock();
  readonly #logUpdate = (): void => {
    const { size } = this.#steady;
    const taken = { tokens: this.#tokensView, counts: this.#countsView, numTokens: size };
    this.#log?.update(this.#s.now, size, taken);
  };
  readonly #logSchedule = (): void => this.#log?.schedule(this.#s.now);
  readonly #flushLog = (): void => this.#calls.flushLog();
  readonly #tellOfPlan = (): void => {
    if (this.#s.connector !== null) this.#calls.askConnector(this.#plan);
    this.#s.kvEvents?.tell();
    if (this.#log !== null) this.#calls.gate.change(this.#flushLog);
  };

  constructor(calls: Calls, steady: Steady) {
    this.#calls = calls;
    this.#s = calls.state;
    this.#steady = steady;
    this.#depth = this.#s.config.pipelineDepth;
    this.#log = calls.log;
    this.#isTold = this.#s.connector !== null || this.#s.kvEvents !== null || calls.log !== null;
    this.#plan = this.#s.plans[0];
  }

  /**
   * Called when another call of the scheduler is made. No step is repeated until `begin` allows it
   * again.
   */
  end(): void {
    this.#run = 0;
  }

  /**
   * Called after the rules have updated a plan. Checks whether the next step may be repeated.
   */
  begin(plan: Plan): void {
    const s = this.#s;
    const { size } = this.#steady;
    if (size === 0 || size !== s.queues.running.length || !this.#steady.isAllOf(plan)) return;
    // A plan without entries may have come between two plans. Then the rules must make the next
    // plan, which says that all tokens are needed again.
    if (!this.#steady.wasPlannedBefore(s.step)) return;
    if (size !== s.outputs.length || this.#hasNews() || this.#mayAdmit()) return;
    if (!s.inFlight.every((each) => this.#steady.isAllOf(each)) || !this.#findNextDue()) return;
    this.#run = ++this.#lastRun;
    for (const each of s.inFlight) each.plainIn = this.#run;
  }

  /**
   * The number of steps after a plan that are sure to be repeated, if each request samples the same
   * token again.
   * @param last the plan made last
   * @returns 0 if this plan was not repeated, or if a question or a report may be due between two
   * steps
   */
  sureSteps(last: Plan): number {
    const { core, config, inFlight, deadlines, blocksMoved } = this.#s;
    if (this.#run === 0 || last.repeats !== this.#run || config.kvGroups !== null) return 0;
    if (this.#isTold || deadlines.size > 0 || inFlight.length !== this.#depth - 1) return 0;
    if (blocksMoved || channels.step.hasSubscribers || this.#calls.aborts.size > 0) return 0;
    const { size, clock, isBroken } = this.#steady;
    if (isBroken) return 0;
    const untilDue = this.#nextDue - 1 - clock.sampled;
    // In as many steps as a block has tokens, no entry takes more than one block.
    const untilFull = Math.floor(core.control[Control.freeBlocks] / size) * config.blockSize;
    return Math.min(untilDue, untilFull);
  }

  /**
   * Makes several steps in one native call. The result equals that of `plan` and `apply` by turns,
   * without the last `apply`. In all these steps, each request samples the same token as in the
   * last step.
   * @param steps at most `sureSteps`
   * @returns the last plan; null if the rules have to make the next step, with nothing changed
   */
  planMany(steps: number): Plan | null {
    const { inFlight, counters, core } = this.#s;
    const { size } = this.#steady;
    const earlier = steps - 1;
    core.control[Control.numRepeats] = earlier;
    const plan = this.plan();
    const notMade = core.control[Control.numRepeats];
    core.control[Control.numRepeats] = 0;
    if (plan === null) return null;
    if (notMade !== 0) throw new Error('the native addon is older: it does not repeat steps');
    this.#steady.noteRepeats(earlier);
    counters.generationTokens += earlier * size;
    this.#s.step += earlier;
    this.#s.numScheduledPlans += earlier;
    // Each plan in flight becomes a plan that many steps later. Its blocks mattered only to its
    // executor.
    for (const each of inFlight) {
      each.step += earlier;
      if (each === plan) continue;
      for (let i = 0; i < size; i++) each.numComputedTokens[i] += earlier;
    }
    return plan;
  }

  /** @returns the next plan; null if the rules have to make it, with nothing changed */
  plan(): Plan | null {
    if (this.#run === 0) return null;
    const s = this.#s;
    const { control } = s.core;
    const { size, slots } = this.#steady.members;
    if (s.inFlight.length >= this.#depth) return null;
    // No entry takes more than one block of each group.
    const mostBlocks = size * s.groups.list.length;
    if (control[Control.freeBlocks] < mostBlocks || this.#steady.isBroken) return null;
    // Before a block is dropped that a transfer uses, the rules keep it for the transfer.
    if (s.config.kvGroups !== null && s.usedRequests.size > 0) return null;
    if (channels.step.hasSubscribers) return null;
    this.#calls.gate.checkFree();
    if ((s.deadlines.size > 0 || this.#log !== null) && !this.#isInTime()) return null;
    // The clock may have called back. A connector may have woken a request, or moved blocks.
    if (this.#calls.aborts.size > 0 || s.blocksMoved) return null;
    if (this.#log !== null) this.#calls.gate.during(this.#logSchedule);
    const plan = this.#freePlan();
    if (plan.repeats !== this.#run) {
      plan.begin(s.step);
      plan.repeats = this.#run;
      plan.plainIn = this.#run;
      this.#steady.enter(plan);
    }
    this.#plan = plan;
    this.#steady.notePlanned(s.step);
    control[Control.headSlot] = slots[0];
    this.#calls.gate.change(this.#takeBlocks);
    plan.step = s.step++;
    if (s.config.kvGroups === null)
      plan.groups[0].numCommonPrefixBlocks = s.config.enablePrefixCaching ? control[Control.commonPrefix] : 0;
    s.putInFlight(plan);
    if (this.#isTold) {
      this.#calls.gate.during(this.#tellOfPlan);
      s.anomalies.throwFirst();
    }
    return plan;
  }

  /**
   * @returns the rows of a plan that `plan` made; null if the rules have to process the result,
   * with nothing changed
   */
  apply(plan: Plan, result: StepResult): StepOutputs | null {
    const s = this.#s;
    if (!this.#isDue(plan)) return null;
    if (typeof result !== 'object' || result === null) return null;
    const { tokens, counts, errors } = result;
    if (tokens === undefined || counts === undefined || errors !== undefined) return null;
    if (tokens !== this.#tokens || counts !== this.#counts)
      this.#keepViews(tokens, counts, result instanceof ParsedResult);
    // Reading the result may have called back, and so may the clock.
    this.#calls.gate.checkFree();
    if (this.#log !== null) this.#calls.gate.during(this.#readClock);
    if (!this.#isDue(plan) || this.#calls.aborts.size > 0) return null;
    if (!this.#steady.isPlanned || s.kvEvents?.hasTierNews === true) return null;
    if (!this.#copyTokens(plan, this.#tokensView, this.#countsView)) return null;
    // The tokens alone cause neither commands nor KV cache events.
    if (this.#log !== null) this.#calls.gate.during(this.#logUpdate);
    this.#steady.noteSampled(plan);
    s.removeFromFlight(plan);
    s.counters.generationTokens += plan.numRequests;
    s.outputs.tokens = this.#tokensView;
    return s.outputs;
  }

  /**
   * Checks the arrays of a result that are not those of the last result, and keeps views of them.
   * @param isParsed they were checked before, and are views already
   */
  #keepViews(tokens: Int32Array, counts: Int32Array, isParsed: boolean): void {
    if (tokens !== this.#tokens) {
      this.#tokensView = isParsed ? tokens : parseInt32Array('tokens', tokens);
      this.#tokens = tokens;
    }
    if (counts !== this.#counts) {
      this.#countsView = isParsed ? counts : parseInt32Array('counts', counts);
      this.#counts = counts;
    }
  }

  /**
   * Reads the clock.
   * @returns whether no deadline has passed, and the clock has not called back and ended the series
   */
  #isInTime(): boolean {
    this.#calls.gate.during(this.#readClock);
    return this.#s.deadlines.next > this.#s.now && this.#run !== 0;
  }

  /** Whether this plan was repeated and must be updated next. */
  #isDue(plan: Plan): boolean {
    return this.#run !== 0 && this.#s.inFlight[0] === plan && plan.plainIn === this.#run;
  }

  /**
   * A plan object that waits for no update. It is not the plan made last, because the caller may
   * still read that plan.
   */
  #freePlan(): Plan {
    const { plans, step } = this.#s;
    let i = 0;
    while (plans[i].awaitsUpdate || plans[i].step === step - 1) i++;
    return plans[i];
  }

  /**
   * Finds the first tick in whose update a rule must examine a request. @returns whether that is
   * later than the next one
   */
  #findNextDue(): boolean {
    const { members, clock, isBroken } = this.#steady;
    this.#nextDue = members.firstDue(MOST_TICKS);
    return !isBroken && this.#nextDue > clock.sampled + 1;
  }

  /**
   * Copies the token of each entry to the array that native code reads. @returns false if a rule must
   * examine one
   */
  #copyTokens(plan: Plan, tokens: Int32Array, counts: Int32Array): boolean {
    const { clock } = this.#steady;
    const { ends, numSteady: count } = plan;
    if (clock.sampled + 1 >= this.#nextDue || tokens.length < count || counts.length < count) return false;
    const { sampled } = this.#s.core;
    // Not 0: an entry has another number of tokens, an invalid token, or the end of its text.
    let others = 0;
    for (let i = 0; i < count; i++) {
      const token = tokens[i];
      others |= (counts[i] ^ 1) | ((token | (token + 1)) >>> 31) | (token === ends[i] ? 1 : 0);
      sampled[i] = token;
    }
    return others === 0;
  }

  /** Whether the next plan or update has something to report, or a grammar to ask. */
  #hasNews(): boolean {
    const { finishedIds, unreported, doomed, resetVictims, releasedHandles, pauseMode } = this.#s;
    const { fencedFrees, continued, structured } = this.#s;
    const lists = finishedIds.length + unreported.length + doomed.length + resetVictims.length;
    const others = releasedHandles.length + fencedFrees.length + continued.length + structured.size;
    return lists + others > 0 || pauseMode !== 'none';
  }

  /** Whether a waiting request may find a seat, or must be checked in strict mode. */
  #mayAdmit(): boolean {
    const { queues, config } = this.#s;
    const isFull = queues.running.length >= config.maxNumSeqs && !config.strict;
    return !isFull && queues.nextQueue() !== null;
  }
}
