// The exports of `blockstep/pipeline/redis`.
export type { RedisPartyStats } from './party-stats.js';
export type { RedisTransportOptions } from './redis-options.js';
export { RedisTransport } from './redis-transport.js';
