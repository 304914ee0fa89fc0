import type { NativeModelInfo } from '../native/binding.js';
import type { LlamaLibrary } from '../native/library.js';

/** What a model is. */
export interface LlamaModelInfo {
  /** Path of its file, as it was given. */
  readonly file: string;
  /** Name in its file; null if it has none. */
  readonly name: string | null;
  /** Architecture by llama.cpp's name: `llama`, `qwen3`, `gemma3`. */
  readonly architecture: string;
  /** In a few words: architecture, size, type of the weights. */
  readonly description: string;
  /** Number of tokens in its vocabulary. */
  readonly vocabSize: number;
  /** Tokens of the longest text that it was trained on. */
  readonly contextLength: number;
  readonly numLayers: number;
  readonly numParameters: number;
  /** Bytes of its weights. */
  readonly weightBytes: number;
  /** Tokens that its sliding window has; 0: it has none. */
  readonly slidingWindow: number;
  /**
   * What it keeps of a text: `attention`: KV of each token. `recurrent`: a state alone. `hybrid`: both. A state cannot go back, so these two
   * have no prefix cache and no drafts.
   */
  readonly memory: 'attention' | 'recurrent' | 'hybrid';
  /** Token of a text's begin; null if it has none. */
  readonly bosToken: number | null;
  /** Token of a text's end; null if it has none. */
  readonly eosToken: number | null;
  /** All tokens that end an answer: of the text, of a turn, of a message. */
  readonly endTokens: readonly number[];
  /** Bytes of the longest token, those of the names of special tokens included: a text of n bytes has at least n / longestToken tokens. */
  readonly longestToken: number;
  /** Whether `tokenize` with `addSpecial` puts the token of the begin in front. */
  readonly addsBos: boolean;
  /** Its chat template, in Jinja; null if it has none. */
  readonly chatTemplate: string | null;
  /** llama.cpp's own version, and the commit that it was built from. */
  readonly library: { readonly version: string; readonly commit: string };
  /**
   * What computes attention on the CPU: `avx512`, `avx2`, `neon` or `plain`: blockstep's kernel. `llama`: llama.cpp's own, and why; '' if that
   * was asked for.
   */
  readonly attention: { readonly kernel: string; readonly reason: string };
}

export function readInfo(file: string, native: NativeModelInfo, library: LlamaLibrary): LlamaModelInfo {
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
    library: Object.freeze({ version: library.version, commit: library.commit }),
    attention: Object.freeze({ kernel: library.attention, reason: library.attentionReason }),
  });
}

function tokenOrNull(token: number): number | null {
  return token < 0 ? null : token;
}
