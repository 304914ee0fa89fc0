import { BlockstepError } from '../core/errors.js';
import type { Grammar, GrammarAnswer, GrammarQuestion } from './grammar.js';
import type { LogRecord } from './log-reader.js';

/** A record of a log together with what grammars answered while its call ran. */
export interface RecordedCall {
  record: LogRecord;
  answers: GrammarAnswer[];
}

/** Puts each answer with the record before it, whose call asked for it. */
export function* recordedCalls(records: Iterable<LogRecord>): Generator<RecordedCall> {
  let call: RecordedCall | undefined;
  for (const record of records) {
    if (record.kind === 'grammar') {
      call?.answers.push(record.answer);
      continue;
    }
    if (call !== undefined) yield call;
    call = { record, answers: [] };
  }
  if (call !== undefined) yield call;
}

/**
 * Grammars that answer what was recorded. What is asked otherwise than it was recorded shows in `check`: an exception
 * inside a grammar would only end its request.
 */
export class RecordedGrammars {
  #answers: GrammarAnswer[] = [];
  #wrong: string | undefined;

  /** The answers for the call that comes next. */
  begin(answers: GrammarAnswer[]): void {
    this.#answers = answers;
  }

  /** The grammar of a request whose handle is known when it is asked. */
  grammar(handleOf: () => number): Grammar {
    return {
      ready: () => {
        const isRecorded = this.#next(handleOf(), 'ready');
        return isRecorded && this.#take(handleOf(), 'ready') === 1;
      },
      acceptTokens: () => this.#take(handleOf(), 'acceptTokens') === 1,
      validateTokens: () => this.#take(handleOf(), 'validateTokens'),
    };
  }

  /** Ends a call. @throws ERR_BLOCKSTEP_BAD_LOG if anything was asked that is not recorded, or the other way round */
  check(): void {
    if (this.#answers.length > 0) this.#wrong ??= `${this.#answers.length} answers that nobody asked for`;
    if (this.#wrong === undefined) return;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_LOG',
      `the log's grammars do not fit its calls: ${this.#wrong}`,
    );
  }

  #next(handle: number, question: GrammarQuestion): boolean {
    const answer = this.#answers.at(0);
    return answer?.handle === handle && answer.question === question;
  }

  #take(handle: number, question: GrammarQuestion): number {
    if (!this.#next(handle, question)) {
      this.#wrong ??= `${question} of handle ${handle} was not recorded here`;
      return 0;
    }
    const { answer } = this.#answers.shift() as GrammarAnswer;
    if (answer < 0) throw new Error('as recorded');
    return answer;
  }
}
