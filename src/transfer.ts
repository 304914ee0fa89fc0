/**
 * `blockstep/transfer`: the means by which connectors copy KV blocks: arenas, lanes, and the queues
 * where copies complete.
 *
 * @module
 */
export type { CompletionMode, CopyMode, Place } from './core/native/native-transfer.js';
export type { ArenaDescriptor } from './transfer/arena-descriptor.js';
export { type ArenaConfig, BlockArena } from './transfer/block-arena.js';
export {
  type CompletionCounts,
  CompletionQueue,
  type CompletionQueueOptions,
} from './transfer/completion-queue.js';
export { CudaLane, type CudaLaneInfo, type CudaLaneOptions } from './transfer/cuda-lane.js';
export { HostLane, type HostLaneOptions } from './transfer/host-lane.js';
export type { Lane, LaneCounts } from './transfer/lane.js';
export { type LeaseKey, Leases } from './transfer/leases.js';
export { type RankedJob, RankedJobs } from './transfer/ranked-jobs.js';
export { Verdict } from './transfer/verdict.js';
