import { BlockstepError, describeError } from '../../base/errors.js';
import type { BlockPins } from '../connector/connector.js';
import type { ConnectorQuestion } from '../connector/connector-answers.js';
import type { KvView } from '../connector/kv-view.js';
import type { LogRecord } from '../log/log-reader.js';
import type { GrammarQuestion } from '../request/grammar.js';

/** A record of a callback's answer. */
type Answer = Extract<LogRecord, { kind: 'grammar' | 'connector' }>;
/**
 * A record of an action: a change that a connector made while it was asked something, or between
 * two calls.
 */
type Deed = Extract<LogRecord, { kind: 'pins' | 'use' | 'wake' }>;
/** An answer or an action. Neither is a call of its own. */
type Fact = Answer | Deed;

const ANSWERS: readonly string[] = ['grammar', 'connector'] satisfies Answer['kind'][];
const DEEDS: readonly string[] = ['pins', 'use', 'wake'] satisfies Deed['kind'][];

function isAnswer(record: LogRecord): record is Answer {
  return ANSWERS.includes(record.kind);
}

function isDeed(record: LogRecord): record is Deed {
  return DEEDS.includes(record.kind);
}

/**
 * A recorded call together with its facts: the answers and actions that were recorded while the
 * call ran, and after it.
 */
export interface RecordedCall {
  record: Exclude<LogRecord, Fact>;
  facts: Fact[];
}

/**
 * Groups the records of a log by call: each fact belongs to the call recorded before it. A log begins with its header,
 * so there always is one.
 */
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
 * The recorded answers of grammars and of the connector, given in the order in which they are asked
 * for. The recorded actions of the connector (pins, uses of blocks, requests woken) are repeated at
 * their places between the answers. A mismatch is thrown only by `end`, because an exception inside
 * a callback would merely end its request.
 */
export class RecordedAnswers {
  /** The pins of the replaying scheduler, to which recorded pins are applied. */
  pins: BlockPins | null = null;
  /** The view of the replaying scheduler, to which recorded uses of blocks and wakes are applied. */
  view: KvView | null = null;
  #facts: readonly Fact[] = [];
  #at = 0;
  #wrong: string | undefined;

  /** Begins a call with its recorded facts. */
  begin(facts: readonly Fact[]): void {
    this.#facts = facts;
    this.#at = 0;
  }

  /**
   * Whether the next recorded answer belongs to this question.
   * @param handle the request in question; 0 = none
   */
  isNext(handle: number, question: GrammarQuestion | ConnectorQuestion): boolean {
    let at = this.#at;
    while (at < this.#facts.length && isDeed(this.#facts[at])) at++;
    const fact = this.#facts.at(at);
    if (fact === undefined || isDeed(fact)) return false;
    return fact.answer.handle === handle && fact.answer.question === question;
  }

  /**
   * Returns the next recorded answer, after the preceding actions are carried out.
   * @param handle the request in question; 0 = none
   * @returns undefined if the next answer belongs to another question
   */
  next(handle: number, question: GrammarQuestion | ConnectorQuestion): unknown {
    if (!this.isNext(handle, question)) {
      this.refuse(`${question} of handle ${handle} was not recorded here`);
      return undefined;
    }
    this.#doDeeds();
    const fact = this.#facts[this.#at++];
    return 'answer' in fact ? fact.answer.answer : undefined;
  }

  /** Notes that the log does not match the run; `end` throws the first such note. */
  refuse(what: string): void {
    this.#wrong ??= what;
  }

  /**
   * Ends a call, after the rest of its actions.
   * @throws ERR_BLOCKSTEP_BAD_LOG if a question has no recorded answer, a recorded answer has no
   * question, or an action could not be carried out
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
      `the log's answers do not match its calls: ${this.#wrong}`,
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
