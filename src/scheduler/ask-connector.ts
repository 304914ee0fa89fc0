import { describeError, show } from '../core/errors.js';
import type { ConnectorOutput, Finished, Match } from './connector.js';
import type { ConnectorCalls } from './connector-calls.js';
import type { Plan } from './plan.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import type { FinishReason } from './status.js';

/** The answer of a connector that threw, or answered what makes no sense. */
export const FAILED = Symbol('the connector failed');

/** A connector's answer to one question, as it stands in a log. */
export interface ConnectorAnswer {
  handle: number;
  question: 'match' | 'alloc' | 'finished' | 'metadata' | 'delivery' | 'reset' | 'new';
  /** As plain data; `failed` where there was no good answer. */
  answer: unknown;
}

/** An answer that was checked. */
export type TakenMatch = Required<Match>;
export type TakenFinished = Required<Omit<Finished, 'transferParams'>> & Pick<Finished, 'transferParams'>;

const NOTHING: TakenMatch = { numTokens: 0, async: false, child: 0 };

/**
 * What the connector can bring of a request beyond `numLocal` tokens. Of a synchronous load the last token is left to be
 * computed.
 */
export function askMatch(s: SchedulerState, request: Request, numLocal: number): TakenMatch | typeof FAILED {
  if (s.connector === null) return NOTHING;
  const most = request.numTokens - numLocal;
  const given = ask(s, request, 'match', ({ getNumNewMatchedTokens }) => {
    const answer = getNumNewMatchedTokens(request, numLocal) as Match;
    const { numTokens, async: isAsync, child = 0 } = answer;
    const good =
      (numTokens === null || (Number.isInteger(numTokens) && numTokens >= 0 && numTokens <= most)) &&
      typeof isAsync === 'boolean' &&
      !(isAsync && numTokens === 0) &&
      isChild(s, child);
    return good ? { numTokens, async: isAsync, child } : undefined;
  });
  if (given === FAILED || given.async || given.numTokens === null) return given;
  return given.numTokens < most ? given : { ...given, numTokens: most - 1 };
}

/** Tells the connector of an admission. */
export function tellAllocated(
  s: SchedulerState,
  request: Request,
  blocks: Int32Array,
  numExternal: number,
): boolean {
  const told = ask(s, request, 'alloc', ({ updateStateAfterAlloc }) => {
    updateStateAfterAlloc(request, blocks, numExternal);
    return true;
  });
  return told !== FAILED;
}

/** What the connector decides about a request that has just ended. */
export function askFinished(
  s: SchedulerState,
  request: Request,
  reason: FinishReason,
  blocks: Int32Array,
): TakenFinished | typeof FAILED {
  return ask(s, request, 'finished', ({ requestFinished }) => {
    const answer = requestFinished(request, reason, blocks) as Finished;
    const { delayFree, children = [0], transferParams } = answer;
    const good =
      typeof delayFree === 'boolean' &&
      Array.isArray(children) &&
      (!delayFree || (children.length > 0 && children.every((child) => isChild(s, child)))) &&
      (transferParams === undefined || (typeof transferParams === 'object' && transferParams !== null));
    if (!good) return undefined;
    const taken = { delayFree, children: [...new Set(children)] as number[] };
    return transferParams === undefined ? taken : { ...taken, transferParams };
  });
}

/** The metadata for the workers of this plan. */
export function askMetadata(s: SchedulerState, plan: Plan): unknown {
  const given = ask(s, null, 'metadata', ({ buildMetadata }) => ({ metadata: buildMetadata(plan) }));
  return given === FAILED ? FAILED : given.metadata;
}

/** Whether the request must not end without blocks to send. */
export function askDelivery(s: SchedulerState, request: Request): boolean {
  if (s.connector?.requiresKvDelivery === undefined) return false;
  const given = ask(s, request, 'delivery', ({ requiresKvDelivery }) => {
    const answer = requiresKvDelivery?.(request);
    return typeof answer === 'boolean' ? { answer } : undefined;
  });
  return given !== FAILED && given.answer;
}

/** Whether its tier is empty now: null if it has none, or cannot tell. */
export function askReset(s: SchedulerState): boolean | null {
  if (s.connector?.resetCache === undefined) return null;
  const given = ask(s, null, 'reset', ({ resetCache }) => {
    const answer = resetCache?.();
    return typeof answer === 'boolean' || answer === undefined ? { answer } : undefined;
  });
  return given === FAILED ? false : (given.answer ?? null);
}

export function tellNew(s: SchedulerState, request: Request): boolean {
  if (s.connector?.onNewRequest === undefined) return true;
  const told = ask(s, request, 'new', ({ onNewRequest }) => {
    onNewRequest?.(request);
    return true;
  });
  return told !== FAILED;
}

/** The calls below decide nothing. */
export function tellOutput(s: SchedulerState, output: ConnectorOutput): void {
  tell(s, 'updateConnectorOutput', ({ updateConnectorOutput }) => updateConnectorOutput?.(output));
}

export function tellCancel(s: SchedulerState, request: Request): void {
  tell(s, 'cancelSending', ({ cancelSending }) => cancelSending?.(request));
}

export function tellShutdown(s: SchedulerState): void {
  tell(s, 'shutdown', ({ shutdown }) => shutdown?.());
}

export function askPendingWork(s: SchedulerState): boolean {
  let pending = false;
  tell(s, 'hasPendingWork', ({ hasPendingWork }) => {
    pending = hasPendingWork?.() === true;
  });
  return pending;
}

/**
 * The one place that asks a connector. Whatever it does costs a request at most: an exception and a bad answer are counted
 * and become `FAILED`. Answers are facts for the log.
 */
function ask<T>(
  s: SchedulerState,
  request: Request | null,
  question: ConnectorAnswer['question'],
  call: (connector: ConnectorCalls) => T | undefined,
): T | typeof FAILED {
  let answer: T | typeof FAILED = FAILED;
  try {
    answer = call(s.connector as ConnectorCalls) ?? FAILED;
    if (answer === FAILED) fail(s, request, `answered ${question} with what makes no sense`);
  } catch (error) {
    fail(s, request, `threw at ${question}: ${describeError(error)}`);
  }
  if (s.facts !== null) {
    const fact = answer === FAILED ? 'failed' : question === 'metadata' ? true : answer;
    s.facts.connector({ handle: request?.handle ?? 0, question, answer: fact });
  }
  return answer;
}

function tell(s: SchedulerState, what: string, call: (connector: ConnectorCalls) => void): void {
  if (s.connector === null) return;
  try {
    call(s.connector);
  } catch (error) {
    fail(s, null, `threw at ${what}: ${describeError(error)}`);
  }
}

function fail(s: SchedulerState, request: Request | null, what: string): void {
  if (request !== null) request.failure ??= `its connector ${what}`;
  const who = request === null ? '' : ` of request ${show(request.id)}`;
  s.anomalies.report('connector-failed', `the connector${who} ${what}`);
}

function isChild(s: SchedulerState, child: unknown): child is number {
  return Number.isInteger(child) && (s.connector?.reporters[child as number] ?? null) !== null;
}
