import { BlockstepError, show } from '../../base/errors.js';
import type { ParsedOutput } from '../connector/connector-output.js';
import { finish } from '../life/finish.js';
import { releaseFenced } from '../life/preempt.js';
import { endUnloaded } from '../loads/fence.js';
import { failLoads } from '../loads/load-failure.js';
import { loseBlocks } from '../loads/lost-blocks.js';
import { applyReports } from '../loads/reports.js';
import type { Plan } from '../plan/plan.js';
import type { StepOutputs } from '../plan/step-outputs.js';
import type { ParsedResult } from '../plan/step-result.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { failEntries } from './step-failure.js';
import { updatePass } from './update-pass.js';

const NO_TOKENS = new Int32Array(0);
const NOBODY: readonly Request[] = [];
const NONE: ReadonlySet<Request> = new Set();
const NO_BLOCKS: readonly number[] = [];

/**
 * Processes the result of a plan (vLLM `update_from_output`). First come failed entries, failed
 * loads and lost blocks, so that no request builds on the KV that they published. Then come the
 * tokens, and then the reports of transfers.
 */
export function update(
  s: SchedulerState,
  plan: Plan,
  result: ParsedResult,
  output: ParsedOutput | null,
): StepOutputs {
  beginUpdate(s, plan, result.tokens, output);
  const { errors } = result;
  const failed = errors === undefined ? NONE : failEntries(s, plan, (entry) => errors[entry] !== 0);
  const loses = output !== null || plan.syncLoads.some((load) => load.failed);
  const lost = loses ? failLoads(s, plan, output, failed) : NOBODY;
  const without = loseBlocks(s, plan, output?.lostBlocks ?? NO_BLOCKS);
  if (plan.syncLoads.length > 0) countLoads(s, plan, true);
  s.openPlan = null;
  updatePass(s, plan, result);
  return endUpdate(s, lost, without, output);
}

/** Processes the failure of a whole step: every entry failed. */
export function failStep(s: SchedulerState, plan: Plan, output: ParsedOutput | null): StepOutputs {
  beginUpdate(s, plan, NO_TOKENS, output);
  const failed = failEntries(s, plan, () => true);
  const lost = output === null ? NOBODY : failLoads(s, plan, output, failed);
  const without = output === null ? NOBODY : loseBlocks(s, plan, output.lostBlocks);
  if (plan.syncLoads.length > 0) countLoads(s, plan, false);
  s.openPlan = null;
  return endUpdate(s, lost, without, output);
}

/**
 * Ends an update, whether its step failed or not. @param unloaded requests whose load failed @param
 * without requests that lost blocks
 */
function endUpdate(
  s: SchedulerState,
  unloaded: readonly Request[],
  without: readonly Request[],
  output: ParsedOutput | null,
): StepOutputs {
  endLost(s, unloaded);
  endLost(s, without);
  if (s.failedGrammars.size > 0) endLost(s, [...s.failedGrammars]);
  if (output !== null) applyReports(s, output);
  // An engine that goes idle makes no plan that could report them.
  s.kvEvents?.tell();
  return s.outputs;
}

/**
 * Counts the tokens that the synchronous loads of a plan have brought. @param isGood false: the
 * step failed, so this is unknown
 */
function countLoads({ counters }: SchedulerState, { syncLoads }: Plan, isGood: boolean): void {
  for (const { isFirst, numTokens, numLoaded } of syncLoads) {
    const loaded = isGood ? numLoaded : 0;
    counters.externalHits += loaded;
    if (!isFirst) continue;
    counters.promptTokens += numTokens;
    counters.promptTokensLoaded += loaded;
  }
}

/** Processes reports of transfers outside a step: the transfer half of `update`. */
export function updateTransfers(s: SchedulerState, output: ParsedOutput): void {
  for (const request of failLoads(s, null, output, NONE)) endUnloaded(s, request);
  for (const request of loseBlocks(s, null, output.lostBlocks)) endUnloaded(s, request);
  applyReports(s, output);
  s.kvEvents?.tell();
}

/**
 * Ends requests whose load failed or whose blocks were lost. Their rows follow those of requests
 * that stopped.
 */
function endLost(s: SchedulerState, lost: readonly Request[]): void {
  for (const request of lost) {
    if (finish(s, request, FinishCode.error)) s.outputs.push(request, 0, 0, FinishCode.error);
    // As in vLLM the client gets no transfer params with such an end.
    request.finishedParams = null;
  }
}

/**
 * Checks that the plan may be updated next: the oldest plan in flight, or an empty plan that waits for its update.
 * @throws ERR_BLOCKSTEP_PLAN_ORDER
 */
export function checkOldest(s: SchedulerState, plan: Plan): void {
  if (s.inFlight.length > 0 && s.inFlight[0] === plan) return;
  if (s.plans.includes(plan) && plan.awaitsUpdate && !plan.inFlight) return;
  throw wrongPlan(s, plan);
}

/**
 * Checks that the plan is the plan scheduled last and that it is no longer in flight.
 * @throws ERR_BLOCKSTEP_PLAN_ORDER
 */
export function checkUpdatedLast(s: SchedulerState, plan: Plan): void {
  const isLast = s.plans.includes(plan) && plan.step === s.step - 1;
  if (!isLast || plan.inFlight) throw wrongPlan(s, plan);
}

/**
 * Removes the plan from the plans in flight, and keeps it open until its failures were processed.
 * Begins the outputs with the rows of requests that ended outside an update.
 */
function beginUpdate(s: SchedulerState, plan: Plan, tokens: Int32Array, output: ParsedOutput | null): void {
  leaveOut(s, plan);
  if (plan.inFlight) {
    s.removeFromFlight(plan);
    s.openPlan = plan;
    if (s.fencedFrees.length > 0) releaseFenced(s, false);
  }
  if (s.connector?.protection.includes('fence')) spoilEnded(plan);
  if (s.continued.length > 0) s.continued.length = 0;
  // Room for rows of requests outside the plan that may end now. Their load or their grammar
  // failed, or, if blocks were lost, they are any requests.
  const failing = s.withLoad.size + s.failedGrammars.size;
  const others = output === null || output.lostBlocks.length === 0 ? failing : s.requests.size;
  s.outputs.begin(tokens, plan.numRequests + s.unreported.length + others);
  if (s.unreported.length === 0) return;
  for (const request of s.unreported) s.outputs.push(request, 0, 0, request.finishCode);
  s.unreported.length = 0;
}

/** Empty plans up to the step being updated no longer wait for an update. */
function leaveOut({ plans }: SchedulerState, { step }: Plan): void {
  for (const plan of plans) if (plan.step <= step && !plan.inFlight) plan.awaitsUpdate = false;
}

/**
 * Marks entries of requests that have ended as not to be stored. Under the protection `fence` their
 * blocks were freed, and a later plan may have reused them.
 */
function spoilEnded({ requests, numRequests, spoiled }: Plan): void {
  for (let i = 0; i < numRequests; i++) if (requests[i].isFinished) spoiled[i] = 1;
}

function wrongPlan(s: SchedulerState, plan: unknown): BlockstepError {
  const due = s.plans.filter((each) => (each.inFlight ? each === s.inFlight[0] : each.awaitsUpdate));
  const steps = due.map(({ step }) => step).sort((a, b) => a - b);
  const expected =
    steps.length > 0 ? `the plan of step ${steps.join(' or ')}` : 'no plan: none waits for its update';
  const got = s.plans.includes(plan as Plan) ? describe(plan as Plan) : show(plan);
  return new BlockstepError('ERR_BLOCKSTEP_PLAN_ORDER', `expected ${expected}, got ${got}`);
}

function describe({ step, awaitsUpdate }: Plan): string {
  return `the plan of step ${step}${awaitsUpdate ? '' : ', which does not wait for its update any more'}`;
}
