/** `blockstep/serve`: an engine as a server that speaks OpenAI's API, as a Fastify plugin. */

export type { Chat, ChatTemplate } from './api/chat.js';
export type { ChatMessage, ChatToolCall } from './api/chat-message.js';
export type { HeededSampling, SamplingName } from './api/sampling.js';
export type { TextFormat } from './api/text-format.js';
export type { ChatTool } from './api/tools.js';
export { type AppOptions, appOptions } from './entry/app-options.js';
export { openChatTemplate, type TemplateTexts } from './model/chat-template.js';
export {
  type GrammarForm,
  type LoadedModel,
  type LoadedModelOptions,
  modelOptions,
  SAMPLING_DEFAULTS,
} from './model/loaded-model.js';
export type { ModelOptions } from './model/model-options.js';
export { type ModelTokenizer, ModelVocabulary } from './model/model-vocabulary.js';
export type { ServeOptions } from './server/options.js';
export { blockstepServer, type ServerPlugin } from './server/plugin.js';
export { o200k, type Vocabulary } from './text/vocabulary.js';
