import { isCount, isList, isObject, isRecord } from '../../base/checks.js';
import type { Finished, Match } from './connector.js';

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

type Rule = (answer: unknown, isChild: (child: unknown) => boolean) => boolean;

const isTrue: Rule = (answer) => answer === true;

/** What a good answer to each question is. */
const RULES: Readonly<Record<ConnectorQuestion, Rule>> = {
  match: (answer, isChild) => {
    if (!isObject(answer)) return false;
    const { numTokens, async: isAsync, child, wakes } = answer;
    const isNumber = numTokens === null || isCount(numTokens);
    const areFlags = typeof isAsync === 'boolean' && typeof wakes === 'boolean';
    return isNumber && areFlags && !(isAsync && numTokens === 0) && isChild(child);
  },
  alloc: isTrue,
  finished: (answer, isChild) => {
    if (!isObject(answer)) return false;
    const { delayFree, children, transferParams } = answer;
    const areChildren = isList(children, isChild) && (!delayFree || children.length > 0);
    const areParams = transferParams === undefined || isRecord(transferParams);
    return typeof delayFree === 'boolean' && areChildren && areParams;
  },
  metadata: (answer, isChild) => isObject(answer) && isList(answer['failedChildren'], isChild),
  delivery: (answer) => isObject(answer) && typeof answer['answer'] === 'boolean',
  reset: (answer) => isObject(answer) && ['boolean', 'undefined'].includes(typeof answer['answer']),
  new: isTrue,
  output: isTrue,
  cancel: isTrue,
};

/**
 * Whether this is a good answer to the question. One rule for the answers that a connector gives and for those that stand in
 * a log.
 * @param isChild whether a value names a child of the connector
 */
export function isGoodAnswer<Q extends ConnectorQuestion>(
  question: Q,
  answer: unknown,
  isChild: (child: unknown) => boolean,
): answer is ConnectorAnswers[Q] {
  return RULES[question](answer, isChild);
}

/** Whether a value names a question that a connector is asked. */
export function isConnectorQuestion(value: unknown): value is ConnectorQuestion {
  return typeof value === 'string' && Object.hasOwn(RULES, value);
}
