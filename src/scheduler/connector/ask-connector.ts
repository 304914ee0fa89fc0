import { describeError, show } from '../../base/errors.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { type FinishCode, finishReasonOf } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { type ConnectorOutput, type Finished, type Match, PartialMetadata } from './connector.js';
import type { ConnectorCalls } from './connector-methods.js';
import type { BlockLists, HandOver } from './kv-view.js';

/** The answer of a connector that threw, or answered what makes no sense. */
export const FAILED = Symbol('the connector failed');

/** An answer that was checked. */
export type TakenMatch = Required<Match>;
export type TakenFinished = Required<Omit<Finished, 'transferParams'>> & Pick<Finished, 'transferParams'>;

/** The good answers to each question, as plain data. Where the answer decides nothing it is `true`. */
export interface ConnectorAnswers {
  match: TakenMatch;
  alloc: true;
  finished: TakenFinished;
  /** The children whose loads of this plan never begin. */
  metadata: { failedChildren: readonly number[] };
  delivery: { answer: boolean };
  reset: { answer?: boolean | undefined };
  new: true;
  output: true;
  cancel: true;
}

export type ConnectorQuestion = keyof ConnectorAnswers;

/** A connector's answer to one question, as it stands in a log. */
export interface ConnectorAnswer {
  /** The request that it is about; 0 = none. */
  handle: number;
  question: ConnectorQuestion;
  /** `failed` where there was no good answer. */
  answer: ConnectorAnswers[ConnectorQuestion] | 'failed';
}

/** The answer of one that has nothing, or was not asked. */
export const NO_MATCH: TakenMatch = { numTokens: 0, async: false, child: 0, wakes: false };

/**
 * What the connector can bring of a request beyond `numLocal` tokens. Of a synchronous load the last token is left to be
 * computed.
 */
export function askMatch(s: SchedulerState, request: Request, numLocal: number): TakenMatch | typeof FAILED {
  const most = request.numTokens - numLocal;
  const given = ask(s, request, 'match', ({ getNumNewMatchedTokens }) => {
    const answer = getNumNewMatchedTokens(request, numLocal) as Match;
    const { numTokens, async: isAsync, child = 0, wakes = false } = answer;
    const good =
      (numTokens === null || (Number.isInteger(numTokens) && numTokens >= 0 && numTokens <= most)) &&
      typeof isAsync === 'boolean' &&
      !(isAsync && numTokens === 0) &&
      typeof wakes === 'boolean' &&
      isChild(s, child);
    return good ? { numTokens, async: isAsync, child, wakes } : undefined;
  });
  if (given === FAILED || given.async || given.numTokens === null) return given;
  return given.numTokens < most ? given : { ...given, numTokens: most - 1 };
}

/** Tells the connector of an admission. */
export function tellAllocated(
  s: SchedulerState,
  request: Request,
  blocks: BlockLists,
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
  reason: FinishCode,
  handOver: HandOver,
): TakenFinished | typeof FAILED {
  return ask(s, request, 'finished', ({ requestFinished, protection }) => {
    const answer = requestFinished(request, finishReasonOf(reason), handOver) as Finished;
    const { delayFree, children = [0], transferParams } = answer;
    const good =
      typeof delayFree === 'boolean' &&
      (!delayFree || protection.includes('own')) &&
      Array.isArray(children) &&
      (!delayFree || (children.length > 0 && children.every((child) => isChild(s, child)))) &&
      (transferParams === undefined || (typeof transferParams === 'object' && transferParams !== null));
    if (!good) return undefined;
    const taken = { delayFree, children: delayFree ? ([...new Set(children)] as number[]) : [] };
    return transferParams === undefined ? taken : { ...taken, transferParams };
  });
}

/** The metadata for the workers of a plan, and the children that could make none. */
export interface TakenMetadata {
  readonly metadata: unknown;
  readonly failedChildren: readonly number[];
}

/** The metadata for the workers of this plan. What a child could not make is counted as the failure of that child. */
export function askMetadata(s: SchedulerState, plan: Plan): TakenMetadata | typeof FAILED {
  let metadata: unknown;
  const given = ask(s, null, 'metadata', ({ buildMetadata }) => {
    const answer = buildMetadata(plan);
    if (!(answer instanceof PartialMetadata)) {
      metadata = answer;
      return { failedChildren: [] };
    }
    const { failedChildren } = answer;
    metadata = answer.metadata;
    const isList = Array.isArray(failedChildren) && failedChildren.every((child) => isChild(s, child));
    return isList ? { failedChildren: [...new Set(failedChildren)] } : undefined;
  });
  if (given === FAILED) return FAILED;
  for (const child of given.failedChildren) fail(s, null, `could not make the metadata of child ${child}`);
  return { metadata, ...given };
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

/** The calls below decide nothing. Two of them stand in a log all the same: a connector may pin and unpin there. */
export function tellOutput(s: SchedulerState, output: ConnectorOutput): void {
  if (s.connector?.updateConnectorOutput === undefined) return;
  ask(s, null, 'output', ({ updateConnectorOutput }) => {
    updateConnectorOutput?.(output);
    return true;
  });
}

export function tellCancel(s: SchedulerState, request: Request): void {
  if (s.connector?.cancelSending === undefined) return;
  ask(s, null, 'cancel', ({ cancelSending }) => {
    cancelSending?.(request);
    return true;
  });
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
function ask<Q extends ConnectorQuestion>(
  s: SchedulerState,
  request: Request | null,
  question: Q,
  call: (connector: ConnectorCalls) => ConnectorAnswers[Q] | undefined,
): ConnectorAnswers[Q] | typeof FAILED {
  let answer: ConnectorAnswers[Q] | typeof FAILED = FAILED;
  try {
    answer = call(s.connector as ConnectorCalls) ?? FAILED;
    if (answer === FAILED) fail(s, request, `answered ${question} with what makes no sense`);
  } catch (error) {
    fail(s, request, `threw at ${question}: ${describeError(error)}`);
  }
  if (s.facts !== null) {
    const fact = answer === FAILED ? 'failed' : asPlain(answer);
    s.facts.connector({ handle: request?.handle ?? 0, question, answer: fact });
  }
  return answer;
}

/** Transfer params may be anything. They decide nothing, so what no log can hold of them is left out. */
function asPlain<T>(answer: T): T {
  if (typeof answer !== 'object' || answer === null || !('transferParams' in answer)) return answer;
  const { transferParams, ...rest } = answer;
  try {
    const plain = JSON.parse(JSON.stringify(transferParams)) as unknown;
    if (typeof plain === 'object' && plain !== null) return { ...rest, transferParams: plain } as T;
  } catch {
    // Left out.
  }
  return rest as T;
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
  s.anomalies.report('connector-failed', `the connector${who} ${what}`, request);
}

function isChild(s: SchedulerState, child: unknown): child is number {
  return Number.isInteger(child) && (s.connector?.reporters[child as number] ?? null) !== null;
}
