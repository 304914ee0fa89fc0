import { Deferred } from '../../base/deferred.js';
import type { EndReason, StopReason } from '../../engine/outputs/outputs.js';
import type { TokenList } from '../../engine/outputs/token-list.js';
import type { StageOutput } from '../transport/messages.js';
import type { PipelineOutput } from './outputs.js';

type Next = IteratorResult<PipelineOutput, undefined>;
const DONE: Next = Object.freeze({ done: true, value: undefined });

/** Consecutive unread outputs of one stage. */
interface Piece {
  readonly stage: number;
  /** Range of its tokens in the stage's list: the first one, and the one after the last. */
  readonly from: number;
  to: number;
  hasExtras: boolean;
  finishReason: EndReason | null;
  stopReason: StopReason | null;
}

/** How a pipeline's request ended, for its readers. */
export type PipelineEnd =
  | { readonly reason: EndReason; readonly stopReason: StopReason | null }
  | { readonly failure: unknown; readonly dropsUnread: boolean };

/**
 * The unread outputs of one request, the waiting readers, and the end. A slow reader stalls no
 * other. The unread tokens are limited by the number of tokens that the requested stages may
 * generate.
 *
 * Invariants: while a reader waits, nothing is unread and the end has not come; the end comes once.
 */
export class OutputBuffer {
  readonly #stages: readonly string[];
  /** The tokens of each stage. */
  readonly #made: readonly TokenList[];
  readonly #pieces: Piece[] = [];
  readonly #waiting: Deferred<Next>[] = [];
  #end: PipelineEnd | null = null;
  #endTaken = false;
  #wasLeft = false;

  /**
   * @param stages names of all stages, in order
   * @param made the tokens of each stage; `add` appends to them
   */
  constructor(stages: readonly string[], made: readonly TokenList[]) {
    this.#stages = stages;
    this.#made = made;
  }

  /** Whether the end has come; some outputs may be unread. */
  get ended(): boolean {
    return this.#end !== null;
  }

  /** Whether the reader has received the end. */
  get isReadOut(): boolean {
    return this.#endTaken;
  }

  /** Whether a reader left before the last output. */
  get wasLeft(): boolean {
    return this.#wasLeft;
  }

  /** Number of unread tokens of all stages. */
  get numUnread(): number {
    return this.#pieces.reduce((sum, { from, to }) => sum + to - from, 0);
  }

  /** Adds an output. */
  add(stage: number, output: StageOutput): void {
    if (this.#end !== null) return;
    const { tokens, extras, finishReason, stopReason } = output;
    const made = this.#made[stage];
    const last = this.#pieces.at(-1);
    const isMore = last !== undefined && last.stage === stage && last.finishReason === null;
    const piece = isMore ? last : newPiece(stage, made.length);
    if (!isMore) this.#pieces.push(piece);
    made.append(tokens, 0, tokens.length, extras);
    piece.to = made.length;
    piece.hasExtras ||= extras !== null;
    piece.finishReason = finishReason;
    piece.stopReason = stopReason;
    this.#wake();
  }

  /** Ends the outputs; only the first end counts. */
  end(end: PipelineEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    if ('failure' in end && end.dropsUnread) this.#pieces.length = 0;
    const waiting = this.#waiting.splice(0);
    for (const waiter of waiting) this.next().then(waiter.resolve, waiter.reject);
  }

  /** Returns the next output when there is one. Calls are answered in order. */
  next(): Promise<Next> {
    const piece = this.#pieces.shift();
    if (piece !== undefined) return Promise.resolve<Next>({ done: false, value: this.#read(piece) });
    if (this.#end !== null) return this.#last(this.#end);
    const waiter = new Deferred<Next>();
    this.#waiting.push(waiter);
    return waiter.promise;
  }

  /** The reader leaves. This reader and all later readers get the end. */
  leave(): void {
    this.#wasLeft ||= !this.#endTaken;
    this.#endTaken = true;
    this.#pieces.length = 0;
    for (const waiter of this.#waiting.splice(0)) waiter.resolve(DONE);
  }

  #wake(): void {
    const waiter = this.#waiting.shift();
    const piece = waiter === undefined ? undefined : this.#pieces.shift();
    if (piece !== undefined) waiter?.resolve({ done: false, value: this.#read(piece) });
  }

  #last(end: PipelineEnd): Promise<Next> {
    if (this.#endTaken) return Promise.resolve(DONE);
    this.#endTaken = true;
    if ('failure' in end) return Promise.reject(end.failure);
    const at = this.#stages.length - 1;
    const value: PipelineOutput = {
      ...{
        stage: this.#stages[at],
        tokens: new Int32Array(0),
        extras: null,
        numOutputTokens: this.#made[at].length,
      },
      ...{ finishReason: end.reason, continues: false, stopReason: end.stopReason },
    };
    return Promise.resolve<Next>({ done: false, value });
  }

  #read({ stage, from, to, hasExtras, finishReason, stopReason }: Piece): PipelineOutput {
    const made = this.#made[stage];
    return {
      stage: this.#stages[stage],
      tokens: made.tokens(from, to),
      extras: hasExtras ? made.extras(from, to) : null,
      numOutputTokens: to,
      finishReason,
      continues: finishReason !== null,
      stopReason,
    };
  }
}

function newPiece(stage: number, from: number): Piece {
  return { stage, from, to: from, hasExtras: false, finishReason: null, stopReason: null };
}
