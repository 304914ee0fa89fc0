import { isCount, isList, isObject } from '../../base/checks.js';
import { type ConnectorAnswer, isConnectorQuestion, isGoodAnswer } from '../connector/connector-answers.js';
import { isTakenInvalid, isTakenReport, type TakenOutput } from '../connector/connector-output.js';

/** What the JSON of a log's record has to look like. Whether it fits the scheduler it is given to shows there. */
export type JsonCheck<T> = (value: unknown) => value is T;

export function isConnectorAnswer(value: unknown): value is ConnectorAnswer {
  if (!isObject(value) || !isCount(value['handle'])) return false;
  const { question, answer } = value;
  if (!isConnectorQuestion(question)) return false;
  // How many children the connector had, the record does not say.
  return answer === 'failed' || isGoodAnswer(question, answer, isCount);
}

export function isTakenOutput(value: unknown): value is TakenOutput {
  if (!isObject(value)) return false;
  const { finishedReceiving, finishedSending, failedReceiving, renewed, invalidBlocks } = value;
  // Older logs have none.
  const { lostBlocks = [] } = value;
  const reports = [finishedReceiving, finishedSending, failedReceiving, renewed];
  return (
    reports.every((list) => isList(list, isTakenReport)) &&
    isList(invalidBlocks, isTakenInvalid) &&
    isList(lostBlocks, isCount)
  );
}
