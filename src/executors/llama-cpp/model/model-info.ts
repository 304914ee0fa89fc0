// The facts of a model, as llama.cpp reads them from its file.
import type { NativeModelInfo } from '../native/binding.js';
import type { LlamaLibrary } from '../native/library.js';

/** Facts of a model. */
export interface LlamaModelInfo {
  /** Path of the model's file, as passed by the caller. */
  readonly file: string;
  /** Name in the file; null: none. */
  readonly name: string | null;
  /** Architecture by llama.cpp's name: `llama`, `qwen3`, `gemma3`. */
  readonly architecture: string;
  /** In a few words: architecture, size, type of the weights. */
  readonly description: string;
  /** Number of tokens in the vocabulary. */
  readonly vocabSize: number;
  /** Tokens of the longest text in training. */
  readonly contextLength: number;
  readonly numLayers: number;
  readonly numParameters: number;
  /** Bytes of the weights. */
  readonly weightBytes: number;
  /** Tokens of the sliding window; 0: none. */
  readonly slidingWindow: number;
  /**
   * Memory of a text: `attention`: KV of each token. `recurrent`: a state alone. `hybrid`: both. A
   * state cannot go back, so the last two have no prefix cache and no drafts.
   */
  readonly memory: 'attention' | 'recurrent' | 'hybrid';
  /** Token that begins a text; null: none. */
  readonly bosToken: number | null;
  /** Token that ends a text; null: none. */
  readonly eosToken: number | null;
  /** All tokens that end an answer: the ends of a text, a turn and a message. */
  readonly endTokens: readonly number[];
  /**
   * Bytes of the longest token, including names of special tokens. A text of n bytes has at least n
   * / longestToken tokens.
   */
  readonly longestToken: number;
  /** Whether `tokenize` with `addSpecial` adds the begin token. */
  readonly addsBos: boolean;
  /** The chat template, in Jinja; null: none. */
  readonly chatTemplate: string | null;
  /** The names of its LoRA adapters, which requests name (`adapter`). */
  readonly loras: readonly string[];
  /** llama.cpp's own version, and the commit that it was built from. */
  readonly library: { readonly version: string; readonly commit: string };
  /**
   * The attention kernel on the CPU: `avx512`, `avx2`, `neon` or `plain` of blockstep, or `llama`:
   * llama.cpp's own. `reason` says why it is llama.cpp's; '' if the options asked for it.
   */
  readonly attention: { readonly kernel: string; readonly reason: string };
}

export function readInfo(
  file: string,
  native: NativeModelInfo,
  library: LlamaLibrary,
  loras: readonly string[],
): LlamaModelInfo {
  const { isRecurrent, isHybrid } = native;
  return Object.freeze({
    file,
    name: native.name,
    architecture: native.architecture,
    description: native.description,
    vocabSize: native.numTokens,
    contextLength: native.contextLength,
    numLayers: native.numLayers,
    numParameters: native.numParameters,
    weightBytes: native.bytes,
    slidingWindow: native.slidingWindow,
    memory: isHybrid ? 'hybrid' : isRecurrent ? 'recurrent' : 'attention',
    bosToken: tokenOrNull(native.bos),
    eosToken: tokenOrNull(native.eos),
    endTokens: Object.freeze([...native.endTokens]),
    longestToken: native.longestToken,
    addsBos: native.addsBos,
    chatTemplate: native.chatTemplate,
    loras: Object.freeze([...loras]),
    library: Object.freeze({ version: library.version, commit: library.commit }),
    attention: Object.freeze({ kernel: library.attention, reason: library.attentionReason }),
  });
}

function tokenOrNull(token: number): number | null {
  return token < 0 ? null : token;
}
