import { channels } from '../../base/channels.js';
import { Control } from '../../core/core.js';
import { type AskedConnector, FAILED } from '../connector/ask-connector.js';
import { endExpired } from '../life/expiry.js';
import { endUnreported } from '../life/finish.js';
import { loseLoadsOf } from '../loads/fence.js';
import { newBlocksOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { advance } from './advance.js';
import { runningPass } from './running-pass.js';
import { waitingPass } from './waiting-pass.js';

/** vLLM's `schedule()`: running requests first, then admissions if nothing was preempted. */
export function schedule(s: SchedulerState): Plan {
  const plan = beginSchedule(s);
  const { running } = s.queues;
  const head = running.length > 0 ? running[0] : null;
  s.core.control[Control.headSlot] = head === null ? -1 : head.slot;
  const budget = tokenBudget(s);
  runningPass(s, plan, budget);
  const numContinued = plan.numRequests;
  if (mayAdmit(s, plan)) waitingPass(s, plan, budget);

  // run() has left the common prefix behind; whatever happened after it makes that stale.
  const fresh =
    numContinued > 0 && plan.numRequests === numContinued && plan.preempted.length === 0 && !s.blocksMoved;
  endSchedule(s, plan, fresh && running[0] === head ? s.core.control[Control.commonPrefix] : -1);
  return plan;
}

/** An empty plan for the next step, when what is over by now has ended. */
export function beginSchedule(s: SchedulerState): Plan {
  giveUpEmpty(s);
  const plan = freePlan(s);
  plan.begin(s.step++);
  endExpired(s);
  if (s.doomed.length > 0) endDoomed(s);
  return plan;
}

/** What `plan.totalTokens` may grow to. */
export function tokenBudget({ pauseMode, config }: SchedulerState): number {
  return pauseMode === 'all' ? 0 : config.maxNumBatchedTokens;
}

/** Whether waiting requests have their turn behind the running ones: not where one was preempted, or admission is paused. */
export function mayAdmit(s: SchedulerState, plan: Plan): boolean {
  return plan.preempted.length === 0 && s.pauseMode === 'none';
}

/**
 * Completes a plan that has all its entries, and hands it out.
 * @param commonPrefix leading blocks that all rows share, as far as that is known already; -1: it is not
 */
export function endSchedule(s: SchedulerState, plan: Plan, commonPrefix: number): void {
  plan.numCommonPrefixBlocks = commonPrefix >= 0 && mayShare(s) ? commonPrefix : findCommonPrefix(s);
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
  plan.awaitsUpdate = true;
  if (plan.totalTokens > 0) {
    plan.inFlight = true;
    s.inFlight.push(plan);
  }
  // Behind that: what the plan is to compute is not settled yet (`KvView.extent`).
  if (s.config.reportBlocks) reportBlocks(s, plan);
  if (s.connector !== null) askConnector(s, plan, s.connector);
  s.core.submit();
  if (channels.step.hasSubscribers) {
    const { step, numRequests, totalTokens } = plan;
    channels.step.publish({ step, numRequests, totalTokens, freeBlocks: s.core.freeBlocks });
  }
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

/** What the plan's workers are to know. What the connector pins or lets go of meanwhile counts for the plan. */
function askConnector(s: SchedulerState, plan: Plan, connector: AskedConnector): void {
  if (connector.protection.includes('fence') && !s.config.reportBlocks) plan.takenBlocks = takenBy(s, plan);
  const moved = s.blocksMoved;
  s.blocksMoved = false;
  attachMetadata(s, plan, connector);
  if (s.blocksMoved) plan.numCommonPrefixBlocks = findCommonPrefix(s);
  s.blocksMoved ||= moved;
}

/**
 * At most `pipelineDepth` plans wait for their update, so that one object more than that is enough. If as many do and not all of
 * them are in flight, the oldest empty one is given up.
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

/** A plan that does not wait for its update, and is not the one scheduled last, which its caller may still read. */
function freePlan(s: SchedulerState): Plan {
  return s.plans.find((plan) => !plan.awaitsUpdate && plan.step !== s.step - 1) as Plan;
}

/** Whoever added them has their handle by now. */
function endDoomed(s: SchedulerState): void {
  for (const request of s.doomed) endUnreported(s, request, FinishCode.error);
  s.doomed.length = 0;
}

/** What goes to the workers with the plan. If there is none, what it was to begin never begins. */
function attachMetadata(s: SchedulerState, plan: Plan, connector: AskedConnector): void {
  const given = connector.askMetadata(plan);
  if (given !== FAILED) plan.connectorMetadata = given.metadata;
  if (given !== FAILED && given.failedChildren.length === 0) return;
  plan.lacksMetadata = true;
  const isLost = (child: number): boolean => given === FAILED || given.failedChildren.includes(child);
  for (const load of plan.syncLoads) {
    if (!isLost(load.child)) continue;
    load.failed = true;
    for (const id of load.blocks) plan.missing.add(id);
  }
  loseLoadsOf(s, plan.step, isLost);
}

/** The blocks that the plan's entries and its loads took from the pool. */
function takenBy(s: SchedulerState, plan: Plan): Int32Array {
  const lists = plan.loadedBlocks.slice();
  for (let i = 0; i < plan.numRequests; i++) lists.push(newBlocksOf(s.core, plan, i));
  // Not spread into a call: a list may be longer than a call can have arguments.
  return Int32Array.from(lists.flatMap((blocks) => [...blocks]));
}
