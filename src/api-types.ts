/**
 * Types that public signatures reach and no entry point exports, for the API reference alone: `package.json` has no entry for this file.
 *
 * @module
 */
export type { AnomalySubject } from './base/anomalies.js';
export type { AnomalyReason } from './base/anomaly-reason.js';
export type { ChannelName } from './base/channels.js';
export type { Core } from './core/core.js';
export type { DeviceArray, DeviceGroupTables, DeviceTableSet, TableName } from './core/device-tables.js';
export type { BackendReport } from './core/native/native.js';
export type { NativeGroup } from './core/native/native-groups.js';
export type { GroupShape, TablesShape } from './core/native/native-tables.js';
export type { Backend, Placement, PlacementOptions } from './core/placement.js';
export type { Widths } from './core/tables.js';
export type { HitInStep } from './engine/executor/computed-in-step.js';
export type { ExecutorPlanGroup } from './engine/executor/executor.js';
export type { GroupInputs } from './engine/executor/input-batch.js';
export type {
  GenerateFailure,
  GenerateProgress,
  GenerateSource,
  ThrowingGenerateOptions,
} from './engine/generate-options.js';
export type { EngineProgress } from './engine/inspect/progress.js';
export type { OutputEnd, OutputRequest } from './engine/outputs/engine-outputs.js';
export type { EndReason, OutputData, RequestTimings, StopReason } from './engine/outputs/outputs.js';
export type { OutputsOptions } from './engine/outputs/outputs-reader.js';
export type { EmbedOptions } from './engine/requests/embed.js';
export type { StepLatency } from './engine/state/step-times.js';
export type { OutputIterator } from './engine/streams/request-stream.js';
export type { SubmitPlaces } from './engine/streams/submit-place.js';
export type { ArrayOnDevice, TablesOnDevice } from './executors/reference/device-runner.js';
export type { ReferenceFault } from './executors/reference/faults.js';
export type { Defer } from './executors/reference/host-runner.js';
export type { MismatchPolicy } from './executors/reference/options.js';
export type {
  KvBlocksCleared,
  KvBlocksRemoved,
  KvBlocksStored,
  KvGroupType,
  KvMedium,
  ParsedKvEventSink,
  TierMedium,
} from './scheduler/events/kv-event.js';
export type { GroupHolding, GroupStats } from './scheduler/inspect/group-stats.js';
export type { KvGroup, KvGroups } from './scheduler/options/kv-groups.js';
export type { LayerGroups, LayerOptions } from './scheduler/options/layer-groups.js';
export type { SchedulerConfig } from './scheduler/options/options.js';
export type { ResetOptions } from './scheduler/options/reset.js';
export type { VllmVersion } from './scheduler/options/rules.js';
export type { PlanGroup } from './scheduler/plan/plan-group.js';
export type { GrammarAnswer } from './scheduler/request/grammar.js';
export type { BlockUse, OutstandingKind } from './scheduler/request/outstanding.js';
export type { ChunkOutcome, EndOutcome, Session } from './scheduler/request/session.js';
export type { Container, RequestStatus } from './scheduler/request/status.js';
export type { StopConditions } from './scheduler/request/stop-conditions.js';
export type { Deadlines, WaitReason } from './scheduler/request/wait.js';
export type { SchedulerReader } from './scheduler/scheduler-reader.js';
