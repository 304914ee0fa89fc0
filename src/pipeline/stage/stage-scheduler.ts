import { BlockstepError } from '../../base/errors.js';
import type { OutputData, RequestResult } from '../../engine/outputs/outputs.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import type { StageEnd } from '../transport/messages.js';
import type { StageFields } from './stage-options.js';

/** The work of a request in a stage. */
export interface WorkInput {
  /** A name that no other request of the stage ever has. */
  readonly id: string;
  /** The first tokens to compute; empty: the request waits for its first `feed`. */
  readonly prompt: Int32Array;
  /** Whether more input follows by `feed`, until `end`. */
  readonly isFed: boolean;
  readonly fields: StageFields;
}

/**
 * The callbacks of a request's work. Each answer to an input ends with an output that has a
 * `finishReason`.
 */
export interface WorkEvents {
  output(output: OutputData): void;
  /** The work is done. No further callback follows. */
  ended(end: WorkEnd): void;
  /** The work failed, or was aborted. No further callback follows. */
  failed(error: unknown): void;
}

/** How a request's work ended: a `StageEnd` without its times, which the stage measures. */
export type WorkEnd = Omit<StageEnd, 'firstTokenMs' | 'endedMs'>;

/** A request at work in a stage. */
export interface Work {
  /**
   * Gives the next input. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT and the other errors
   * of `Engine.submit`
   */
  feed(input: ChunkInput): void;
  /** The input is complete. The work ends with the answer to the last input. */
  end(): void;
  /** Ends the work at once, without a further callback. Idempotent. */
  abort(): void;
  /** Describes what the work waits for in the engine. */
  explain(): string;
}

/** How a stage computes its requests on its engine. */
export interface StageScheduler {
  /** @throws the errors of `Engine.submit`. No work was begun then */
  begin(input: WorkInput, events: WorkEvents): Work;
}

/** Makes the error for work that the engine itself aborted, for instance at its shutdown. */
export function abortedByEngine(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_REQUEST', "the stage's engine aborted it");
}

/** Converts the engine's result to the end of the work. */
export function endOf(result: RequestResult): WorkEnd {
  const { finishReason, stopReason, tokens, numPromptTokens, numCachedTokens, numPreemptions } = result;
  return {
    ...{ finishReason, stopReason, numPromptTokens, numOutputTokens: tokens.length },
    ...{ numCachedTokens, numPreemptions },
  };
}
