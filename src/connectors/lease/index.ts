// The exports of `blockstep/connectors/lease`.
export type { LaneFactory } from '../base/kv-lanes.js';
export type { KvMemory } from '../base/kv-memory.js';
export { LeaseConnector, type LeaseConnectorOptions, type LeaseConnectorStats } from './lease-connector.js';
export { LeaseWorker, type LeaseWorkerOptions } from './lease-worker.js';
export type { Link, LinkStats, Receive } from './link/link.js';
export { MemoryHub, type MemoryHubOptions, MemoryLink, type Parcel } from './link/memory-link.js';
export { ZmqLink, type ZmqLinkOptions } from './link/zmq-link.js';
export type { Extent, HandOverParams } from './wire/hand-over.js';
export type {
  ForgoOrder,
  GrantOrder,
  LeaseOrders,
  LeaseSaid,
  LoadOrder,
  Order,
  RevokeOrder,
  WatchOrder,
} from './wire/orders.js';
export type { LeaseWorkerStats, PeerStats } from './worker-stats.js';
