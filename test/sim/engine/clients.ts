// One client, who reads its stream to its end.
import { BlockstepError } from '../../../src/base/errors.js';
import type { RequestOutput } from '../../../src/engine/outputs/outputs.js';
import type { RequestStream } from '../../../src/engine/streams/request-stream.js';
import { type GroupLimits, mostTokens } from '../audit/group-rules.js';
import { END_TOKEN } from '../shared/text.js';
import type { Stage } from './stage.js';
import { rootOf, type Stops, Transcript } from './text.js';

/** A request as its client wants it. */
export interface Wish extends Stops {
  id: string;
  prompt: Int32Array;
  salt: string;
  adapter: string;
  priority: number;
  isSession: boolean;
  hasGrammar: boolean;
  timeoutMs?: number;
  /** Reads at once; begins when the simulation calls; or leaves after the first output. */
  reads: 'at once' | 'late' | 'leaves';
}

/** One client, its request, and how far it has read. */
export class Client {
  readonly wish: Wish;
  readonly stream: RequestStream;
  readonly text: Transcript;
  readonly controller: AbortController;
  /** Somebody asked to abort the request, with this reason. */
  abortAsked = false;
  reason: unknown = undefined;
  /** The reason with which the client stopped its request itself; undefined = it did not. */
  stoppedFor: string | null | undefined = undefined;
  /** How its stream ended; `no` = it goes on, `left` = the reader left it, `failed` = it was rejected. */
  ended: 'no' | 'stop' | 'length' | 'abort' | 'left' | 'failed' = 'no';
  /** A session's answers that were read to their ends. */
  numAnswers = 0;
  numChunks = 0;
  inputEnded = false;
  readonly #stage: Stage;
  /** Tokens of the present answer that were read, and of all answers. */
  #read = 0;
  #total = 0;
  #isReading = false;

  constructor(
    stage: Stage,
    wish: Wish,
    stream: RequestStream,
    text: Transcript,
    controller: AbortController,
  ) {
    this.#stage = stage;
    this.wish = wish;
    this.stream = stream;
    this.text = text;
    this.controller = controller;
    stream.result().then(
      (result) => this.#resulted(result.finishReason, result.tokens.length),
      (error: unknown) => this.#resulted('failed', -1, error),
    );
    if (wish.reads !== 'late') this.read();
  }

  get name(): string {
    return this.#stage.name(this.stream.handle);
  }

  get isSessionOpen(): boolean {
    return this.wish.isSession && !this.inputEnded && !this.stream.ended;
  }

  /** Begins to read, once. */
  read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    this.#readAll().catch((error: unknown) => {
      this.#stage.broke('simulator', `a reader broke: ${String((error as Error).stack)}`);
    });
  }

  /**
   * Ends its request as if it had found the end in the text; a session with open input is refused.
   * @param isSure nothing else can end it first
   */
  stop(reason: string | undefined, isSure: boolean): void {
    const { stream, wish } = this;
    const wasEnded = stream.ended;
    try {
      stream.stop(reason);
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_BLOCKSTEP_BAD_ARG' || !wish.isSession || wasEnded)
        throw error;
      this.#stage.count('stops refused');
      return;
    }
    if (!stream.ended) this.#stage.broke('I14', `${this.name} was stopped, and goes on`);
    if (wasEnded) return;
    if (this.isSessionOpen) this.#stage.broke('I14', `${this.name} was stopped, and is an open session`);
    this.stoppedFor = reason ?? null;
    this.#stage.count('stops asked');
    if (isSure) this.#stage.aborted(stream.handle);
  }

  asked(reason: unknown): void {
    if (this.stream.ended) return;
    this.abortAsked = true;
    this.reason = reason;
  }

  async #readAll(): Promise<void> {
    const iterator = this.stream[Symbol.asyncIterator]();
    for (;;) {
      let next: IteratorResult<RequestOutput, undefined>;
      try {
        next = await iterator.next();
      } catch (error) {
        this.#failed(error);
        return;
      }
      if (next.done === true) {
        if (this.ended === 'no') this.#stage.broke('I14', `${this.name} is over without an end`);
        return;
      }
      this.#receive(next.value);
      if (this.wish.reads === 'leaves' && this.ended === 'no') {
        this.ended = 'left';
        this.asked(undefined);
        await iterator.return();
        return;
      }
    }
  }

  /** Every token must be that of a computation without pages. */
  #receive({ tokens, numOutputTokens, finishReason, continues, stopReason }: RequestOutput): void {
    const stage = this.#stage;
    if (this.ended !== 'no') stage.broke('I14', `${this.name} goes on behind its end`);
    for (const token of tokens) {
      const expected = this.text.answer(this.numAnswers).tokens[this.#read++];
      if (token === expected) continue;
      stage.broke(
        'I11',
        `${this.name}: token ${this.#read - 1} of answer ${this.numAnswers} is ${token}, not ${expected}`,
      );
    }
    this.#total += tokens.length;
    if (numOutputTokens !== this.#total)
      stage.broke('I14', `${this.name} counts ${numOutputTokens}, got ${this.#total}`);
    if (finishReason === null) return;
    if (continues) {
      this.#answerEnds(finishReason);
      this.numAnswers++;
      this.#read = 0;
      return;
    }
    this.ended = finishReason;
    stage.count(finishReason);
    if (this.stoppedFor !== undefined) {
      if (finishReason === 'stop' && stopReason === this.stoppedFor) return;
      stage.broke(
        'I14',
        `${this.name} was stopped for ${this.stoppedFor}, and ended by ${finishReason}, ${stopReason}`,
      );
    }
    if (finishReason === 'abort') this.#aborted();
    else this.#answerEnds(finishReason);
    if (
      (stopReason !== null) !==
      (finishReason === 'stop' && this.wish.stopTokenIds.includes(END_TOKEN) && this.wish.eosTokenId < 0)
    ) {
      stage.broke('I14', `${this.name} ended by ${finishReason}, stop token ${stopReason}`);
    }
  }

  /** `stop` and `length` come exactly where they must; `length` also where the model or the pool has no more room. */
  #answerEnds(reason: string): void {
    const stage = this.#stage;
    const { limits } = stage;
    // A session that ends while it waits for input ends once more as its last answer did.
    if (this.inputEnded && this.#read === 0 && this.numAnswers > 0) return;
    const answer = this.text.answer(this.numAnswers);
    if (this.#read === answer.tokens.length && reason === answer.reason) return;
    const room = Math.min(limits.maxModelLen, mostTokens(limits));
    if (reason === 'length' && answer.from + this.#read >= room) return;
    const due = `${answer.reason} after ${answer.tokens.length} from ${answer.from}`;
    stage.broke(
      'I14',
      `${this.name} ended its answer ${this.numAnswers} by ${reason} after ${this.#read} tokens, not by ${due}`,
    );
  }

  #aborted(): void {
    if (!this.abortAsked && !this.inputEnded)
      this.#stage.broke('I14', `${this.name} was aborted, and nobody asked`);
  }

  #failed(error: unknown): void {
    const stage = this.#stage;
    if (this.ended !== 'no') stage.broke('I14', `${this.name} fails behind its end`);
    this.ended = 'failed';
    if (this.abortAsked && error === this.reason) {
      stage.count('abort with a reason');
      return;
    }
    stage.count('error');
    if (!(error instanceof BlockstepError) || typeof error.code !== 'string') {
      stage.broke('I14', `${this.name} failed with ${String(error)}, which has no code`);
      return;
    }
    if (stage.isOver || stage.causesOf(this.stream.handle).size > 0) return;
    stage.broke('I14', `${this.name} failed, and nothing happened to it: ${error.message}`);
  }

  /** The result must agree with the stream, and nobody may wait for it for ever. */
  #resulted(reason: string, numTokens: number, error?: unknown): void {
    this.#stage.note(`${this.name} ended: ${reason} ${error === undefined ? numTokens : String(error)}`);
    if (!this.stream.ended) this.#stage.broke('I14', `${this.name} has a result before its end`);
  }

  /** When all is over. */
  check(): void {
    if (this.ended === 'no') this.#stage.broke('I10', `the stream of ${this.name} never ended`);
  }
}

export function textOf(wish: Wish, { groups, maxModelLen }: GroupLimits): Transcript {
  const state = wish.hasGrammar ? 17 : -1;
  return new Transcript(wish.prompt, rootOf(wish.salt, wish.adapter), wish, maxModelLen, state, groups);
}
