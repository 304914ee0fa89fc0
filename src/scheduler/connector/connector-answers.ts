import { isCount, isList, isObject, isRecord } from '../../base/checks.js';
import type { Finished, Match } from './connector.js';

/** A checked `Match`, with the defaults filled in. */
export type ParsedMatch = Required<Match>;

/** A checked `Finished`, with the defaults filled in. */
export type ParsedFinished = Required<Omit<Finished, 'transferParams'>> & Pick<Finished, 'transferParams'>;

/** The valid answers to each question, as plain data. An answer that decides nothing is `true`. */
export interface ConnectorAnswers {
  match: ParsedMatch;
  alloc: true;
  finished: ParsedFinished;
  /** The children that could not make metadata: their loads of this plan never begin. */
  metadata: { failedChildren: readonly number[] };
  delivery: { answer: boolean };
  reset: { answer?: boolean | undefined };
  new: true;
  output: true;
  cancel: true;
}

/** A question to a connector, or a notification. */
export type ConnectorQuestion = keyof ConnectorAnswers;

/** A connector's answer to one question, as recorded in a log. */
export interface ConnectorAnswer {
  /** Handle of the request that the question is about; 0 = none. */
  handle: number;
  question: ConnectorQuestion;
  /** The valid answer, or `failed` if there was none. */
  answer: ConnectorAnswers[ConnectorQuestion] | 'failed';
}

/** The answer of a connector that has nothing to load, or that was not asked. */
export const NO_MATCH: ParsedMatch = { numTokens: 0, async: false, child: 0, wakes: false };

type Rule = (answer: unknown, isChild: (child: unknown) => boolean) => boolean;

const isTrue: Rule = (answer) => answer === true;

/** The rules for a valid answer to each question. */
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
 * Whether an answer to a question is valid. The same rules hold for answers of a live connector,
 * and for answers in a log.
 * @param isChild whether a value names a child of the connector
 */
export function isGoodAnswer<Q extends ConnectorQuestion>(
  question: Q,
  answer: unknown,
  isChild: (child: unknown) => boolean,
): answer is ConnectorAnswers[Q] {
  return RULES[question](answer, isChild);
}

/** Whether a value names a question of `ConnectorAnswers`. */
export function isConnectorQuestion(value: unknown): value is ConnectorQuestion {
  return typeof value === 'string' && Object.hasOwn(RULES, value);
}
