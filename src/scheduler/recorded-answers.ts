import { BlockstepError, describeError } from '../core/errors.js';
import type { ConnectorQuestion } from './ask-connector.js';
import type { BlockPins } from './connector.js';
import type { GrammarQuestion } from './grammar.js';
import type { LogRecord } from './log-reader.js';

/** A record of what callbacks answered and did, which is no call of its own. */
type Fact = Extract<LogRecord, { kind: 'grammar' | 'connector' | 'pins' }>;

/** A record of a log together with what callbacks answered and did while its call ran, and behind it. */
export interface RecordedCall {
  record: Exclude<LogRecord, Fact>;
  facts: Fact[];
}

/** Puts each fact with the record before it, whose call it belongs to. A log begins with its header, so there is one. */
export function* recordedCalls(records: Iterable<LogRecord>): Generator<RecordedCall> {
  let call: RecordedCall | undefined;
  for (const record of records) {
    if (record.kind === 'grammar' || record.kind === 'connector' || record.kind === 'pins') {
      call?.facts.push(record);
      continue;
    }
    if (call !== undefined) yield call;
    call = { record, facts: [] };
  }
  if (call !== undefined) yield call;
}

/**
 * What grammars and the connector answered, in the order in which they were asked, and what the connector did to the pins
 * meanwhile. What does not fit shows in `end`: an exception inside a callback would only cost its request.
 */
export class RecordedAnswers {
  /** Where recorded pins go. */
  pins: BlockPins | null = null;
  #facts: readonly Fact[] = [];
  #at = 0;
  #wrong: string | undefined;

  /** The facts of the call that comes next. */
  begin(facts: readonly Fact[]): void {
    this.#facts = facts;
    this.#at = 0;
  }

  /** Whether the next answer is one to this question. */
  isNext(handle: number, question: GrammarQuestion | ConnectorQuestion): boolean {
    let at = this.#at;
    while (this.#facts.at(at)?.kind === 'pins') at++;
    const fact = this.#facts.at(at);
    if (fact === undefined || fact.kind === 'pins') return false;
    return fact.answer.handle === handle && fact.answer.question === question;
  }

  /** The next answer, once what was done to the pins before it is done. Undefined if it is none to this question. */
  take(handle: number, question: GrammarQuestion | ConnectorQuestion): unknown {
    if (!this.isNext(handle, question)) {
      this.refuse(`${question} of handle ${handle} was not recorded here`);
      return undefined;
    }
    this.#applyPins();
    const fact = this.#facts[this.#at++];
    return 'answer' in fact ? fact.answer.answer : undefined;
  }

  /** Something does not fit. */
  refuse(what: string): void {
    this.#wrong ??= what;
  }

  /**
   * Ends a call.
   * @throws ERR_BLOCKSTEP_BAD_LOG if anything was asked that is not recorded, or the other way round, or cannot be
   */
  end(): void {
    this.#applyPins();
    const left = this.#facts.at(this.#at);
    if (left !== undefined && left.kind !== 'pins') {
      this.refuse(`nobody asked ${left.answer.question} of handle ${left.answer.handle}`);
    }
    if (this.#wrong === undefined) return;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_LOG',
      `the log's answers do not fit its calls: ${this.#wrong}`,
    );
  }

  #applyPins(): void {
    for (; this.#at < this.#facts.length; this.#at++) {
      const fact = this.#facts[this.#at];
      if (fact.kind !== 'pins') return;
      try {
        if (this.pins === null) throw new Error('no connector has pins');
        if (fact.pinned) this.pins.pin(fact.blocks);
        else this.pins.unpin(fact.blocks);
      } catch (error) {
        this.refuse(`pins of blocks ${fact.blocks.slice(0, 8).join(', ')}: ${describeError(error)}`);
      }
    }
  }
}
