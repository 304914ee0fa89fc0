// The exports of `blockstep/connectors/multi`.
export type { NamedConnector } from './child.js';
export { MultiConnector, type MultiConnectorOptions } from './multi-connector.js';
export type { MultiMetadata, MultiSaid } from './multi-metadata.js';
export { MultiWorker, type MultiWorkerOptions } from './multi-worker.js';
