/** `blockstep/llama-cpp`: models in GGUF files, run by llama.cpp. */

export type { ModelCard } from './gguf/model-card.js';
export {
  type DownloadedLlamaModel,
  downloadLlamaModel,
  type LlamaDownloadOptions,
} from './hub/download-model.js';
export type { RefusedCopies } from './kv/copy-ends.js';
export { LlamaKv, type LlamaKvStats } from './kv/llama-kv.js';
export { LlamaEmbedder, type LlamaEmbedderOptions } from './llama-embedder.js';
export { LlamaExecutor, type LlamaExecutorStats } from './llama-executor.js';
export type { LlamaExecutorOptions } from './llama-options.js';
export { LlamaModel, openLlamaModel, type TokenizeOptions } from './model/llama-model.js';
export type { LlamaModelInfo } from './model/model-info.js';
export type { LlamaModelOptions } from './model/model-options.js';
export type { LlamaDevice } from './native/binding.js';
export { findLlamaVariant, type LlamaAttention } from './native/library.js';
export type { LlamaVariant } from './native/packages.js';
export { LLAMA_VERSIONS, type LlamaVersion } from './native/versions.js';
export type { LlamaGrammarForm } from './sampling/grammar-form.js';
export { LlamaGrammar } from './sampling/llama-grammar.js';
