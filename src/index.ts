/// <reference types="node" preserve="true" />
export { Core, generationOf, SLOT_LIMIT, slotOf } from './core/core.js';
export type { DeviceArray, DeviceTableSet, DeviceTables, TableName } from './core/device-tables.js';
export { BlockstepError, ERROR_CODES, type ErrorCode } from './core/errors.js';
export type { BackendReport } from './core/native.js';
export type { CompletionMode, CopyMode, Place } from './core/native-transfer.js';
export { type Backend, type PlacementOptions, probeBackends } from './core/placement.js';
export { type StepTables, type TablesShape, tablesBytes } from './core/tables.js';
export { computedInStep, type HitInStep } from './engine/computed-in-step.js';
export { CostModelExecutor } from './engine/cost-model-executor.js';
export { Engine } from './engine/engine.js';
export type { EngineStats } from './engine/engine-stats.js';
export type {
  DeviceExecutor,
  Executor,
  ExecutorPlan,
  ExecutorRequest,
  ExecutorResult,
  FlatTokens,
} from './engine/executor.js';
export type { ExecutorLimits } from './engine/executor-limits.js';
export type {
  GenerateFailure,
  GenerateInput,
  GenerateOptions,
  GenerateProgress,
  GenerateResult,
  GenerateSource,
} from './engine/generate-options.js';
export type { EngineHealth } from './engine/health.js';
export { InputBatch, type StepInputs } from './engine/input-batch.js';
export type { EngineOptions } from './engine/options.js';
export type {
  EndReason,
  RequestOutput,
  RequestResult,
  RequestTimings,
  StopReason,
} from './engine/outputs.js';
export { ReferenceExecutor } from './engine/reference-executor.js';
export type { ReferenceFault } from './engine/reference-fault.js';
export type { ReferenceExecutorOptions } from './engine/reference-options.js';
export type { OutputIterator, RequestStream } from './engine/request-stream.js';
export type { StepReport } from './engine/step-loop.js';
export type { StepLatency } from './engine/step-times.js';
export type { SubmitInput, SubmitOptions } from './engine/submission.js';
export { Anomalies, type AnomalyReason } from './scheduler/anomalies.js';
export {
  type BlockPins,
  type BlockReuse,
  type ConnectorOutput,
  type Finished,
  type InvalidBlock,
  type Match,
  PartialMetadata,
  type Protection,
  type SchedulerConnector,
  type StoreStep,
  type TransferReport,
  type WorkerConnector,
  type WorkerMetadata,
  type WorkerOutput,
  type WorkerStep,
} from './scheduler/connector.js';
export { DEVIATIONS, type Deviations } from './scheduler/deviations.js';
export type { Drafts } from './scheduler/drafts.js';
export { type Grammar, type GrammarAnswer, GrammarQuestion } from './scheduler/grammar.js';
export { purgeUntracked } from './scheduler/guards.js';
export type { Inspection } from './scheduler/inspection.js';
export type { KvExtent } from './scheduler/kv-extent.js';
export type { BlockLists, HandOver, KvView } from './scheduler/kv-view.js';
export type { LogHeader, LogSink } from './scheduler/log.js';
export { type LogRecord, readLog } from './scheduler/log-reader.js';
export { replayCommands, replayInputs } from './scheduler/log-replay.js';
export type { SchedulerConfig, SchedulerOptions } from './scheduler/options.js';
export type { OutstandingKind } from './scheduler/outstanding.js';
export { EntryKind, type Plan } from './scheduler/plan.js';
export type { ResetOptions, ResetResult } from './scheduler/prefix-reset.js';
export type { Container, Request, RequestInput } from './scheduler/request.js';
export { Scheduler } from './scheduler/scheduler.js';
export type { ChunkInput, Session } from './scheduler/session.js';
export type { ChunkOutcome, EndOutcome } from './scheduler/sessions.js';
export type { SchedulerStats } from './scheduler/stats.js';
export { FinishCode, type FinishReason, finishReasonOf, type RequestStatus } from './scheduler/status.js';
export type { StepOutputs } from './scheduler/step-outputs.js';
export type { StopConditions } from './scheduler/stop-conditions.js';
export type { StepResult } from './scheduler/update-pass.js';
export { DEFAULT_DEADLINES, type Deadlines, type WaitReason } from './scheduler/wait.js';
export { BlockArena } from './transfer/block-arena.js';
export {
  type CompletionCounts,
  CompletionQueue,
  type CompletionQueueOptions,
} from './transfer/completion-queue.js';
export { CudaLane, type CudaLaneInfo, type CudaLaneOptions } from './transfer/cuda-lane.js';
export { HostLane, type HostLaneOptions } from './transfer/host-lane.js';
export { type TransferJob, type TransferJobInput, TransferJobs } from './transfer/job-table.js';
export type { Lane, LaneCounts } from './transfer/lane.js';
export { type LeaseKey, Leases } from './transfer/leases.js';
export { type RankedJob, RankedJobs } from './transfer/ranked-jobs.js';
export { TransferGroup } from './transfer/transfer-group.js';
export { Verdict, verdictName, worseVerdict } from './transfer/verdict.js';
