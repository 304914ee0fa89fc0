import { joined } from '../../base/arrays.js';
import { channels } from '../../base/channels.js';
import { Control } from '../../core/core.js';
import { type AskedConnector, FAILED } from '../connector/ask-connector.js';
import { Loan } from '../lend/loan.js';
import { endExpired } from '../life/expiry.js';
import { endUnreported } from '../life/finish.js';
import { loseLoadsOf } from '../loads/fence.js';
import { blocksLetGo, NO_BLOCKS } from '../plan/let-go.js';
import { newBlocksOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { advance } from './advance.js';
import { runningPass } from './running-pass.js';
import { waitingPass } from './waiting-pass.js';

/** Plans one step (vLLM `Scheduler.schedule`): running requests first, then admissions if none was preempted. */
export function schedule(s: SchedulerState): Plan {
  const plan = beginSchedule(s);
  const loan = s.borrower === null ? null : new Loan(s, s.borrower);
  loan?.borrow();
  const { running } = s.queues;
  const head = running.length > 0 ? running[0] : null;
  s.core.control[Control.headSlot] = head === null ? -1 : head.slot;
  const budget = tokenBudget(s);
  runningPass(s, plan, budget);
  const numContinued = plan.numRequests;
  if (mayAdmit(s, plan)) waitingPass(s, plan, budget);

  // The native `run` has left the common prefix in `control`. That value is stale if anything changed blocks after
  // `run`.
  const fresh =
    numContinued > 0 && plan.numRequests === numContinued && plan.preempted.length === 0 && !s.blocksMoved;
  endSchedule(s, plan, fresh && running[0] === head ? s.core.control[Control.commonPrefix] : -1);
  loan?.giveBack(plan);
  return plan;
}

/**
 * Begins the plan of the next step: takes a free plan object, and ends requests whose deadline has passed or whose
 * connector failed at `add`.
 */
export function beginSchedule(s: SchedulerState): Plan {
  giveUpEmpty(s);
  const plan = freePlan(s);
  plan.begin(s.step++);
  s.openPlan = plan;
  // Native code still reads the slots of that plan from this frame, unless it was called since.
  const { control } = s.core;
  if (control[Control.numSampled] !== 0 && control[Control.sampledFrame] === plan.frame) s.core.flush();
  forgetLetGo(s);
  if (s.config.kvGroups !== null) s.core.native.beginStep();
  endExpired(s);
  if (s.doomed.length > 0) endDoomed(s);
  s.steady?.check();
  return plan;
}

/** Token budget of a step, the limit of `plan.totalTokens`: 0 while everything is paused. */
export function tokenBudget({ pauseMode, config }: SchedulerState): number {
  return pauseMode === 'all' ? 0 : config.maxNumBatchedTokens;
}

/** Whether the waiting pass may run: no request was preempted in this step, and admission is not paused. */
export function mayAdmit(s: SchedulerState, plan: Plan): boolean {
  return plan.preempted.length === 0 && s.pauseMode === 'none';
}

/**
 * Completes a plan that has all its entries, and submits it to the native core.
 * @param commonPrefix number of leading blocks that all running requests share; -1 = must be looked
 * up
 */
export function endSchedule(s: SchedulerState, plan: Plan, commonPrefix: number): void {
  if (s.config.kvGroups !== null) endGroups(s, plan, commonPrefix >= 0);
  else
    plan.groups[0].numCommonPrefixBlocks =
      commonPrefix >= 0 && mayShare(s) ? commonPrefix : findCommonPrefix(s);
  advance(s, plan);
  if (s.finishedIds.length > 0) {
    plan.finished = [...new Set(s.finishedIds)];
    plan.finishedHandles = s.finishedHandles;
    s.finishedIds = [];
    s.finishedHandles = [];
  }
  if (s.releasedHandles.length > 0) {
    plan.releasedHandles = s.releasedHandles;
    s.releasedHandles = [];
  }
  if (s.resetVictims.length > 0) noteResetVictims(s, plan);
  if (plan.totalTokens > 0) s.putInFlight(plan);
  else plan.awaitsUpdate = true;
  s.openPlan = null;
  if (s.config.reportBlocks) reportBlocks(s, plan);
  askConnector(s, plan);
  s.core.submit();
  s.kvEvents?.tell(plan.finishedHandles);
  if (channels.step.hasSubscribers) {
    const { step, numRequests, totalTokens } = plan;
    channels.step.publish({ step, numRequests, totalTokens, freeBlocks: s.core.freeBlocks });
  }
}

/** Lists requests that a forced reset has preempted before those of this step. */
function noteResetVictims(s: SchedulerState, plan: Plan): void {
  plan.preempted = [...s.resetVictims.map(({ id }) => id), ...plan.preempted];
  plan.preemptedHandles = [...s.resetVictims.map(({ handle }) => handle), ...plan.preemptedHandles];
  s.resetVictims = [];
}

/**
 * Completes the additional fields of a plan with KV cache groups. @param knowsPrefixes see
 * `noteCommonPrefixes`
 */
export function endGroups(s: SchedulerState, plan: Plan, knowsPrefixes: boolean): void {
  if (mayShare(s)) noteCommonPrefixes(s, plan, knowsPrefixes);
  if (s.connector !== null || s.config.reportBlocks || s.pipelined)
    noteDropped(s, plan, s.core.native.drainDropped());
  if (!s.groups.hasStates) return;
  const zeroed = withoutLoaded(s, plan, s.core.native.drainZeroed());
  plan.blocksToZero = zeroed.length > 0 ? zeroed : null;
}

/** Removes blocks that asynchronous loads of this step fill, with the deviation `zeroUnloaded`. */
function withoutLoaded({ config }: SchedulerState, { loadedBlocks }: Plan, zeroed: Int32Array): Int32Array {
  if (zeroed.length === 0 || loadedBlocks.length === 0 || !config.deviations.zeroUnloaded) return zeroed;
  const loaded = new Set(loadedBlocks.flatMap((blocks) => [...blocks]));
  return zeroed.filter((id) => !loaded.has(id));
}

/** @param letGo see `NativeCore.drainDropped` */
function noteDropped(s: SchedulerState, plan: Plan, letGo: Int32Array | null): void {
  plan.letGo = letGo ?? NO_BLOCKS;
  plan.droppedBlocks = letGo === null ? NO_BLOCKS : blocksLetGo(letGo);
  if (letGo !== null && plan.totalTokens === 0) s.letGoBetween.push({ step: plan.step, letGo });
  if (s.droppedAtEnd.length === 0) return;
  plan.droppedBlocks = joined(plan.droppedBlocks, Int32Array.from(s.droppedAtEnd));
  s.droppedAtEnd = [];
}

/** No step in flight may have read blocks that plans dropped before the oldest step was planned. */
function forgetLetGo({ inFlight, letGoBetween }: SchedulerState): void {
  while (letGoBetween.length > 0 && (inFlight.length === 0 || letGoBetween[0].step < inFlight[0].step))
    letGoBetween.shift();
}

/** @param areKnown whether the last `run` has left them in the control words */
function noteCommonPrefixes(s: SchedulerState, plan: Plan, areKnown: boolean): void {
  const { control, native } = s.core;
  if (!areKnown) {
    control[Control.headSlot] = s.queues.running[0].slot;
    native.commonPrefixGroups();
  }
  for (let g = 0; g < plan.groups.length; g++)
    plan.groups[g].numCommonPrefixBlocks = control[Control.groupCommonPrefix + g];
}

function mayShare({ queues, config }: SchedulerState): boolean {
  return queues.running.length > 0 && config.enablePrefixCaching;
}

function findCommonPrefix(s: SchedulerState): number {
  return mayShare(s) ? s.core.native.commonPrefix(s.queues.running[0].slot) : 0;
}

function reportBlocks(s: SchedulerState, plan: Plan): void {
  plan.takenBlocks = takenBy(s, plan);
  if (s.forgotten.size === 0) return;
  plan.forgottenBlocks = Int32Array.from(s.forgotten);
  s.forgotten.clear();
}

/**
 * Asks the connector for the plan's metadata, if there is one. Blocks that the connector pins or
 * unpins meanwhile count for this plan.
 */
export function askConnector(s: SchedulerState, plan: Plan): void {
  const { connector } = s;
  if (connector === null) return;
  if (isTold(s, connector) && !s.config.reportBlocks) plan.takenBlocks = takenBy(s, plan);
  const moved = s.blocksMoved;
  s.blocksMoved = false;
  attachMetadata(s, plan, connector);
  if (s.blocksMoved && s.config.kvGroups !== null && mayShare(s)) noteCommonPrefixes(s, plan, false);
  else if (s.blocksMoved) plan.groups[0].numCommonPrefixBlocks = findCommonPrefix(s);
  s.blocksMoved ||= moved;
}

/**
 * Whether the connector's workers receive the blocks that a plan takes. With `own`, blocks of a
 * running request change owners when they leave a window.
 */
function isTold({ config }: SchedulerState, { protection }: AskedConnector): boolean {
  return protection.includes('fence') || (config.kvGroups !== null && protection.includes('own'));
}

/**
 * Gives up the oldest empty plan if as many plans as `pipelineDepth` wait for their update and at least one of them is
 * empty. So `pipelineDepth` + 1 plan objects are enough.
 */
function giveUpEmpty({ plans, config }: SchedulerState): void {
  let waiting = 0;
  let oldest: Plan | null = null;
  for (const plan of plans) {
    if (!plan.awaitsUpdate) continue;
    waiting++;
    if (!plan.inFlight && (oldest === null || plan.step < oldest.step)) oldest = plan;
  }
  if (waiting >= config.pipelineDepth && oldest !== null) oldest.awaitsUpdate = false;
}

/**
 * A plan object to be reused. It waits for no update, and is not the plan scheduled last, which its
 * caller may still read.
 */
function freePlan(s: SchedulerState): Plan {
  return s.plans.find((plan) => !plan.awaitsUpdate && plan.step !== s.step - 1) as Plan;
}

/**
 * Ends requests whose connector failed at `add`. They end here and not in `add`, because by now the caller has their
 * handles.
 */
function endDoomed(s: SchedulerState): void {
  for (const request of s.doomed) endUnreported(s, request, FinishCode.error);
  s.doomed.length = 0;
}

/**
 * Gives the plan the metadata for its workers. Where a child has no metadata, its loads of this step never begin, so
 * they count as failed.
 */
function attachMetadata(s: SchedulerState, plan: Plan, connector: AskedConnector): void {
  const given = connector.askMetadata(plan);
  plan.connectorMetadata = given === FAILED ? undefined : given.metadata;
  plan.lacksMetadata = given === FAILED || given.failedChildren.length > 0;
  if (!plan.lacksMetadata) return;
  const isLost = (child: number): boolean => given === FAILED || given.failedChildren.includes(child);
  for (const load of plan.syncLoads) {
    if (!isLost(load.child)) continue;
    load.failed = true;
    for (const id of load.blocks) plan.missing.add(id);
  }
  loseLoadsOf(s, plan.step, isLost);
}

/**
 * Ids of the blocks that the plan took from the pool: for its entries, and for its loads. Also
 * included are blocks that it zeroes for a request that lost them again in the same step, for
 * instance because its connector failed.
 */
function takenBy(s: SchedulerState, plan: Plan): Int32Array {
  const taken: number[] = [];
  for (const blocks of plan.loadedBlocks) for (const id of blocks) taken.push(id);
  for (let i = 0; i < plan.numRequests; i++) {
    for (let g = 0; g < plan.groups.length; g++) {
      for (const id of newBlocksOf(s.core, plan, i, g)) if (id !== 0) taken.push(id);
    }
  }
  if (plan.blocksToZero === null) return Int32Array.from(taken);
  return Int32Array.from(new Set([...taken, ...plan.blocksToZero]));
}
