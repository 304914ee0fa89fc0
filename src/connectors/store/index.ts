// The exports of `blockstep/connectors/store`.
export type { StoreStats } from './client/store-counts.js';
export {
  type StoreEnd,
  type StoreFree,
  StoreThread,
  type StoreThreadOptions,
} from './client/store-thread.js';
export type { BlockFormat } from './scheduler/block-names.js';
export { StoreConnector, type StoreConnectorOptions } from './scheduler/store-connector.js';
export type { LoadOrder, StoreOrder, StoreOrders, StoreSaid } from './scheduler/store-orders.js';
export { type BlockStore, Outcome, type Visit } from './stores/block-store.js';
export type {
  EmbeddedStoreOptions,
  OwnStoreOptions,
  RedisStoreOptions,
  StoreOptions,
} from './stores/store-options.js';
export { StoreWorker, type StoreWorkerOptions } from './worker/store-worker.js';
