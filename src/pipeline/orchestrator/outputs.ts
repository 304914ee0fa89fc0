// The outputs of a pipeline, for readers.
import type { EndReason, OutputData, StopReason } from '../../engine/outputs/outputs.js';
import type { StageEnd } from '../transport/messages.js';

/**
 * One output for a reader of a pipeline: all tokens of one stage since the previous output, unless
 * another stage's output came in between.
 */
export interface PipelineOutput extends OutputData {
  /** The stage whose tokens these are; in the last output, the last stage. */
  readonly stage: string;
}

/** The result of one stage for a request. */
export interface StageResult extends StageEnd {
  /** Token ids that the stage generated; null unless its outputs were requested. */
  readonly tokens: Int32Array | null;
  /** The executor's extra value for each of `tokens`; null if there are none. */
  readonly extras: readonly unknown[] | null;
}

/** The result of a request that has ended in all stages without failing. */
export interface PipelineResult {
  /** External id of the request. */
  readonly id: string;
  /** All tokens of the last stage, and the extra value of each. */
  readonly tokens: Int32Array;
  readonly extras: readonly unknown[] | null;
  /** How the request ended in the last stage; `abort` if it was aborted without a reason. */
  readonly finishReason: EndReason;
  readonly stopReason: StopReason | null;
  /**
   * The result of each stage, by name. A stage that had not ended when the request was aborted is
   * missing.
   */
  readonly stages: Readonly<Record<string, StageResult>>;
  /**
   * Milliseconds from the submission to the first output of the last stage (null: there was none),
   * and to the end.
   */
  readonly timings: { readonly firstOutputMs: number | null; readonly endedMs: number };
}
