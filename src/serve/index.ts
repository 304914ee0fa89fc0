/** `blockstep/serve`: an engine as a server that speaks OpenAI's API, as a plugin of Fastify. */

export type { ChatMessage } from './api/chat-message.js';
export type { HeededSampling, Sampling, SamplingName } from './api/sampling.js';
export type { ModelOptions, ServeOptions } from './server/options.js';
export { blockstepServer, type ServerPlugin } from './server/plugin.js';
export { o200k, type Vocabulary } from './text/vocabulary.js';
