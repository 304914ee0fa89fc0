import { Deferred } from '../../base/deferred.js';
import type { BlockstepError } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import {
  type EndReason,
  makeResult,
  type RequestOutput,
  type RequestResult,
  type StopReason,
} from '../outputs/outputs.js';
import { type OutputClose, StreamOutput } from '../outputs/stream-output.js';
import { TokenList } from '../outputs/token-list.js';
import { Waiters } from '../outputs/waiters.js';
import { Answers } from './answers.js';
import type { ColumnOwner } from './recent-tokens.js';
import type { StreamTotals } from './stream-totals.js';
import { failureAt, type SubmitPlace } from './submit-place.js';

type Next = IteratorResult<RequestOutput, undefined>;

/** Of nearly every output: the request goes on. */
const GOES_ON: OutputClose = Object.freeze({ finishReason: null, continues: false, stopReason: null });
const DONE: Next = Object.freeze({ done: true, value: undefined });

/**
 * The tokens of one request, the reader's position in them, the waiting readers, and the end of the
 * request.
 *
 * All tokens are in one list, of `maxTokens` at most, and never more than the model's length. The
 * reader has a position in it. So a slow reader stalls nobody and loses nothing, and memory is
 * bounded.
 *
 * Invariants: `read <= numTokens`; while a reader waits, `read === numTokens` and the stream has
 * not ended; a stream ends once.
 */
export class StreamBuffer implements ColumnOwner {
  // The fields that every step touches come first.
  readonly #made: TokenList;
  /** The number of tokens that the reader has read. */
  read = 0;
  /** Waiting calls of `next`; null if none has waited yet. */
  #waiting: Waiters<Next> | null = null;
  /** Whether a reader waits for the next output; with a listener always, until the end. */
  isAwaited = false;
  // The place of its last tokens: see `ColumnOwner`.
  column = -1;
  since = 0;
  /** Called when there is something to take; null if readers wait by `next`. */
  listener: (() => void) | null = null;
  /** Whether the listener is about to be called. */
  isNews = false;

  readonly request: Request;
  /** How the request ended; null while the stream lives, and for a stream with a failure. */
  reason: EndReason | null = null;
  ended = false;
  /** The reason with which the client stopped the request; null = without a reason, undefined = not stopped. */
  #stoppedFor: StopReason | null | undefined = undefined;
  /** Rejects the readers, instead of an end; undefined = the stream did not fail. */
  failure: unknown = undefined;
  #endedAt = -1;
  #finalOutputRead = false;
  /** The reader left before the last output. */
  wasLeft = false;
  /** The request was aborted with a reason. */
  wasCutOff = false;
  /** The answers of a session; null if none has ended. */
  #answers: Answers | null = null;
  /** The promise of the result; null until it is requested. */
  #result: Deferred<RequestResult> | null = null;
  /** Unties the stream from its signal; called when the stream ends. */
  release: (() => void) | null = null;

  /** Number of rounds that the engine had begun when the request was submitted. */
  readonly submittedRound: number;
  readonly #totals: StreamTotals;
  /**
   * The place of the submission. Dropped at the end, because a place keeps the functions of its
   * stack alive.
   */
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
    this.#made = new TokenList(request.maxTokens);
  }

  /** Whether no more output will come: a reader had the last output or the failure, or left. */
  get isReadOut(): boolean {
    return this.#finalOutputRead;
  }

  /** Tokens received. */
  get numTokens(): number {
    this.pull();
    return this.#made.length;
  }

  get numBuffered(): number {
    return this.numTokens - this.read;
  }

  /** Reads the tokens of the last steps. */
  pull(): void {
    if (this.column >= 0) this.#totals.recent.drain(this, this.#made);
  }

  /** Appends the `count` tokens of `source` from index `from` on. Wakes no reader. */
  append(source: Int32Array, from: number, count: number, extras: readonly unknown[] | null = null): void {
    this.pull();
    this.#made.append(source, from, count, extras);
    this.#totals.bufferedTokens += count;
    for (const feed of this.#totals.feeds) feed.rows.addAll(this.request, source, from, count, extras);
  }

  /** Makes a function the reader. The function is called at once if outputs have already come. */
  listen(listener: () => void): void {
    this.listener = listener;
    if (!this.ended) this.#setAwaited(true);
    if (this.ended || this.numBuffered > 0) this.#totals.news.add(this);
  }

  /**
   * The value that `next` would resolve with now; null if it would wait, or if everything was read.
   * @throws the error that `next` would reject with
   */
  readNow(): RequestOutput | null {
    if (this.read < this.numTokens) return this.#readOutput();
    return this.ended ? this.#readEnd() : null;
  }

  /** Passes the unread tokens to the reader that has waited longest. */
  wake(): void {
    if (this.listener !== null) {
      this.#totals.news.add(this);
      return;
    }
    const waiting = this.#waiting;
    const waiter = waiting === null || this.numBuffered === 0 ? null : waiting.shift();
    if (waiter === null) return;
    this.#setAwaited(waiting?.isEmpty === false);
    waiter({ done: false, value: this.#readOutput() });
  }

  /** How the last answer of a session ended; null before. */
  get lastAnswer(): EndReason | null {
    return this.#answers?.last ?? null;
  }

  /** Ends the answer to one chunk of a session, after the tokens that have come; the session goes on. */
  endAnswer(reason: EndReason): void {
    this.#answers ??= new Answers();
    this.#totals.tellEnd(this.request, this.#answers.add(this.numTokens, reason, this.request), undefined);
  }

  /** Ends the stream; only the first end counts. @returns whether it ended now */
  end(reason: EndReason, now: number): boolean {
    return this.#end(reason, undefined, now);
  }

  /** Ends the stream with `stop`, for its client. @param stopReason the client's reason; null = none */
  stop(stopReason: StopReason | null, now: number): void {
    if (this.ended) return;
    this.#stoppedFor = stopReason;
    this.#end('stop', undefined, now);
  }

  /**
   * Ends the stream with a failure. Unread tokens are still delivered. Then readers are rejected
   * with an error of the same code, message and cause, whose stack shows where the request was
   * submitted.
   * @returns whether it ended now
   */
  fail(failure: BlockstepError, now: number): boolean {
    return !this.ended && this.#end(null, failureAt(failure, this.#place), now);
  }

  /**
   * Ends the stream with an abort reason: unread tokens are dropped, and readers are rejected with that very reason.
   * @returns whether it ended now
   */
  cutOff(reason: unknown, now: number): boolean {
    if (this.ended) return false;
    this.wasCutOff = true;
    this.#readTo(this.numTokens);
    return this.#end(null, reason, now);
  }

  /** The next output, as soon as there is one. Calls are answered in order. */
  next(): Promise<Next> {
    if (this.read < this.numTokens) return Promise.resolve<Next>({ done: false, value: this.#readOutput() });
    if (this.ended) return this.#nextEnd();
    this.#waiting ??= new Waiters();
    const next = this.#waiting.wait();
    this.#setAwaited(true);
    return next;
  }

  /** The reader leaves: this reader and all later readers find the end. */
  close(): void {
    this.wasLeft ||= !this.#finalOutputRead;
    this.#readTo(this.numTokens);
    this.#finalOutputRead = true;
    this.listener = null;
    this.#setAwaited(false);
    this.#waiting?.answerAll(() => DONE);
  }

  /** The result, once the request has ended. All calls return one promise. */
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
    this.#totals.recent.release(this);
    this.ended = true;
    this.reason = reason;
    this.failure = failure;
    this.#endedAt = now;
    this.#place = null;
    this.release?.();
    this.release = null;
    const finishReason = reason ?? (this.wasCutOff ? 'abort' : 'error');
    const stopReason = this.#stopReason(reason);
    this.#totals.tellEnd(this.request, { finishReason, continues: false, stopReason }, failure);
    // The first waiting call gets the end, or the failure. The other calls find the stream over.
    this.#setAwaited(false);
    this.#waiting?.answerAll(() => this.next());
    if (this.listener !== null) this.#totals.news.add(this);
    if (this.#result !== null) this.#settleResult(this.#result);
    return true;
  }

  #nextEnd(): Promise<Next> {
    return new Promise((resolve) => {
      const value = this.#readEnd();
      resolve(value === null ? DONE : { done: false, value });
    });
  }

  /**
   * The end without tokens, because all were read before; null if the end was read too. @throws the
   * failure, once
   */
  #readEnd(): RequestOutput | null {
    if (this.#finalOutputRead) return null;
    this.#finalOutputRead = true;
    if (this.reason === null) throw this.failure;
    return this.#output(this.numTokens);
  }

  /** All unread tokens; in a session at most up to the end of one answer. */
  #readOutput(): RequestOutput {
    const answer = this.#answers?.shift();
    const from = this.read;
    if (answer !== undefined) {
      this.#readTo(answer.end);
      return new StreamOutput(this.#made, from, answer.end, answer.close);
    }
    this.#readTo(this.#made.length);
    if (this.reason !== null) this.#finalOutputRead = true;
    return this.#output(from);
  }

  /** The tokens from index `from` on, with the end of the request if it has ended. */
  #output(from: number): RequestOutput {
    const { reason } = this;
    const close =
      reason === null
        ? GOES_ON
        : { finishReason: reason, continues: false, stopReason: this.#stopReason(reason) };
    return new StreamOutput(this.#made, from, this.#made.length, close);
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
    const end = { reason, stopReason: this.#stopReason(reason), at: this.#endedAt };
    result.resolve(makeResult(this.request, this.#made.tokens(), this.#made.extras(), end));
  }

  #setAwaited(isAwaited: boolean): void {
    if (this.isAwaited === isAwaited) return;
    this.isAwaited = isAwaited;
    this.#totals.readersWaiting += isAwaited ? 1 : -1;
    this.#totals.recent.setAwaited(this);
  }

  /** Moves the reader's position. The totals count unread tokens only of streams that have not ended. */
  #readTo(end: number): void {
    if (!this.ended) this.#totals.bufferedTokens -= end - this.read;
    this.read = end;
  }
}
