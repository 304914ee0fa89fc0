/**
 * `blockstep/connectors/offload`: a second tier of KV blocks behind the pool, in host memory, and
 * an optional third tier on disk.
 */
export type { KvMemory, LanedBlocks, LanedMemory } from '../base/kv-memory.js';
export { type OffloadOptions, offload } from './offload.js';
export { OffloadConnector } from './offload-connector.js';
export { OffloadWorker, type OffloadWorkerStats } from './offload-worker.js';
export type { OffloadConnectorOptions, OffloadWorkerOptions } from './options.js';
export type { DiskOptions } from './tiers/disk-options.js';
export type {
  CopyOrder,
  DiskEnd,
  DiskOrders,
  DiskReport,
  KeyedOrder,
  LoadOrder,
  OffloadOrders,
  OffloadReport,
} from './tiers/orders.js';
export type { DiskStats, OffloadStats, TierStats } from './tiers/stats.js';
export type { TierCounts } from './tiers/tier-index.js';
