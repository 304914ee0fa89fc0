import { describeError, show } from '../../base/errors.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import type { GrammarQuestion } from './grammar.js';
import type { Request } from './request.js';

/** The answer of a grammar that threw, or answered what makes no sense; its request shall end with `error`. */
export const NO_ANSWER = -1;

const NO_TOKENS = new Int32Array(0);

/** Whether the request's grammar is compiled: 1, 0 or `NO_ANSWER`. */
export function askReady(s: SchedulerState, request: Request): number {
  return ask(s, request, 'ready', NO_TOKENS);
}

/** Gives the request's grammar `count` generated tokens: 1 if it takes them, 0 or `NO_ANSWER`. */
export function askAccept(
  s: SchedulerState,
  request: Request,
  source: Int32Array,
  from: number,
  count: number,
): number {
  return ask(s, request, 'acceptTokens', copied(s, source, from, count));
}

/** How many of `count` tokens the request's grammar would accept, or `NO_ANSWER`. */
export function askValidate(
  s: SchedulerState,
  request: Request,
  source: Int32Array,
  from: number,
  count: number,
): number {
  return ask(s, request, 'validateTokens', copied(s, source, from, count));
}

/**
 * The one place that calls into a grammar. Whatever that does costs its request at most: an exception and a bad answer
 * are counted and become `NO_ANSWER`. Answers are facts for the log, except that a grammar is not ready yet.
 */
function ask(s: SchedulerState, request: Request, question: GrammarQuestion, tokens: Int32Array): number {
  const calls = request.grammarCalls;
  const most = tokens.length;
  let answer = NO_ANSWER;
  try {
    const given = question === 'ready' ? calls?.ready() : calls?.[question](tokens);
    answer = question === 'validateTokens' ? asCount(given, most) : asTruth(given);
    if (answer === NO_ANSWER) fail(s, request, `${question} of its grammar answered ${show(given)}`);
  } catch (error) {
    fail(s, request, `${question} of its grammar threw ${describeError(error)}`);
  }
  if (s.facts !== null && (question !== 'ready' || answer !== 0)) {
    s.facts.grammar({ handle: request.handle, question, answer });
  }
  return answer;
}

function asTruth(given: unknown): number {
  if (given === true) return 1;
  return given === false ? 0 : NO_ANSWER;
}

function asCount(given: unknown, most: number): number {
  return typeof given === 'number' && Number.isInteger(given) && given >= 0 && given <= most
    ? given + 0
    : NO_ANSWER;
}

function fail(s: SchedulerState, request: Request, what: string): void {
  request.failure = what;
  s.anomalies.report('grammar-failed', `request ${request.id}: ${what}`, request);
}

/** The tokens in an array of just their number: there is one for each number, and none is made in a step. */
function copied(s: SchedulerState, source: Int32Array, from: number, count: number): Int32Array {
  const { grammarTokens } = s;
  // A grammar may have given the memory of the last one away.
  if (grammarTokens[count]?.length !== count) grammarTokens[count] = new Int32Array(count);
  const tokens = grammarTokens[count];
  for (let i = 0; i < count; i++) tokens[i] = source[from + i];
  return tokens;
}
