/**
 * `blockstep/connector`: the contract of connectors, which move KV blocks between an engine and elsewhere.
 *
 * @module
 */
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
export type { BlockLists, ConnectorPlan, HandOver, KvView } from './scheduler/connector/kv-view.js';
export { PartialMetadata } from './scheduler/connector/partial-metadata.js';
export type { KvViewGroup, PlaceRange } from './scheduler/connector/view-group.js';
export type { ConnectorRequest } from './scheduler/request/connector-request.js';
