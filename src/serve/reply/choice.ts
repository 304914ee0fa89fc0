import { BlockstepError } from '../../base/errors.js';
import type { EngineOutputs, OutputEnd } from '../../engine/outputs/engine-outputs.js';
import type { StopReason } from '../../engine/outputs/outputs.js';
import type { RequestStream } from '../../engine/streams/request-stream.js';
import type { AnswerReading } from '../answers/answer-forms.js';
import { Detokenizer } from '../text/detokenizer.js';
import { StopStrings } from '../text/stop-strings.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { type LikelyToken, LikelyTokens, type PromptScores } from './likely-tokens.js';
import { type AnswerParts, ReadAnswer } from './read-answer.js';

/** Options that decide how a choice is made from the tokens of its request. */
export interface ChoiceOptions {
  readonly vocabulary: Vocabulary;
  readonly stop: readonly string[];
  readonly keepsStop: boolean;
  readonly minTokens: number;
  /** The beginning of the text. */
  readonly echo: string;
  /** The echo's tokens and their log-probabilities; null if these are not wanted. */
  readonly scored: { readonly tokens: Int32Array; readonly scores: PromptScores } | null;
  /**
   * Whether the choice is only its echo. The token that the request generates is then not part of
   * the choice.
   */
  readonly isEcho: boolean;
  /** Called when further tokens come, with the milliseconds since the previous tokens. */
  readonly onTokens: ((sinceMs: number) => void) | null;
  /**
   * The number of most likely tokens to report with each token. Null: no log-probabilities are
   * reported.
   */
  readonly logprobs: number | null;
  /** Says how the answer is parsed; null if it is plain text. */
  readonly answer: AnswerReading | null;
  /** Whether the choice may have several tool calls. */
  readonly isParallel: boolean;
}

/** How a choice ended. */
export interface ChoiceEnd {
  readonly finishReason: 'stop' | 'length' | 'abort';
  /** The stop string or stop token that ended the choice; null if none did. */
  readonly stopReason: StopReason | null;
}

/**
 * One choice of a reply. It decodes the tokens of its request, and ends the request when a stop
 * string appears in the text.
 *
 * Text that has not been taken accumulates in `#text`, so the memory of a choice is bounded by the
 * output of its request. Tokens are read at once, even for a client that reads nothing, so that
 * stop strings still end the choice.
 */
export class Choice {
  readonly index: number;
  readonly stream: RequestStream;
  readonly #detokenizer: Detokenizer;
  readonly #stops: StopStrings | null;
  readonly #keepsStop: boolean;
  /** The number of tokens in which stop strings are not looked for. */
  readonly #minTokens: number;
  readonly #likely: LikelyTokens | null;
  /** Parses the text; null if all of it goes to `#text`. */
  readonly #answer: ReadAnswer | null;
  readonly #isEcho: boolean;
  /**
   * The part of the echo that waits until the prompt is computed and its log-probabilities are
   * known.
   */
  #scored: (NonNullable<ChoiceOptions['scored']> & { readonly text: string }) | null;
  #text: string;
  #numTokens = 0;
  readonly #onTokens: ((sinceMs: number) => void) | null;
  /** When tokens came last, by `performance.now`; 0 before the first tokens. */
  #lastAt = 0;
  #end: ChoiceEnd | null = null;
  #failure: unknown = null;
  readonly #changed: (choice: Choice) => void;

  /** @param changed called when there is text to take, or the choice has ended */
  constructor(
    index: number,
    stream: RequestStream,
    options: ChoiceOptions,
    changed: (choice: Choice) => void,
  ) {
    this.index = index;
    this.stream = stream;
    const { answer } = options;
    this.#answer = answer === null ? null : new ReadAnswer(answer, options.isParallel);
    this.#detokenizer = new Detokenizer(answer?.vocabulary ?? options.vocabulary);
    this.#stops = options.stop.length > 0 ? new StopStrings(options.stop, options.keepsStop) : null;
    this.#keepsStop = options.keepsStop;
    this.#minTokens = options.minTokens;
    const { echo, scored } = options;
    this.#scored = scored === null ? null : { ...scored, text: echo };
    this.#text = scored === null ? echo : '';
    this.#isEcho = options.isEcho;
    const { vocabulary, logprobs } = options;
    this.#likely = logprobs === null ? null : new LikelyTokens(vocabulary, logprobs, echo.length);
    this.#onTokens = options.onTokens;
    this.#changed = changed;
  }

  /** How the choice ended; null while it goes on, and if it failed. */
  get end(): ChoiceEnd | null {
    return this.#end;
  }

  /** Why the choice failed; null if it did not. */
  get failure(): unknown {
    return this.#failure;
  }

  get hasEnded(): boolean {
    return this.#end !== null || this.#failure !== null;
  }

  /** The number of generated tokens, including those of a stop string. */
  get numTokens(): number {
    return this.#numTokens;
  }

  /** Thoughts and calls that came since the last call; null: there are none. To be called after `drainText`. */
  drainParts(): AnswerParts | null {
    return this.#answer?.drainParts() ?? null;
  }

  /** Whether the model has called tools. */
  get hasCalled(): boolean {
    return this.#answer?.hasCalled ?? false;
  }

  /** The text since the last call. */
  drainText(): string {
    if (this.#answer !== null) return this.#answer.drainContent();
    const text = this.#text;
    this.#text = '';
    return text;
  }

  /** Whether the chunks of this choice report log-probabilities. */
  get hasLikely(): boolean {
    return this.#likely !== null;
  }

  /** The log-probabilities of the tokens since the last call; null if nobody requested them. */
  drainLikely(): readonly LikelyToken[] | null {
    return this.#likely?.drain() ?? null;
  }

  /** Receives a row of the engine's outputs. @param now by `performance.now` */
  receive({ tokens, tokenOffsets, extras, ends }: EngineOutputs, row: number, now: number): void {
    if (this.hasEnded) return;
    const from = tokenOffsets[row];
    const to = tokenOffsets[row + 1];
    const end = ends[row];
    if (end?.finishReason !== 'error' && (to > from || end !== null)) {
      this.#beginText();
      if (this.#isEcho) {
        this.#end = { finishReason: 'length', stopReason: null };
        this.#changed(this);
        return;
      }
    }
    const first = this.#numTokens;
    this.#numTokens += to - from;
    if (to > from && this.#onTokens !== null) this.#tell(this.#onTokens, now);
    const last = end !== null && this.#hasEndToken(end) ? to - 1 : to;
    for (let i = from; i < last; i++) {
      const piece = this.#detokenizer.push(tokens[i]);
      this.#likely?.add(tokens[i], extras?.[i], piece.length);
      if (piece === '' || this.#pass(piece, first + i - from + 1)) continue;
      this.#numTokens = first + i - from + 1;
      this.#changed(this);
      return;
    }
    if (end !== null) this.#finish(end);
    this.#changed(this);
  }

  /** The prompt has been computed. */
  #beginText(): void {
    if (this.#scored === null) return;
    const { tokens, scores, text } = this.#scored;
    this.#scored = null;
    this.#text = text + this.#text;
    this.#likely?.addPrompt(tokens, scores);
  }

  /** Ends with a failure. */
  fail(error: unknown): void {
    if (this.hasEnded) return;
    this.#setFailure(error);
    this.#changed(this);
  }

  /**
   * Whether the last token is not part of the text. This holds for the end-of-text token, which has
   * no stop reason, and for a stop token.
   */
  #hasEndToken({ finishReason, stopReason }: OutputEnd): boolean {
    if (finishReason !== 'stop') return false;
    return stopReason === null || (typeof stopReason === 'number' && !this.#keepsStop);
  }

  #tell(onTokens: (sinceMs: number) => void, now: number): void {
    if (this.#lastAt > 0) onTokens(now - this.#lastAt);
    this.#lastAt = now;
  }

  /**
   * Adds the text of token number `position`. @returns false if a stop string has ended the choice
   */
  #pass(piece: string, position: number): boolean {
    if (this.#stops === null || position <= this.#minTokens) {
      this.#add(piece);
      return true;
    }
    const { text, stop } = this.#stops.push(piece);
    this.#add(text);
    if (stop === null) return true;
    this.#answer?.end();
    this.#end = { finishReason: 'stop', stopReason: stop };
    this.stream.stop(stop);
    return false;
  }

  #add(text: string): void {
    if (this.#answer === null) this.#text += text;
    else this.#answer.push(text);
  }

  #setFailure(error: unknown): void {
    this.#failure = error ?? new BlockstepError('ERR_BLOCKSTEP_REQUEST', 'the request was aborted');
  }

  /** The tokens have ended. Text that was held back is released, unless the request failed. */
  #finish({ finishReason, stopReason, error }: OutputEnd): void {
    if (finishReason === 'error' || error !== undefined) {
      this.#setFailure(error);
      return;
    }
    const rest = this.#detokenizer.end();
    if (this.#stops === null) this.#add(rest);
    else this.#add(this.#stops.push(rest).text + this.#stops.end());
    this.#answer?.end();
    this.#end = { finishReason, stopReason };
  }
}
