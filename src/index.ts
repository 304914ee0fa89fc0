/// <reference types="node" preserve="true" />
export { Anomalies, type AnomalySubject } from './base/anomalies.js';
export type { AnomalyReason } from './base/anomaly-reason.js';
export type { ChannelName, ChannelPayloads } from './base/channels.js';
export { BlockstepError, ERROR_CODES, type ErrorCode } from './base/errors.js';
export { Core, type CoreConfig, generationOf, SLOT_LIMIT, slotOf } from './core/core.js';
export type {
  DeviceArray,
  DeviceGroupTables,
  DeviceTableSet,
  DeviceTables,
  TableName,
} from './core/device-tables.js';
export type { BackendReport, ReplayResult } from './core/native/native.js';
export type { NativeGroup } from './core/native/native-groups.js';
export type { GroupShape, TablesShape } from './core/native/native-tables.js';
export type { CompletionMode, CopyMode, Place } from './core/native/native-transfer.js';
export { type Backend, type Placement, type PlacementOptions, probeBackends } from './core/placement.js';
export { type GroupTables, type StepTables, tablesBytes, type Widths } from './core/tables.js';
export { Engine } from './engine/engine.js';
export { computedInStep, type HitInStep } from './engine/executor/computed-in-step.js';
export type {
  DeviceExecutor,
  Executor,
  ExecutorPlan,
  ExecutorPlanGroup,
  ExecutorRequest,
  ExecutorResult,
  FlatTokens,
  SubmittedRequest,
} from './engine/executor/executor.js';
export type { ExecutorLimits } from './engine/executor/executor-limits.js';
export { type GroupInputs, InputBatch, type StepInputs } from './engine/executor/input-batch.js';
export type { PromptLogprobs, SamplingParams, TokenLogprobs } from './engine/executor/sampling-params.js';
export type {
  GenerateFailure,
  GenerateInput,
  GenerateOptions,
  GenerateProgress,
  GenerateResult,
  GenerateSource,
  ThrowingGenerateOptions,
} from './engine/generate-options.js';
export type { EngineStats } from './engine/inspect/engine-stats.js';
export type { EngineHealth } from './engine/inspect/health.js';
export type { EngineProgress } from './engine/inspect/progress.js';
export type { StepReport } from './engine/loop/step-loop.js';
export type { EngineOutputs, OutputEnd, OutputRequest } from './engine/outputs/engine-outputs.js';
export type {
  EndReason,
  OutputData,
  RequestOutput,
  RequestResult,
  RequestTimings,
  StopReason,
} from './engine/outputs/outputs.js';
export type { OutputsOptions, OutputsReader } from './engine/outputs/outputs-reader.js';
export type { EmbedOptions } from './engine/requests/embed.js';
export type { EngineOptions, ShutdownOptions } from './engine/state/options.js';
export type { StepLatency } from './engine/state/step-times.js';
export type { OutputIterator, RequestStream } from './engine/streams/request-stream.js';
export type { SubmitInput, SubmitOptions } from './engine/streams/submission.js';
export type { SubmitPlaces } from './engine/streams/submit-place.js';
export type { CostModel } from './executors/cost-model/cost-model.js';
export type { CostModelExecutorOptions, TimedTokens } from './executors/cost-model/cost-model-executor.js';
export { CostModelExecutor } from './executors/cost-model/cost-model-executor.js';
export type { TablesOnDevice } from './executors/reference/device-runner.js';
export type { ReferenceFault } from './executors/reference/faults.js';
export type { Defer } from './executors/reference/host-runner.js';
export type { MismatchPolicy, ReferenceExecutorOptions } from './executors/reference/options.js';
export { ReferenceExecutor } from './executors/reference/reference-executor.js';
export type { BorrowingAdapter, BorrowQueue, BorrowQueues } from './scheduler/borrow/borrowing-adapter.js';
export { type ChildFailure, ChildrenError } from './scheduler/connector/children-error.js';
export type {
  BlockPins,
  BlockReuse,
  ConnectorOutput,
  Finished,
  InvalidBlock,
  Match,
  Protection,
  SchedulerConnector,
  StoreStep,
  TransferReport,
  WorkerConnector,
  WorkerMetadata,
  WorkerOutput,
  WorkerStep,
} from './scheduler/connector/connector.js';
export type { KvExtent } from './scheduler/connector/kv-extent.js';
export type { BlockLists, HandOver, KvView } from './scheduler/connector/kv-view.js';
export { PartialMetadata } from './scheduler/connector/partial-metadata.js';
export type { KvViewGroup, PlaceRange } from './scheduler/connector/view-group.js';
export {
  HASH_BYTES,
  type KvBlocksCleared,
  type KvBlocksRemoved,
  type KvBlocksStored,
  type KvEvent,
  type KvEventSink,
  type KvGroupType,
  type KvMedium,
  type TakenKvEventSink,
  type TierMedium,
} from './scheduler/events/kv-event.js';
export type { GroupStats } from './scheduler/inspect/group-stats.js';
export type { Inspection } from './scheduler/inspect/inspection.js';
export type { SchedulerStats } from './scheduler/inspect/stats.js';
export type { LoggedConnector, LogHeader } from './scheduler/log/log.js';
export type { LoggedRequest } from './scheduler/log/log-reader.js';
export { type LogRecord, readLog } from './scheduler/log/log-reader.js';
export { DEVIATIONS, type Deviations } from './scheduler/options/deviations.js';
export type { KvGroup, KvGroupOptions, KvGroups } from './scheduler/options/kv-groups.js';
export {
  groupLayers,
  type KvLayer,
  type LayerGroups,
  type LayerOptions,
} from './scheduler/options/layer-groups.js';
export type { LogSink, SchedulerConfig, SchedulerOptions } from './scheduler/options/options.js';
export type { ResetOptions, ResetResult } from './scheduler/options/reset.js';
export type { VersionRules, VllmVersion } from './scheduler/options/rules.js';
export { EntryKind, type Plan } from './scheduler/plan/plan.js';
export type { PlanGroup } from './scheduler/plan/plan-group.js';
export type { StepOutputs } from './scheduler/plan/step-outputs.js';
export type { Drafts, StepResult } from './scheduler/plan/step-result.js';
export { replayCommands, replayInputs } from './scheduler/replay/log-replay.js';
export { type Grammar, type GrammarAnswer, GrammarQuestion } from './scheduler/request/grammar.js';
export type { BlockUse, OutstandingKind } from './scheduler/request/outstanding.js';
export type { Request, RequestInput } from './scheduler/request/request.js';
export type { ChunkInput, ChunkOutcome, EndOutcome, Session } from './scheduler/request/session.js';
export {
  type Container,
  FinishCode,
  type FinishReason,
  finishReasonOf,
  type RequestStatus,
} from './scheduler/request/status.js';
export type { StopConditions } from './scheduler/request/stop-conditions.js';
export { DEFAULT_DEADLINES, type Deadlines, type WaitReason } from './scheduler/request/wait.js';
export { Scheduler } from './scheduler/scheduler.js';
export { purgeUntracked } from './scheduler/state/guards.js';
export type { ArenaDescriptor } from './transfer/arena-descriptor.js';
export { type ArenaConfig, BlockArena } from './transfer/block-arena.js';
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
