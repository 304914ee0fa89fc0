// The exports of `blockstep/pipeline`.
export type { PipelineOutput, PipelineResult, StageResult } from './orchestrator/outputs.js';
export type { PipelineStream } from './orchestrator/pipeline-stream.js';
export type { PipelineInput, PipelineSubmitOptions } from './orchestrator/submission.js';
export { Pipeline, type PipelineShutdownOptions, type PipelineStats } from './pipeline.js';
export type { PipelineHealth } from './pipeline-health.js';
export type { PipelineOptions, RemoteStage } from './pipeline-options.js';
export type { StageStats } from './stage/stage.js';
export type { StageChunk, StageFields, StageOptions } from './stage/stage-options.js';
export { StageServer, type StageServerOptions } from './stage-server.js';
export type { Chunk } from './transport/chunk.js';
export { MemoryTransport } from './transport/memory-transport.js';
export type {
  ClientMessage,
  PipelineMessage,
  RequestKey,
  StageEnd,
  StageFailure,
  StageFigures,
  StageMessage,
  StageOutput,
  StageSubmission,
} from './transport/messages.js';
export type { Connection, Mailbox, Transport } from './transport/transport.js';
