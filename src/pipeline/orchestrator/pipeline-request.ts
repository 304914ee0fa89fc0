import { Deferred } from '../../base/deferred.js';
import { BlockstepError, show } from '../../base/errors.js';
import type { EndReason, StopReason } from '../../engine/outputs/outputs.js';
import { TokenList } from '../../engine/outputs/token-list.js';
import type { RequestKey, StageEnd, StageFailure, StageOutput } from '../transport/messages.js';
import { OutputBuffer } from './output-buffer.js';
import type { PipelineResult, StageResult } from './outputs.js';

/** The client's knowledge of a request in one stage. */
interface StageState {
  readonly wants: boolean;
  readonly made: TokenList;
  /** Number of outputs that arrived. */
  numOutputs: number;
  end: StageEnd | null;
  /** When the stage last sent a message about the request, in milliseconds; -1: never. */
  heardAt: number;
  /** Number of consecutive answers to pings that did not contain the request. */
  numMissed: number;
}

/**
 * One request of a pipeline as its client sees it: the messages of each stage, and its end. It ends
 * once: when all stages have ended, when one of them failed, or when it was aborted.
 */
export class PipelineRequest {
  readonly id: string;
  readonly key: RequestKey;
  /** Names of the stages whose outputs the client gets. */
  readonly wants: ReadonlySet<string>;
  readonly buffer: OutputBuffer;
  /** When it was submitted, in milliseconds. */
  readonly submittedAt: number;
  /** When it must end, in milliseconds; Infinity: no limit. */
  readonly dueAt: number;
  /** Removes the listener from the request's signal; called at the end. */
  release: (() => void) | null = null;
  /**
   * Number of the last ping before the submission. Answers to this ping and to earlier ones cannot
   * contain the request.
   */
  pingsBefore = 0;
  readonly #names: readonly string[];
  readonly #stages: readonly StageState[];
  readonly #now: () => number;
  #firstOutputAt = -1;
  #endedAt = -1;
  #result: Deferred<PipelineResult> | null = null;
  #reason: EndReason | null = null;
  #stopReason: StopReason | null = null;
  #failure: unknown;

  constructor(
    id: string,
    key: RequestKey,
    names: readonly string[],
    wants: ReadonlySet<string>,
    timeoutMs: number,
    now: () => number,
  ) {
    this.id = id;
    this.key = key;
    this.wants = wants;
    this.#names = names;
    this.#now = now;
    this.#stages = names.map((name) => ({
      ...{ wants: wants.has(name), made: new TokenList(), numOutputs: 0 },
      ...{ end: null, heardAt: -1, numMissed: 0 },
    }));
    this.buffer = new OutputBuffer(
      names,
      this.#stages.map(({ made }) => made),
    );
    this.submittedAt = now();
    this.dueAt = this.submittedAt + timeoutMs;
  }

  get ended(): boolean {
    return this.buffer.ended;
  }

  /** Whether a stage has reported the end of the request. */
  hasEndedIn(stage: number): boolean {
    return this.#stages[stage].end !== null;
  }

  /**
   * A stage has generated tokens.
   * @param number number of the stage's output, from 1
   * @returns `skipped`: it arrived before; `gap`: an earlier output is missing, so the request must
   * fail
   */
  output(stage: number, number: number, output: StageOutput): 'taken' | 'skipped' | 'gap' {
    const state = this.#hear(stage);
    if (number <= state.numOutputs || state.end !== null) return 'skipped';
    if (number > state.numOutputs + 1) return 'gap';
    state.numOutputs = number;
    const { tokens } = output;
    const isLast = stage === this.#names.length - 1;
    if (isLast && this.#firstOutputAt < 0 && tokens.length > 0) this.#firstOutputAt = this.#now();
    this.buffer.add(stage, output);
    return 'taken';
  }

  /**
   * A stage has ended. @param numOutputs number of outputs that it has sent
   * @returns as `output`; `taken` once for each stage
   */
  stageEnded(stage: number, numOutputs: number, end: StageEnd): 'taken' | 'skipped' | 'gap' {
    const state = this.#hear(stage);
    if (state.end !== null) return 'skipped';
    if (numOutputs !== state.numOutputs) return 'gap';
    state.end = end;
    return 'taken';
  }

  /** Whether all stages have ended. */
  get hasEndedInAll(): boolean {
    return this.#stages.every(({ end }) => end !== null);
  }

  /**
   * A stage answered a ping, and knows the request or not.
   * @returns whether the stage should have known the request and did not, twice in a row. A stage
   * reports an end before it forgets a request
   */
  pinged(stage: number, isKnown: boolean): boolean {
    const state = this.#stages[stage];
    if (isKnown || state.end !== null) {
      state.numMissed = 0;
      return false;
    }
    return ++state.numMissed >= 2;
  }

  /** Ends the request with the end of its last stage. */
  complete(): void {
    const { finishReason, stopReason } = this.#stages[this.#stages.length - 1].end as StageEnd;
    this.#end(finishReason, stopReason);
  }

  /**
   * Ends the request for its client. @param reason the readers are rejected with it; undefined:
   * they get the end `abort`
   */
  abort(reason: unknown): void {
    if (reason === undefined) this.#end('abort', null);
    else this.#fail(reason, true);
  }

  /** Ends the request with an error, after the outputs that arrived before. */
  fail(stage: string | null, { code, message, error }: StageFailure): void {
    const where = stage === null ? '' : ` in stage ${stage}`;
    this.#fail(
      new BlockstepError(code, `request ${show(this.id)} failed${where}: ${message}`, { cause: error }),
      false,
    );
  }

  /** See `PipelineStream.result`. */
  result(): Promise<PipelineResult> {
    if (this.#result === null) {
      this.#result = new Deferred();
      if (this.ended) this.#settle(this.#result);
    }
    return this.#result.promise;
  }

  /** Describes the known state of the request in a stage. */
  describe(stage: number): string {
    const { end, heardAt, made } = this.#stages[stage];
    if (end !== null) return `has ended (${end.finishReason}) with ${end.numOutputTokens} tokens`;
    if (heardAt < 0)
      return `was submitted ${Math.round(this.#now() - this.submittedAt)} ms ago, and has not been heard of since`;
    return `${made.length} tokens came, the last ${Math.round(this.#now() - heardAt)} ms ago`;
  }

  #hear(stage: number): StageState {
    const state = this.#stages[stage];
    state.heardAt = this.#now();
    state.numMissed = 0;
    return state;
  }

  #end(reason: EndReason, stopReason: StopReason | null): void {
    if (this.ended) return;
    this.#reason = reason;
    this.#stopReason = stopReason;
    this.#over();
    this.buffer.end({ reason, stopReason });
  }

  #fail(failure: unknown, dropsUnread: boolean): void {
    if (this.ended) return;
    this.#failure = failure;
    this.#over();
    this.buffer.end({ failure, dropsUnread });
  }

  #over(): void {
    this.#endedAt = this.#now();
    this.release?.();
    this.release = null;
    if (this.#result === null) return;
    // The buffer ends right after this call, and the later microtask settles the result.
    const result = this.#result;
    queueMicrotask(() => this.#settle(result));
  }

  #settle(result: Deferred<PipelineResult>): void {
    if (this.#reason === null) result.reject(this.#failure);
    else result.resolve(this.#makeResult(this.#reason));
  }

  #makeResult(finishReason: EndReason): PipelineResult {
    const stages: Record<string, StageResult> = {};
    this.#stages.forEach(({ wants, made, end }, i) => {
      const tokens = wants ? made.tokens() : null;
      if (end !== null) stages[this.#names[i]] = { ...end, tokens, extras: made.extras() };
    });
    const last = this.#stages[this.#stages.length - 1].made;
    return {
      ...{ id: this.id, tokens: last.tokens(), extras: last.extras(), finishReason },
      ...{ stopReason: this.#stopReason, stages },
      timings: {
        firstOutputMs: this.#firstOutputAt < 0 ? null : this.#firstOutputAt - this.submittedAt,
        endedMs: this.#endedAt - this.submittedAt,
      },
    };
  }
}
