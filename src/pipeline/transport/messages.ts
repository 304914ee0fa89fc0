import type { BlockstepError, ErrorCode } from '../../base/errors.js';
import type { EndReason, StopReason } from '../../engine/outputs/outputs.js';
import type { Chunk } from './chunk.js';

/**
 * Names one request of a pipeline in all its stages and for ever. An id may be used again after its request has ended;
 * a key never is, so that nothing of an old request reaches a new one.
 */
export type RequestKey = string;

/** What a stage is told of a request when the request is submitted. Plain data. */
export interface StageSubmission {
  readonly key: RequestKey;
  /** The client's id, for messages and logs. */
  readonly id: string;
  /** The party that the stage reports to. */
  readonly client: string;
  /** The party whose chunks are the input; null: `prompt` is all of it. */
  readonly from: string | null;
  /** The party that takes this stage's chunks; null: nobody. */
  readonly to: string | null;
  /** Whether the client wants the outputs of this stage. */
  readonly wants: boolean;
  /** Prompt of the first stage; empty for the others. */
  readonly prompt: Int32Array;
  /** Fields of `SubmitInput` that the client gave for this stage. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What a stage made of a request: tokens since the output before. */
export interface StageOutput {
  readonly tokens: Int32Array;
  readonly extras: readonly unknown[] | null;
  /** How the answer to one chunk ended, or the request in this stage; null: more tokens of it will come. */
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
  /** Milliseconds from the submission at the stage to its first token (null: none came) and to its end. */
  readonly firstTokenMs: number | null;
  readonly endedMs: number;
}

/** An error as plain data: a stage may be in another process. */
export interface StageFailure {
  readonly code: ErrorCode;
  readonly message: string;
  /** The error itself, in one process. */
  readonly error?: BlockstepError;
}

/** Figures of a stage that go out with each answer to a ping. */
export interface StageFigures {
  /** Requests that the stage has. */
  readonly requests: number;
  /** Of these, parked ones: they wait for their next chunk. */
  readonly parked: number;
  /** Chunks that came, and that were sent. */
  readonly chunksIn: number;
  readonly chunksOut: number;
  /** What is wrong with its engine, in words (`Engine.health`); empty: nothing. */
  readonly troubles: readonly string[];
}

/** What a stage is told. */
export type StageMessage =
  | { readonly kind: 'submit'; readonly submission: StageSubmission }
  | { readonly kind: 'chunk'; readonly key: RequestKey; readonly chunk: Chunk }
  | { readonly kind: 'taken'; readonly key: RequestKey; readonly number: number }
  | { readonly kind: 'abort'; readonly key: RequestKey }
  | { readonly kind: 'ping'; readonly client: string; readonly number: number }
  | { readonly kind: 'explain'; readonly client: string; readonly key: RequestKey; readonly ask: number };

/** What the party is told that submits requests. */
export type ClientMessage =
  | {
      readonly kind: 'output';
      readonly key: RequestKey;
      readonly stage: string;
      /** Counts the outputs of one request from one stage, from 1 on: a client finds what was lost or came twice. */
      readonly number: number;
      readonly output: StageOutput;
    }
  | {
      /** Nothing of the request is left in the stage: all its chunks are sent. */
      readonly kind: 'ended';
      readonly key: RequestKey;
      readonly stage: string;
      /** How many outputs went before. */
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
