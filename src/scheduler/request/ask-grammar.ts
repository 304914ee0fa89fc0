// Asks grammars, inside an exception boundary.
import type { Anomalies } from '../../base/anomalies.js';
import { describeError, show } from '../../base/errors.js';
import type { GrammarAnswer, GrammarQuestion } from './grammar.js';
import type { Request } from './request.js';

/**
 * Stands for the answer of a grammar that threw, or whose answer is invalid. Its request must end
 * with `error`.
 */
export const NO_ANSWER = -1;

const NO_TOKENS = new Int32Array(0);

/** The log that the answers of grammars are written to. */
export interface GrammarLog {
  grammar(answer: GrammarAnswer): void;
}

/**
 * The only place that calls grammars. An exception of a grammar, or an invalid answer, is counted
 * as an anomaly and becomes `NO_ANSWER`. So it costs at most the grammar's own request. Every
 * answer is written to the log, except that a grammar is not ready yet.
 */
export class AskedGrammars {
  readonly #anomalies: Anomalies;
  readonly #log: GrammarLog | null;
  /** Arrays in which tokens are passed to grammars; the array at index n has room for n tokens. */
  readonly #arrays: Int32Array[] = [];

  constructor(anomalies: Anomalies, log: GrammarLog | null) {
    this.#anomalies = anomalies;
    this.#log = log;
  }

  /** Asks whether the request's grammar is compiled. @returns 1 if it is, 0 if not, or `NO_ANSWER` */
  askReady(request: Request): number {
    return this.#ask(request, 'ready', NO_TOKENS);
  }

  /**
   * Gives the request's grammar `count` generated tokens. @returns 1 if it accepts them, 0 if not, or `NO_ANSWER`
   */
  askAccept(request: Request, source: Int32Array, from: number, count: number): number {
    return this.#ask(request, 'acceptTokens', this.#copied(source, from, count));
  }

  /** Asks how many of `count` tokens the request's grammar would accept. @returns the number, or `NO_ANSWER` */
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

  /**
   * Copies tokens into an array of exactly their number. There is one such array for each number, so that steps
   * allocate none.
   */
  #copied(source: Int32Array, from: number, count: number): Int32Array {
    const arrays = this.#arrays;
    // A grammar may have transferred the memory of this array.
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
