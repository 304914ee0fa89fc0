import { BlockstepError, show } from '../../base/errors.js';
import { DecisionStop } from '../../core/decision.js';
import { NO_MATCH } from '../connector/connector-answers.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import type { Prefix } from '../schedule/admission.js';
import { ITSELF, indexBehind, planAgain, planRun, takeFromOthers } from '../schedule/running-pass.js';
import { beginSchedule, endSchedule, mayAdmit, tokenBudget } from '../schedule/schedule.js';
import {
  asksConnector,
  enter,
  findPrefix,
  findRoom,
  nextInLine,
  outgrows,
} from '../schedule/waiting-pass.js';
import { isLive } from '../state/guards.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { type Deciding, type GpuQuestion, LOOK_UP } from './gpu-question.js';

/**
 * `schedule()` where the GPU decides: the same plans by the same rules, in as few round trips as the rules allow. The
 * running requests and those in line behind them that need nobody's answer go in one. What asks somebody between two
 * decisions costs one more: each victim of a preemption, and each admission that a connector is told of.
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

/** As `runningPass` of the host. The question that ends it may have answered the first admissions too. */
function* runningPass(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): Deciding<void> {
  const { running } = s.queues;
  let next = 0;
  while (next < running.length && plan.totalTokens < budget) {
    const from = plan.numRequests;
    next = planRun(s, plan, next, budget - plan.totalTokens);
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

/** As `makeRoom` of the host, for an entry that the GPU has refused already. */
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

/** As `waitingPass` of the host. What the GPU has answered already is taken first. */
function* waitingPass(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): Deciding<void> {
  for (;;) {
    enterAdmitted(s, plan, question);
    const { stop, unfit } = question;
    if (stop === DecisionStop.budget || stop === DecisionStop.requests) break;
    if (unfit !== null && !findRoom(s, plan, unfit.request, stop === DecisionStop.rows)) {
      if (stop === DecisionStop.rows) s.counters.rowStalls++;
      break;
    }
    const first = unfit ?? nextPrefix(s, plan, budget);
    if (first === null) break;
    question.clear();
    question.admissions.push(first);
    addFromLine(s, plan, question, budget);
    yield* question.decide(plan, plan.numRequests, budget);
  }
  s.queues.endPass();
}

/** Those of the question that have their row and their blocks. Each was the head of the line when those before it had entered. */
function enterAdmitted(s: SchedulerState, plan: Plan, question: GpuQuestion): void {
  for (let i = 0; i < question.numAdmitted; i++) {
    enter(
      s,
      plan,
      s.queues.nextQueue() as RequestQueue,
      question.admissions[i],
      question.numTokens(i),
      question.numBlocks(i),
    );
  }
  if (question.stop !== DecisionStop.hits) return;
  const { request, numHits } = question.admissions[question.numAdmitted];
  const found = `only ${numHits} of the blocks that request ${show(request.id)} was told of are cached`;
  throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', found);
}

/** The request at the head of the line. Its prefix is looked up here only where a connector is to be told of it. */
function nextPrefix(s: SchedulerState, plan: Plan, budget: number): Prefix | null {
  for (;;) {
    const queue = nextInLine(s, plan, budget);
    if (queue === null) return null;
    const request = queue.peek() as Request;
    const prefix = asksConnector(s, request) ? findPrefix(s, queue) : unknownPrefix(request);
    if (prefix !== null) return prefix;
  }
}

function unknownPrefix(request: Request): Prefix {
  const fresh = request.numComputedTokens === 0;
  return { request, fresh, numHits: LOOK_UP, numHeld: 0, external: NO_MATCH };
}

/**
 * Adds those that stand in line behind the admissions of the question, as long as nobody has to be asked about them and the
 * budget is not sure to be used up by those before.
 */
function addFromLine(s: SchedulerState, plan: Plan, question: GpuQuestion, budget: number): void {
  // It is told of each admission, and what it does then may change the next.
  if (s.connector !== null) return;
  const { admissions } = question;
  const threshold = s.config.longPrefillTokenThreshold || budget;
  let tokens = budget - plan.totalTokens;
  for (const { request } of admissions)
    tokens -= Math.min(threshold, request.numTokens - request.numComputedTokens);
  const places = s.config.maxNumSeqs - s.queues.running.length;
  const first = admissions.length === 0 ? null : admissions[0].request;
  for (const request of s.queues.line()) {
    if (request === first) continue;
    if (tokens <= 0 || admissions.length >= places || !isPlain(s, request)) return;
    admissions.push(unknownPrefix(request));
    tokens -= Math.min(threshold, request.numTokens - request.numComputedTokens);
  }
}

/** Whether it is admitted as soon as it is the first in line and fits, without anybody being asked. */
function isPlain(s: SchedulerState, request: Request): boolean {
  const { maxLoras } = s.config;
  return (
    isLive(s.requests, request) &&
    !isBlocked(request.status) &&
    (maxLoras === 0 || request.adapter === '') &&
    !outgrows(s, request)
  );
}
