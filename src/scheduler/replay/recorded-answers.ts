import { BlockstepError, describeError } from '../../base/errors.js';
import type { BlockPins } from '../connector/connector.js';
import type { ConnectorQuestion } from '../connector/connector-answers.js';
import type { KvView } from '../connector/kv-view.js';
import type { LogRecord } from '../log/log-reader.js';
import type { GrammarQuestion } from '../request/grammar.js';

/** A record of what a callback answered. */
type Answer = Extract<LogRecord, { kind: 'grammar' | 'connector' }>;
/** A record of what a connector did while it was asked, or between two calls. */
type Deed = Extract<LogRecord, { kind: 'pins' | 'use' | 'wake' }>;
/** Both are no calls of their own. */
type Fact = Answer | Deed;

const ANSWERS: readonly string[] = ['grammar', 'connector'] satisfies Answer['kind'][];
const DEEDS: readonly string[] = ['pins', 'use', 'wake'] satisfies Deed['kind'][];

function isAnswer(record: LogRecord): record is Answer {
  return ANSWERS.includes(record.kind);
}

function isDeed(record: LogRecord): record is Deed {
  return DEEDS.includes(record.kind);
}

/** A record of a log together with what callbacks answered and did while its call ran, and behind it. */
export interface RecordedCall {
  record: Exclude<LogRecord, Fact>;
  facts: Fact[];
}

/** Puts each fact with the record before it, whose call it belongs to. A log begins with its header, so there is one. */
export function* recordedCalls(records: Iterable<LogRecord>): Generator<RecordedCall> {
  let call: RecordedCall | undefined;
  for (const record of records) {
    if (isAnswer(record) || isDeed(record)) {
      call?.facts.push(record);
      continue;
    }
    if (call !== undefined) yield call;
    call = { record, facts: [] };
  }
  if (call !== undefined) yield call;
}

/**
 * What grammars and the connector answered, in the order in which they were asked, and what the connector did meanwhile to
 * pins, uses of blocks and requests that waited for it. What does not fit shows in `end`: an exception inside a callback
 * would only cost its request.
 */
export class RecordedAnswers {
  /** Where recorded pins go. */
  pins: BlockPins | null = null;
  /** Where recorded uses of blocks go, and what wakes requests. */
  view: KvView | null = null;
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
    while (at < this.#facts.length && isDeed(this.#facts[at])) at++;
    const fact = this.#facts.at(at);
    if (fact === undefined || isDeed(fact)) return false;
    return fact.answer.handle === handle && fact.answer.question === question;
  }

  /** The next answer, once what the connector did before it is done. Undefined if it is none to this question. */
  take(handle: number, question: GrammarQuestion | ConnectorQuestion): unknown {
    if (!this.isNext(handle, question)) {
      this.refuse(`${question} of handle ${handle} was not recorded here`);
      return undefined;
    }
    this.#doDeeds();
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
    this.#doDeeds();
    const left = this.#facts.at(this.#at);
    if (left !== undefined && isAnswer(left)) {
      this.refuse(`nobody asked ${left.answer.question} of handle ${left.answer.handle}`);
    }
    if (this.#wrong === undefined) return;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_LOG',
      `the log's answers do not fit its calls: ${this.#wrong}`,
    );
  }

  #doDeeds(): void {
    for (; this.#at < this.#facts.length; this.#at++) {
      const fact = this.#facts[this.#at];
      if (!isDeed(fact)) return;
      try {
        this.#do(fact);
      } catch (error) {
        this.refuse(`${fact.kind}: ${describeError(error)}`);
      }
    }
  }

  #do(deed: Deed): void {
    const { pins, view } = this;
    if (deed.kind === 'pins') {
      if (pins === null) throw new Error('no connector has pins');
      if (deed.pinned) pins.pin(deed.blocks);
      else pins.unpin(deed.blocks);
      return;
    }
    if (view === null) throw new Error('there is no connector');
    if (deed.kind === 'wake') {
      view.wake(deed.handle);
      return;
    }
    const { handle, kind, owner } = deed.use;
    const own = kind as 'store' | 'lease';
    if (deed.begun) view.hold(handle, own, owner);
    else view.complete(handle, own, owner);
  }
}
