import { Deferred } from '../../base/deferred.js';
import type { BlockstepError } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import {
  type EndReason,
  makeResult,
  type RequestOutput,
  type RequestResult,
  type StopReason,
} from './outputs.js';
import { failureAt, type SubmitPlace } from './submit-place.js';

/** Where an answer of a session ended, and how. */
interface Answer {
  readonly end: number;
  readonly reason: EndReason;
  readonly stopReason: number | null;
}

/** Sums over all streams that have not ended, kept up to date so that nobody has to walk them. */
export interface StreamTotals {
  /** Tokens that nobody has read yet. */
  bufferedTokens: number;
  /** Streams that a reader waits for. */
  readersWaiting: number;
}

type Next = IteratorResult<RequestOutput, undefined>;

const FIRST_CAPACITY = 16;
const DONE: Next = Object.freeze({ done: true, value: undefined });

/**
 * What one request has brought and its readers have not taken yet.
 *
 * All tokens of a request stand in one array that grows up to its `maxTokens`, and never beyond the model's length; a
 * reader has a position in it. So a slow reader stalls nobody, loses nothing and holds no more than that, and `append`
 * allocates nothing but the array's growth.
 *
 * Invariants: `read <= numTokens`; while a reader waits, `read === numTokens` and the stream has not ended; it ends once.
 */
export class StreamBuffer {
  // What every step touches stands first.
  /** Tokens received. */
  numTokens = 0;
  /** Tokens of these that the reader has taken. */
  read = 0;
  tokens: Int32Array;
  /** What came with each token; null as long as nothing has. */
  extras: unknown[] | null = null;
  /** Readers that wait, the longest first. */
  readonly #waiting: Deferred<Next>[] = [];
  /** Whether somebody waits for the next output. */
  isAwaited = false;

  readonly request: Request;
  /** Why it ended; null while it lives. A stream with a failure has none. */
  reason: EndReason | null = null;
  ended = false;
  /** What its client stopped it for; undefined = its client did not. */
  #stoppedFor: StopReason | null | undefined = undefined;
  /** What its readers are told instead of an end; undefined = it did not fail. */
  failure: unknown = undefined;
  #endedAt = -1;
  #finalOutputTaken = false;
  /** Its reader left before it had the last output. */
  wasLeft = false;
  /** It was aborted with a reason of its client's. */
  wasCutOff = false;
  /** Of a session: the answers that have ended and were not read to their ends, oldest first. */
  readonly #answers: Answer[] = [];
  /** Of a session: how its last answer ended. */
  lastAnswer: EndReason | null = null;
  /** The whole; null as long as nobody has asked for it. */
  #result: Deferred<RequestResult> | null = null;
  /** Takes the listener off the signal; called at the end, at the latest. */
  release: (() => void) | null = null;

  /** Rounds that the engine had made when it was submitted. */
  readonly submittedRound: number;
  readonly #totals: StreamTotals;
  /** Where it was submitted; forgotten at the end, since it holds the functions on that stack. */
  #place: SubmitPlace | null;

  constructor(
    request: Request,
    submittedRound: number,
    totals: StreamTotals,
    place: SubmitPlace | null = null,
  ) {
    this.request = request;
    this.#totals = totals;
    this.submittedRound = submittedRound;
    this.#place = place;
    this.tokens = new Int32Array(Math.min(request.maxTokens, FIRST_CAPACITY));
  }

  /** Whether a reader had the last output, or what it failed with, or left: nothing comes any more. */
  get isReadOut(): boolean {
    return this.#finalOutputTaken;
  }

  get numBuffered(): number {
    return this.numTokens - this.read;
  }

  /** Takes in `count` tokens that lie in `source` from `from` on. Wakes nobody. */
  append(source: Int32Array, from: number, count: number, extras: readonly unknown[] | null = null): void {
    if (extras !== null || this.extras !== null) this.#appendExtras(extras, from, count);
    let at = this.numTokens;
    const end = at + count;
    if (end > this.tokens.length) this.#grow(end);
    const { tokens } = this;
    for (let i = from; at < end; at++, i++) tokens[at] = source[i];
    this.numTokens = end;
    this.#totals.bufferedTokens += count;
  }

  #appendExtras(source: readonly unknown[] | null, from: number, count: number): void {
    this.extras ??= Array.from({ length: this.numTokens }, () => undefined);
    for (let i = from; i < from + count; i++) this.extras.push(source?.[i]);
  }

  /** Hands what has come to the reader that waits longest. */
  wake(): void {
    const waiter = this.numBuffered === 0 ? undefined : this.#waiting.shift();
    if (waiter === undefined) return;
    this.#setAwaited(this.#waiting.length > 0);
    waiter.resolve({ done: false, value: this.#take() });
  }

  /** The answer to a chunk of a session ends with what has come so far; more will come. */
  endAnswer(reason: EndReason): void {
    this.lastAnswer = reason;
    this.#answers.push({
      end: this.numTokens,
      reason,
      stopReason: reason === 'stop' ? this.request.stopReason : null,
    });
  }

  /** Ends the stream; only the first end counts. @returns whether it ended now */
  end(reason: EndReason, now: number): boolean {
    return this.#end(reason, undefined, now);
  }

  /** Its client ends it. @param stopReason what for; null = it does not say */
  stop(stopReason: StopReason | null, now: number): void {
    if (this.ended) return;
    this.#stoppedFor = stopReason;
    this.#end('stop', undefined, now);
  }

  /**
   * Ends the stream with a failure. What has come before is still delivered; then readers are told an error of the same code,
   * message and cause, whose stack says where the request was submitted.
   * @returns whether it ended now
   */
  fail(failure: BlockstepError, now: number): boolean {
    return !this.ended && this.#end(null, failureAt(failure, this.#place), now);
  }

  /**
   * Ends the stream with a reason of its client's: what was not read yet is dropped, and readers are told that very reason.
   * @returns whether it ended now
   */
  cutOff(reason: unknown, now: number): boolean {
    if (this.ended) return false;
    this.wasCutOff = true;
    this.#readTo(this.numTokens);
    return this.#end(null, reason, now);
  }

  /** The next output, as soon as there is one. Calls are answered in their order. */
  next(): Promise<Next> {
    if (this.read < this.numTokens) return Promise.resolve<Next>({ done: false, value: this.#take() });
    if (this.ended) return this.#last();
    const waiter = new Deferred<Next>();
    this.#waiting.push(waiter);
    this.#setAwaited(true);
    return waiter.promise;
  }

  /** No output is wanted any more: readers that wait, and all later ones, find the end. */
  close(): void {
    this.wasLeft ||= !this.#finalOutputTaken;
    this.#readTo(this.numTokens);
    this.#finalOutputTaken = true;
    for (const waiter of this.#takeWaiting()) waiter.resolve(DONE);
  }

  /** The whole, when the request has ended. One promise for all who ask. */
  result(): Promise<RequestResult> {
    if (this.#result === null) {
      this.#result = new Deferred();
      if (this.ended) this.#settleResult(this.#result);
    }
    return this.#result.promise;
  }

  #end(reason: EndReason | null, failure: unknown, now: number): boolean {
    if (this.ended) return false;
    this.#totals.bufferedTokens -= this.numBuffered;
    this.ended = true;
    this.reason = reason;
    this.failure = failure;
    this.#endedAt = now;
    this.#place = null;
    this.release?.();
    this.release = null;
    const waiting = this.#takeWaiting();
    // The first gets what is left together with the end, or the failure; the others find the stream over.
    for (const waiter of waiting) this.next().then(waiter.resolve, waiter.reject);
    if (this.#result !== null) this.#settleResult(this.#result);
    return true;
  }

  #last(): Promise<Next> {
    if (this.#finalOutputTaken) return Promise.resolve(DONE);
    this.#finalOutputTaken = true;
    if (this.reason === null) return Promise.reject(this.failure);
    return Promise.resolve<Next>({ done: false, value: this.#output(new Int32Array(0), this.extras && []) });
  }

  /** What has come, up to the end of one answer at most. */
  #take(): RequestOutput {
    const answer = this.#answers.shift();
    const end = answer?.end ?? this.numTokens;
    const tokens = this.tokens.slice(this.read, end);
    const extras = this.extras?.slice(this.read, end) ?? null;
    this.#readTo(end);
    if (answer !== undefined) {
      const { reason, stopReason } = answer;
      return { tokens, extras, numOutputTokens: end, finishReason: reason, continues: true, stopReason };
    }
    if (this.reason !== null) this.#finalOutputTaken = true;
    return this.#output(tokens, extras);
  }

  #output(tokens: Int32Array, extras: unknown[] | null = null): RequestOutput {
    const { numTokens, reason } = this;
    return {
      tokens,
      extras,
      numOutputTokens: numTokens,
      finishReason: reason,
      continues: false,
      stopReason: this.#stopReason(reason),
    };
  }

  #stopReason(reason: EndReason | null): StopReason | null {
    if (reason !== 'stop') return null;
    return this.#stoppedFor === undefined ? this.request.stopReason : this.#stoppedFor;
  }

  #settleResult(result: Deferred<RequestResult>): void {
    const { reason } = this;
    if (reason === null) {
      result.reject(this.failure);
      return;
    }
    const tokens = this.tokens.slice(0, this.numTokens);
    const extras = this.extras?.slice() ?? null;
    const end = { reason, stopReason: this.#stopReason(reason), at: this.#endedAt };
    result.resolve(makeResult(this.request, tokens, extras, end));
  }

  #takeWaiting(): Deferred<Next>[] {
    this.#setAwaited(false);
    return this.#waiting.splice(0);
  }

  #setAwaited(isAwaited: boolean): void {
    if (this.isAwaited === isAwaited) return;
    this.isAwaited = isAwaited;
    this.#totals.readersWaiting += isAwaited ? 1 : -1;
  }

  /** What is left when it ends does not count any more. */
  #readTo(end: number): void {
    if (!this.ended) this.#totals.bufferedTokens -= end - this.read;
    this.read = end;
  }

  #grow(atLeast: number): void {
    const doubled = Math.min(2 * this.tokens.length, this.request.maxTokens);
    const grown = new Int32Array(Math.max(atLeast, doubled));
    grown.set(this.tokens.subarray(0, this.numTokens));
    this.tokens = grown;
  }
}
