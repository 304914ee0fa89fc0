/// <reference types="node" preserve="true" />
/**
 * `blockstep`: an engine around an executor, and the scheduler alone.
 *
 * @module
 */
export { Anomalies } from './base/anomalies.js';
export type { ChannelPayloads } from './base/channels.js';
export { BlockstepError, ERROR_CODES, type ErrorCode } from './base/errors.js';
export type { DeviceTables } from './core/device-tables.js';
export { probeBackends } from './core/placement.js';
export type { GroupTables, StepTables } from './core/tables.js';
export { Engine } from './engine/engine.js';
export { computedInStep } from './engine/executor/computed-in-step.js';
export type {
  DeviceExecutor,
  Executor,
  ExecutorPlan,
  ExecutorRequest,
  ExecutorResult,
  FlatTokens,
  SubmittedRequest,
} from './engine/executor/executor.js';
export type { ExecutorLimits } from './engine/executor/executor-limits.js';
export { InputBatch, type StepInputs } from './engine/executor/input-batch.js';
export type { PromptLogprobs, SamplingParams, TokenLogprobs } from './engine/executor/sampling-params.js';
export type { GenerateInput, GenerateOptions, GenerateResult } from './engine/generate-options.js';
export type { EngineStats } from './engine/inspect/engine-stats.js';
export type { EngineHealth } from './engine/inspect/health.js';
export type { StepReport } from './engine/loop/step-loop.js';
export type { EngineOutputs } from './engine/outputs/engine-outputs.js';
export type { RequestOutput, RequestResult } from './engine/outputs/outputs.js';
export type { OutputsReader } from './engine/outputs/outputs-reader.js';
export type { EngineOptions, ShutdownOptions } from './engine/state/options.js';
export type { RequestStream } from './engine/streams/request-stream.js';
export type { SubmitInput, SubmitOptions } from './engine/streams/submission.js';
export type { ReferenceExecutorOptions } from './executors/reference/options.js';
export { ReferenceExecutor } from './executors/reference/reference-executor.js';
export type { Inspection } from './scheduler/inspect/inspection.js';
export type { SchedulerStats } from './scheduler/inspect/stats.js';
export type { KvGroupOptions } from './scheduler/options/kv-groups.js';
export { groupLayers, type KvLayer } from './scheduler/options/layer-groups.js';
export type { SchedulerOptions } from './scheduler/options/options.js';
export type { ResetResult } from './scheduler/options/reset.js';
export { EntryKind, type Plan } from './scheduler/plan/plan.js';
export type { StepOutputs } from './scheduler/plan/step-outputs.js';
export type { Drafts, StepResult } from './scheduler/plan/step-result.js';
export type { Grammar } from './scheduler/request/grammar.js';
export type { Request, RequestInput } from './scheduler/request/request.js';
export type { ChunkInput } from './scheduler/request/session.js';
export { FinishCode, type FinishReason, finishReasonOf } from './scheduler/request/status.js';
export { Scheduler } from './scheduler/scheduler.js';
