/** `blockstep/kv-events`: KV cache events over ZeroMQ, as vLLM publishes them. */

export type { KvEvent, KvEventSink } from '../scheduler/events/kv-event.js';
export type { KvEventPublisherOptions } from './options.js';
export { KvEventPublisher, type KvEventPublisherStats } from './publisher.js';
