// The two passes of `schedule/` as generators that yield while a decision is under way.
import { BlockstepError, show } from '../../base/errors.js';
import { DecisionStop } from '../../core/decision.js';
import { NO_MATCH } from '../connector/connector-answers.js';
import { reclaimOwn } from '../life/reclaim.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import { computedAtAdmission, type Prefix } from '../schedule/admission.js';
import { awaitsOutputs, freeSeats, nextInLine, outgrows, tokensLeft } from '../schedule/line.js';
import { draftsToPad, padEntry } from '../schedule/padding.js';
import { ITSELF, indexBehind, planAgain, planRun, takeFromOthers } from '../schedule/running-pass.js';
import { beginSchedule, endSchedule, mayAdmit, tokenBudget } from '../schedule/schedule.js';
import { asksConnector, enter, findPrefix, findRoom } from '../schedule/waiting-pass.js';
import { isLive } from '../state/guards.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { type Deciding, type GpuQuestion, LOOK_UP } from './gpu-question.js';

/**
 * `schedule()` where the GPU decides. It makes the same plan as `schedule` of the host, in as few
 * round trips to the GPU as the rules allow. One round trip covers the running requests. It also
 * covers the next requests in line, up to one that needs a question to a grammar, a connector or
 * the adapters. Each victim of a preemption costs one more, and so does each admission that is
 * reported to a connector.
 * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR, ERR_BLOCKSTEP_INVARIANT; the decision of the
 * GPU is then unknown or impossible
 */
export function* scheduleOnDevice(s: SchedulerState, question: GpuQuestion): Deciding<Plan> {
  const plan = beginSchedule(s);
  const budget = tokenBudget(s);
  question.clear();
  yield* runningPass(s, plan, question, budget);
  if (mayAdmit(s, plan)) yield* waitingPass(s, plan, question, budget);
  endSchedule(s, plan, -1);
  return plan;
}

/**
 * Like `runningPass` of the host. The last question of this pass may have answered the first
 * admissions too.
 */
function* runningPass(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): Deciding<void> {
  const { running } = s.queues;
  let next = 0;
  for (;;) {
    const left = tokensLeft(s, plan, budget);
    if (next >= running.length || left <= 0) break;
    const from = plan.numRequests;
    next = planRun(s, plan, next, left);
    if (plan.numRequests === from) break;
    question.clear();
    if (mayAdmit(s, plan)) addFromLine(s, plan, question, budget);
    const at = yield* question.decide(plan, from, budget);
    if (at === plan.numRequests) continue;

    const request = plan.requests[at];
    const numScheduled = plan.numScheduledTokens[at];
    plan.truncate(at);
    next = running.indexOf(request);
    const entriesBack = yield* makeRoom(s, plan, question, request, numScheduled, budget);
    if (entriesBack === ITSELF) break;
    next = indexBehind(s, request, next, entriesBack);
  }
}

/** Like `makeRoom` of the host, for an entry for which the GPU found no blocks. */
function* makeRoom(
  s: SchedulerState,
  plan: Plan,
  question: GpuQuestion,
  request: Request,
  numScheduled: number,
  budget: number,
): Deciding<number> {
  const numDrafts = plan.numDraftTokens[plan.numRequests];
  let entriesBack = 0;
  for (;;) {
    const left = takeFromOthers(s, plan, request);
    if (left < 0) return left;
    entriesBack += left;
    const at = planAgain(s, plan, request, numScheduled, numDrafts);
    question.clear();
    if ((yield* question.decide(plan, at, budget)) > at) return entriesBack;
    plan.truncate(at);
  }
}

/**
 * Like `waitingPass` of the host. It begins with the admissions that the GPU has answered already.
 */
function* waitingPass(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): Deciding<void> {
  for (;;) {
    enterAdmitted(s, plan, question);
    const { stop, unfit } = question;
    if (stop === DecisionStop.budget || stop === DecisionStop.requests) break;
    const finds = unfit !== null && findRoom(s, plan, unfit.request, stop === DecisionStop.rows);
    if (unfit !== null && !finds) {
      if (stop === DecisionStop.rows) s.counters.rowStalls++;
      if (!reclaimOwn(s, plan, unfit.request)) break;
    }
    const first = finds ? unfit : nextPrefix(s, plan, budget);
    if (first === null) break;
    question.clear();
    question.admissions.push(first);
    addFromLine(s, plan, question, budget);
    yield* question.decide(plan, plan.numRequests, budget);
  }
  s.queues.endPass();
}

/**
 * Enters the admitted requests of an answered question. Each is the head of the line when the
 * previous ones have entered.
 * @throws ERR_BLOCKSTEP_INVARIANT if fewer blocks are cached than were reported to the connector
 */
function enterAdmitted(s: SchedulerState, plan: Plan, question: GpuQuestion): void {
  for (let i = 0; i < question.numAdmitted; i++) {
    const prefix = question.admissions[i];
    const { request } = prefix;
    const missing = request.numTokens - computedAtAdmission(s, prefix);
    const numDrafts = missing === 1 && !prefix.external.async ? draftsToPad(s, plan, request) : 0;
    const queue = s.queues.nextQueue() as RequestQueue;
    enter(s, plan, queue, prefix, question.numTokens(i), question.numBlocks(i));
    if (numDrafts > 0) padEntry(s, plan, request, numDrafts);
  }
  if (question.stop !== DecisionStop.hits) return;
  const { request, numHits } = question.admissions[question.numAdmitted];
  const found = `only ${numHits} of the blocks that request ${show(request.id)} was told of are cached`;
  throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', found);
}

/**
 * The prefix of the next request to be admitted. The host looks it up only if a connector is asked about it; otherwise
 * the GPU does.
 * @returns null if this step admits no more requests
 */
function nextPrefix(s: SchedulerState, plan: Plan, budget: number): Prefix | null {
  for (;;) {
    const queue = nextInLine(s, plan, budget);
    if (queue === null) return null;
    const request = queue.peek() as Request;
    if (!asksConnector(s, request)) return unknownPrefix(s, request);
    const prefix = findPrefix(s, queue);
    if (prefix !== null) return prefix;
  }
}

/** A prefix whose hits the GPU looks up. */
function unknownPrefix(s: SchedulerState, request: Request): Prefix {
  const fresh = request.numComputedTokens === 0;
  const numHeld = fresh ? 0 : s.core.blocks(request.slot).length;
  return { request, fresh, numHits: LOOK_UP, numHeld, external: NO_MATCH };
}

/**
 * Adds to the question the requests in line behind its admissions. It ends at the first request
 * that needs a question to a callback or the adapters. It also ends where the previous requests are
 * sure to use up the token budget.
 */
function addFromLine(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): void {
  // The connector is notified of each admission, and its reaction may change the next one.
  if (s.connector !== null) return;
  const { admissions } = question;
  const threshold = s.config.longPrefillTokenThreshold || budget;
  const { draftSlots } = s.config;
  let tokens = tokensLeft(s, plan, budget);
  for (const { request } of admissions)
    tokens -= Math.min(threshold, request.numTokens - request.numComputedTokens) + draftSlots;
  const places = freeSeats(s);
  const first = admissions.length === 0 ? null : admissions[0].request;
  for (const request of s.queues.line()) {
    if (request === first) continue;
    if (tokens <= 0 || admissions.length >= places || !isPlain(s, request)) return;
    admissions.push(unknownPrefix(s, request));
    tokens -= Math.min(threshold, request.numTokens - request.numComputedTokens) + draftSlots;
  }
}

/**
 * Whether a request is admitted as soon as it is first in line and fits, without a question to a
 * grammar or to the adapters.
 */
function isPlain(s: SchedulerState, request: Request): boolean {
  const { maxLoras } = s.config;
  return (
    isLive(s.requests, request) &&
    !isBlocked(request.status) &&
    !awaitsOutputs(s, request) &&
    (maxLoras === 0 || request.adapter === '') &&
    !outgrows(s, request)
  );
}
