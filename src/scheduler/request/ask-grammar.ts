import type { Anomalies } from '../../base/anomalies.js';
import { describeError, show } from '../../base/errors.js';
import type { GrammarAnswer, GrammarQuestion } from './grammar.js';
import type { Request } from './request.js';

/** The answer of a grammar that threw, or answered what makes no sense; its request shall end with `error`. */
export const NO_ANSWER = -1;

const NO_TOKENS = new Int32Array(0);

/** Where the answers of grammars are written down. */
export interface GrammarLog {
  grammar(answer: GrammarAnswer): void;
}

/**
 * Asks the grammars of a scheduler's requests: the one place that calls into a grammar. Whatever a grammar does costs its own
 * request at most: an exception and a bad answer are counted and become `NO_ANSWER`. Answers are facts for the log, except
 * that a grammar is not ready yet.
 */
export class AskedGrammars {
  readonly #anomalies: Anomalies;
  readonly #log: GrammarLog | null;
  /** Arrays of 0, 1, 2, ... tokens, in which grammars are shown tokens. */
  readonly #arrays: Int32Array[] = [];

  constructor(anomalies: Anomalies, log: GrammarLog | null) {
    this.#anomalies = anomalies;
    this.#log = log;
  }

  /** Whether the request's grammar is compiled: 1, 0 or `NO_ANSWER`. */
  askReady(request: Request): number {
    return this.#ask(request, 'ready', NO_TOKENS);
  }

  /** Gives the request's grammar `count` generated tokens: 1 if it takes them, 0 or `NO_ANSWER`. */
  askAccept(request: Request, source: Int32Array, from: number, count: number): number {
    return this.#ask(request, 'acceptTokens', this.#copied(source, from, count));
  }

  /** How many of `count` tokens the request's grammar would accept, or `NO_ANSWER`. */
  askValidate(request: Request, source: Int32Array, from: number, count: number): number {
    return this.#ask(request, 'validateTokens', this.#copied(source, from, count));
  }

  #ask(request: Request, question: GrammarQuestion, tokens: Int32Array): number {
    const calls = request.grammarCalls;
    const most = tokens.length;
    let answer = NO_ANSWER;
    try {
      const given = question === 'ready' ? calls?.ready() : calls?.[question](tokens);
      answer = question === 'validateTokens' ? asCount(given, most) : asTruth(given);
      if (answer === NO_ANSWER) this.#fail(request, `${question} of its grammar answered ${show(given)}`);
    } catch (error) {
      this.#fail(request, `${question} of its grammar threw ${describeError(error)}`);
    }
    if (this.#log !== null && (question !== 'ready' || answer !== 0)) {
      this.#log.grammar({ handle: request.handle, question, answer });
    }
    return answer;
  }

  #fail(request: Request, what: string): void {
    request.failure = what;
    this.#anomalies.report('grammar-failed', `request ${request.id}: ${what}`, request);
  }

  /** The tokens in an array of just their number. There is one array for each number, and no step makes another. */
  #copied(source: Int32Array, from: number, count: number): Int32Array {
    const arrays = this.#arrays;
    // A grammar may have given the memory of the last one away.
    if (arrays[count]?.length !== count) arrays[count] = new Int32Array(count);
    const tokens = arrays[count];
    for (let i = 0; i < count; i++) tokens[i] = source[from + i];
    return tokens;
  }
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
