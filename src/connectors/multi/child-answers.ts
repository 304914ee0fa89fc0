import type { Finished, Match } from '../../scheduler/connector/connector.js';
import { isGoodAnswer, type ParsedMatch } from '../../scheduler/connector/connector-answers.js';
import type { Child } from './child.js';

/** The assumed answer of a child that has nothing to load. */
const NOTHING: ParsedMatch = { numTokens: 0, async: false, child: 0, wakes: false };

/**
 * Checks one child's offer, as the scheduler checks the answer of a connector.
 * @param most maximum number of tokens that can be offered
 * @throws Error for an invalid answer
 */
export function parseMatch({ count }: Child, answer: unknown, most: number): ParsedMatch {
  const { numTokens, async: isAsync, child = 0, wakes = false } = answer as Match;
  if (numTokens === 0 && isAsync === false) return NOTHING;
  const match = { numTokens, async: isAsync, child, wakes };
  const isGood = isGoodAnswer('match', match, (each) => isIndex(each, count));
  if (isGood && (numTokens === null || numTokens <= most)) return match;
  throw new Error('answered getNumNewMatchedTokens with what makes no sense');
}

/**
 * Checks one child's answer to the end of a request.
 * @throws Error for an invalid answer
 */
export function parseFinished({ count, methods }: Child, answer: unknown): Finished {
  const { delayFree, children = [0], transferParams } = answer as Finished;
  const parsed = { delayFree, children, ...(transferParams !== undefined && { transferParams }) };
  const mayDelay = methods.protection.includes('own');
  if ((mayDelay || !delayFree) && isGoodAnswer('finished', parsed, (each) => isIndex(each, count)))
    return parsed;
  throw new Error('answered requestFinished with what makes no sense');
}

function isIndex(child: unknown, count: number): boolean {
  return Number.isInteger(child) && (child as number) >= 0 && (child as number) < count;
}
