import { BlockstepError, describeError, show } from '../../base/errors.js';
import type { ConnectorOutput } from '../../scheduler/connector/connector.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import { checkDrafts, parseAnswer, parseDrafts } from '../executor/answer.js';
import { type FailureOf, schedulerFailure } from '../requests/publish.js';
import type { EngineState } from '../state/engine-state.js';
import type { Step } from '../state/step.js';

/** The outcome of a step's answer. */
export interface AppliedAnswer {
  readonly outputs: StepOutputs;
  /** One value per token of `outputs.tokens`, at the same index; null = none. */
  readonly extras: readonly unknown[] | null;
  /** The error of a request whose row failed. */
  readonly failureOf: FailureOf;
}

/**
 * Passes the answer of the oldest step to the scheduler. Wrong rows fail alone if the counts tell
 * which tokens belong to the other rows; otherwise the whole step fails.
 */
export function applyAnswer(e: EngineState, step: Step, reports: ConnectorOutput | null): AppliedAnswer {
  if (step.state === 'failed') return failStep(e, step, reports);
  const parsed = parseAnswer(step.plan, step.answer);
  const { result, extras, wrong, faults, lostBlocks } = parsed;
  for (const fault of faults) e.countWrongAnswer(step.number, fault);
  // The scheduler counts ids that name no block.
  const output = lostBlocks.length === 0 ? reports : { ...reports, lostBlocks: lostBlocks as number[] };
  if (result === null) {
    step.fail(parsed.error);
    e.countWrongAnswer(step.number, parsed.error);
    return failStep(e, step, output);
  }
  step.parsed = parsed;
  const outputs = e.scheduler.update(step.plan, result, output);
  for (const [request, what] of wrong)
    e.countWrongAnswer(step.number, `request ${show(request.id)}: ${what}`);
  const failureOf: FailureOf = (request) => rowFailure(step.plan, result.errors, request, wrong.get(request));
  return { outputs, extras, failureOf };
}

/**
 * Passes the draft tokens of the step that was just applied to the scheduler. Drafts are hints:
 * wrong drafts are counted and dropped.
 */
export function applyDrafts(e: EngineState, step: Step): void {
  const { pipelineDepth, numSpeculativeTokens } = e.scheduler.config;
  const drafts = step.parsed?.drafts;
  if (drafts === undefined || numSpeculativeTokens === 0) return;
  try {
    if (pipelineDepth === 1) e.scheduler.updateDraftTokens(step.plan, parseDrafts(drafts));
    else replaceDrafts(e, step.plan, drafts);
  } catch (error) {
    if (error instanceof BlockstepError && !isBadArgument(error)) throw error;
    e.countWrongAnswer(step.number, error);
  }
}

/**
 * With several steps in flight, drafts stay with the executor, which verifies its own. The
 * exception is a next step that is kept back until its grammars know the earlier tokens. Its plan
 * has placeholders, and the drafts of the applied step replace them.
 */
function replaceDrafts(e: EngineState, from: Plan, drafts: unknown): void {
  const next = e.flight.length === 0 ? null : e.flight[0];
  if (next === null || next.state !== 'kept back' || !next.plan.pendingStructuredOutputTokens) return;
  const { tokens, counts } = parseDrafts(drafts);
  checkDrafts(from, tokens, counts);
  const starts = new Int32Array(from.numRequests);
  for (let i = 1; i < from.numRequests; i++) starts[i] = starts[i - 1] + counts[i - 1];
  const { plan } = next;
  const moved: number[] = [];
  const movedCounts = new Int32Array(plan.numRequests);
  for (let i = 0; i < plan.numRequests; i++) {
    const at = from.indexOf(plan.requests[i]);
    if (at < 0 || plan.numDraftTokens[i] === 0) continue;
    movedCounts[i] = counts[at];
    moved.push(...tokens.subarray(starts[at], starts[at] + counts[at]));
  }
  e.scheduler.replaceDraftTokens(plan, { tokens: Int32Array.from(moved), counts: movedCounts });
}

function failStep(e: EngineState, step: Step, output: ConnectorOutput | null): AppliedAnswer {
  const cause = step.answer;
  const what = describeError(cause);
  return {
    outputs: e.scheduler.failStep(step.plan, output),
    extras: null,
    failureOf: ({ id }) => failure(`the step of request ${show(id)} failed: ${what}`, { cause }),
  };
}

function rowFailure(
  plan: Plan,
  errors: Uint8Array | undefined,
  request: Request,
  wrong?: string,
): BlockstepError {
  const name = `request ${show(request.id)}`;
  if (wrong !== undefined) return failure(`the executor answered ${name} wrongly: ${wrong}`);
  const code = errors?.[plan.indexOf(request)] ?? 0;
  if (code === 0) return schedulerFailure(request);
  return failure(`the executor failed ${name} with error ${code}`);
}

function failure(message: string, options?: ErrorOptions): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', message, options);
}

function isBadArgument(error: unknown): boolean {
  return error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_BAD_ARG';
}
