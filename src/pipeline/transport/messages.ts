// All messages between stages and clients.
import type { BlockstepError, ErrorCode } from '../../base/errors.js';
import type { EndReason, StopReason } from '../../engine/outputs/outputs.js';
import type { Chunk } from './chunk.js';

/**
 * Names one request of a pipeline in all its stages. An id may be reused after its request has
 * ended. A key is never reused, so that no message of an old request reaches a new one.
 */
export type RequestKey = string;

/** The submission of a request to a stage. Plain data. */
export interface StageSubmission {
  readonly key: RequestKey;
  /** The client's id, for messages and logs. */
  readonly id: string;
  /** The party that the stage reports to. */
  readonly client: string;
  /** The party whose chunks are the input; null: `prompt` is the whole input. */
  readonly from: string | null;
  /** The party that takes this stage's chunks; null: none. */
  readonly to: string | null;
  /** Whether the client wants the outputs of this stage. */
  readonly wants: boolean;
  /** Prompt of the first stage; empty for the others. */
  readonly prompt: Int32Array;
  /** Fields of `SubmitInput` that the client gave for this stage. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A stage's output for a request: the tokens since the previous output. */
export interface StageOutput {
  readonly tokens: Int32Array;
  readonly extras: readonly unknown[] | null;
  /**
   * How the answer to one chunk, or the request in this stage, ended; null: more tokens will
   * follow.
   */
  readonly finishReason: EndReason | null;
  readonly stopReason: StopReason | null;
}

/** How a request ended in a stage. */
export interface StageEnd {
  readonly finishReason: EndReason;
  readonly stopReason: StopReason | null;
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
  readonly numCachedTokens: number;
  readonly numPreemptions: number;
  /**
   * Milliseconds from the submission at the stage to its first token (null: there was none) and to
   * its end.
   */
  readonly firstTokenMs: number | null;
  readonly endedMs: number;
}

/** An error as plain data, because a stage may be in another process. */
export interface StageFailure {
  readonly code: ErrorCode;
  readonly message: string;
  /** The error itself, within one process. */
  readonly error?: BlockstepError;
}

/** Figures of a stage that are sent with each answer to a ping. */
export interface StageFigures {
  /** Number of the stage's requests. */
  readonly requests: number;
  /** Number of parked requests, which wait for their next chunk. */
  readonly parked: number;
  /** Number of chunks that arrived, and that were sent. */
  readonly chunksIn: number;
  readonly chunksOut: number;
  /** Troubles of the stage's engine (`Engine.health`); empty: none. */
  readonly troubles: readonly string[];
}

/** The messages to a stage. */
export type StageMessage =
  | { readonly kind: 'submit'; readonly submission: StageSubmission }
  | { readonly kind: 'chunk'; readonly key: RequestKey; readonly chunk: Chunk }
  | { readonly kind: 'taken'; readonly key: RequestKey; readonly number: number }
  | { readonly kind: 'abort'; readonly key: RequestKey }
  | { readonly kind: 'ping'; readonly client: string; readonly number: number }
  | { readonly kind: 'explain'; readonly client: string; readonly key: RequestKey; readonly ask: number };

/** The messages to the party that submits requests. */
export type ClientMessage =
  | {
      readonly kind: 'output';
      readonly key: RequestKey;
      readonly stage: string;
      /**
       * Number of the output, from 1, within one request and stage. The client uses it to find lost
       * and duplicate outputs.
       */
      readonly number: number;
      readonly output: StageOutput;
    }
  | {
      /** The stage has finished all work of the request, and sent all its chunks. */
      readonly kind: 'ended';
      readonly key: RequestKey;
      readonly stage: string;
      /** Number of earlier outputs. */
      readonly numOutputs: number;
      readonly end: StageEnd;
    }
  | {
      readonly kind: 'failed';
      readonly key: RequestKey;
      readonly stage: string;
      readonly failure: StageFailure;
    }
  | { readonly kind: 'taken'; readonly key: RequestKey; readonly number: number }
  | {
      readonly kind: 'pong';
      readonly stage: string;
      readonly number: number;
      /** Keys of the client's requests that the stage has. */
      readonly keys: readonly RequestKey[];
      readonly figures: StageFigures;
    }
  | { readonly kind: 'explained'; readonly ask: number; readonly text: string };

export type PipelineMessage = StageMessage | ClientMessage;
