import type { ConnectorAnswer, ConnectorAnswers, ConnectorQuestion } from '../connector/ask-connector.js';
import type { TakenOutput } from '../connector/connector-output.js';

/** What the JSON of a log's record has to look like. Whether it fits the scheduler it is given to shows there. */
export type JsonCheck<T> = (value: unknown) => value is T;

type Fields = Record<string, unknown>;

/** The good answers to each question, told from everything else. */
const ANSWERS: { readonly [Q in ConnectorQuestion]: JsonCheck<ConnectorAnswers[Q]> } = {
  match: (value): value is ConnectorAnswers['match'] => {
    if (!isObject(value)) return false;
    const { numTokens, async: isAsync, child, wakes } = value;
    const isNumber = numTokens === null || isCount(numTokens);
    const areFlags = typeof isAsync === 'boolean' && typeof wakes === 'boolean';
    return isNumber && areFlags && !(isAsync && numTokens === 0) && isCount(child);
  },
  alloc: isTrue,
  finished: (value): value is ConnectorAnswers['finished'] => {
    if (!isObject(value)) return false;
    const { delayFree, children, transferParams } = value;
    const isList = Array.isArray(children) && children.every(isCount) && (!delayFree || children.length > 0);
    const hasParams = transferParams === undefined || isRecord(transferParams);
    return typeof delayFree === 'boolean' && isList && hasParams;
  },
  metadata: (value): value is ConnectorAnswers['metadata'] =>
    isObject(value) && isList(value['failedChildren'], isCount),
  delivery: (value): value is ConnectorAnswers['delivery'] =>
    isObject(value) && typeof value['answer'] === 'boolean',
  reset: (value): value is ConnectorAnswers['reset'] =>
    isObject(value) && ['boolean', 'undefined'].includes(typeof value['answer']),
  new: isTrue,
  output: isTrue,
  cancel: isTrue,
};

export function isObject(value: unknown): value is Fields {
  return isRecord(value) && !Array.isArray(value);
}

export function isConnectorAnswer(value: unknown): value is ConnectorAnswer {
  if (!isObject(value) || !isCount(value['handle'])) return false;
  const { question, answer } = value;
  if (typeof question !== 'string' || !Object.hasOwn(ANSWERS, question)) return false;
  return answer === 'failed' || ANSWERS[question as ConnectorQuestion](answer);
}

export function isTakenOutput(value: unknown): value is TakenOutput {
  if (!isObject(value)) return false;
  const { finishedReceiving, finishedSending, failedReceiving, renewed, invalidBlocks } = value;
  // Older logs have none.
  const { lostBlocks = [] } = value;
  const reports = [finishedReceiving, finishedSending, failedReceiving, renewed];
  return (
    reports.every((list) => isList(list, isReport)) &&
    isList(invalidBlocks, isInvalidBlock) &&
    isList(lostBlocks, isCount)
  );
}

function isReport(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { handle, child, rank, step } = value;
  return isCount(handle) && isCount(child) && isCount(rank) && (step === undefined || isCount(step));
}

function isInvalidBlock(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { block, handle, child } = value;
  return Number.isSafeInteger(block) && isCount(child) && (handle === undefined || isCount(handle));
}

function isList(value: unknown, isEntry: (entry: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isEntry);
}

function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

function isTrue(value: unknown): value is true {
  return value === true;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
