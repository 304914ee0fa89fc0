import { isCount, isList, isObject } from '../../base/checks.js';
import { type ConnectorAnswer, isConnectorQuestion, isGoodAnswer } from '../connector/connector-answers.js';
import {
  isParsedInvalid,
  isParsedReport,
  type ParsedOutput,
  TRANSFER_LISTS,
} from '../connector/connector-output.js';

/**
 * Checks the JSON of a record in a log. Whether the content fits the scheduler is only decided
 * during the replay.
 */
export type JsonCheck<T> = (value: unknown) => value is T;

/** Whether JSON is a record of a connector's answer. */
export function isConnectorAnswer(value: unknown): value is ConnectorAnswer {
  if (!isObject(value) || !isCount(value['handle'])) return false;
  const { question, answer } = value;
  if (!isConnectorQuestion(question)) return false;
  // The record does not say how many children the connector has, so any count names a child.
  return answer === 'failed' || isGoodAnswer(question, answer, isCount);
}

/** Whether JSON is a record of the reports of workers. */
export function isParsedOutput(value: unknown): value is ParsedOutput {
  if (!isObject(value)) return false;
  // Older logs have no list of lost blocks.
  const { invalidBlocks, lostBlocks = [] } = value;
  return (
    TRANSFER_LISTS.every((name) => isList(value[name], isParsedReport)) &&
    isList(invalidBlocks, isParsedInvalid) &&
    isList(lostBlocks, isCount)
  );
}
