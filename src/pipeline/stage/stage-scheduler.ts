import { BlockstepError } from '../../base/errors.js';
import type { OutputData, RequestResult } from '../../engine/outputs/outputs.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import type { StageEnd } from '../transport/messages.js';
import type { StageFields } from './stage-options.js';

/** What a stage begins for a request. */
export interface WorkInput {
  /** A name that no other request of the stage ever has. */
  readonly id: string;
  /** What is computed first; empty: it waits for its first `feed`. */
  readonly prompt: Int32Array;
  /** Whether more input follows by `feed`, until `end`. */
  readonly isFed: boolean;
  readonly fields: StageFields;
}

/** What is told of a request's work. Each answer to an input ends with an output that has a `finishReason`. */
export interface WorkEvents {
  output(output: OutputData): void;
  /** The work is done; nothing more is told. */
  ended(end: WorkEnd): void;
  /** The work failed, or was aborted; nothing more is told. */
  failed(error: unknown): void;
}

/** How a request's work ended: all of a `StageEnd` but its times, which the stage measures. */
export type WorkEnd = Omit<StageEnd, 'firstTokenMs' | 'endedMs'>;

/** A request at work in a stage. */
export interface Work {
  /** Gives it its next input. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT and what else `Engine.submit` throws */
  feed(input: ChunkInput): void;
  /** No more input comes: it ends with the answer to the last one. */
  end(): void;
  /** Ends it at once, and tells nothing more. Idempotent. */
  abort(): void;
  /** What it waits for in the engine, in words. */
  explain(): string;
}

/** How a stage computes its requests on its engine. */
export interface StageScheduler {
  /** @throws what `Engine.submit` throws; nothing was begun then */
  begin(input: WorkInput, events: WorkEvents): Work;
}

/** What a stage says of work that its engine aborted by itself, as at its shutdown. */
export function abortedByEngine(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_REQUEST', "the stage's engine aborted it");
}

/** How work ended, from the engine's result. */
export function endOf(result: RequestResult): WorkEnd {
  const { finishReason, stopReason, tokens, numPromptTokens, numCachedTokens, numPreemptions } = result;
  return {
    ...{ finishReason, stopReason, numPromptTokens, numOutputTokens: tokens.length },
    ...{ numCachedTokens, numPreemptions },
  };
}
