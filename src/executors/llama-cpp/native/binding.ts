// The exports of the addon over llama.cpp.

/** The exports of `blockstep_llama.node`. native/llama/objects/addon.cc is the other side. */
export interface LlamaAddon {
  /** Version of this interface. */
  readonly abi: number;
  /**
   * Loads llama.cpp, once in a process.
   * @throws Error with the message of the system or the library
   */
  load(files: NativeLibraryFiles): NativeLibrary;
  /**
   * Computes attention by our kernel and by llama.cpp's: native/llama/attention/attention.h. For
   * tests.
   */
  tryAttention(trial: AttentionTrial): AttentionTrialResult;
  /**
   * Loads a model's file in a thread of its own.
   * @param progress is called with fractions from 0 to 1
   * @param cancelled [1] other than 0: the loading ends
   */
  loadModel(
    path: string,
    options: {
      gpuLayers: number;
      memoryMap: boolean;
      checkTensors: boolean;
      /** Files of LoRA adapters, which programs name by their index. */
      adapters: readonly string[];
    },
    progress: (share: number) => void,
    cancelled: Int32Array,
  ): Promise<NativeModel>;
}

/** A random attention; see native/llama/attention/attention.h. */
export interface AttentionTrial {
  readonly type: number;
  readonly keySize: number;
  readonly valueSize: number;
  readonly kvHeads: number;
  readonly group: number;
  readonly rows: number;
  readonly cells: number;
  readonly cap: number;
  readonly hasSinks: boolean;
  readonly hasBiases: boolean;
  readonly threads: number;
  readonly seed: number;
  readonly pattern: number;
}

/** The result of a trial. */
export interface AttentionTrialResult {
  readonly wasOurs: boolean;
  /** The largest distance of a row from llama.cpp's answer, as a fraction of its length. */
  readonly distance: number;
  /** Whether rows have the same bits when they are computed alone. */
  readonly isSameAlone: boolean;
}

/** The files of llama.cpp's libraries, and the commit of llama.cpp that they must have; '': any. */
export interface NativeLibraryFiles {
  readonly folder: string;
  /** Folder with backends to try if the backends of `folder` find no GPU; '': none. */
  readonly fallback: string;
  readonly ggmlBase: string;
  readonly ggml: string;
  readonly llama: string;
  readonly commit: string;
  /**
   * Attention kernel on the CPU: '': our fastest kernel. `llama`: llama.cpp's. Otherwise the name
   * of our kernel.
   */
  readonly attention: string;
}

/** A device that llama.cpp found. */
export interface LlamaDevice {
  readonly name: string;
  readonly description: string;
  readonly isGpu: boolean;
  /** Bytes of its memory, by its driver. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** Facts of the library. */
export interface NativeLibrary {
  readonly version: string;
  readonly commit: string;
  /** Most sequences of a context. */
  readonly maxSequences: number;
  readonly devices: readonly LlamaDevice[];
  /**
   * The attention kernel on the CPU: `avx512`, `avx2`, `neon` and `plain` are blockstep's; `llama`
   * is llama.cpp's.
   */
  readonly attention: string;
  /**
   * Why the kernel is llama.cpp's, in words; '': it is ours, or the options asked for llama.cpp's.
   */
  readonly attentionReason: string;
}

/** llama.cpp's facts of a model's file. -1: there is no such token. */
export interface NativeModelInfo {
  readonly architecture: string;
  readonly name: string | null;
  readonly description: string;
  readonly numTokens: number;
  readonly contextLength: number;
  readonly numLayers: number;
  readonly slidingWindow: number;
  readonly isRecurrent: boolean;
  readonly isHybrid: boolean;
  readonly isDiffusion: boolean;
  readonly hasEncoder: boolean;
  readonly hasDecoder: boolean;
  readonly bytes: number;
  readonly numParameters: number;
  readonly bos: number;
  readonly eos: number;
  readonly eot: number;
  readonly sep: number;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  readonly addsSep: boolean;
  readonly chatTemplate: string | null;
  /** The template for a query and a document, for a scoring model; null: none. */
  readonly rankTemplate: string | null;
  readonly endTokens: readonly number[];
  readonly longestToken: number;
}

/** The weights and the vocabulary of a model. */
export interface NativeModel {
  info(): NativeModelInfo;
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array;
  /** Like `tokenize`, in a thread of its own. */
  tokenizeAsync(text: string, addSpecial: boolean, parseSpecial: boolean): Promise<Int32Array>;
  piece(token: number, special: boolean): Uint8Array;
  /** @throws Error if a grammar in GBNF cannot be parsed */
  checkGrammar(gbnf: string): void;
  /** Like `checkGrammar`, in a thread of its own. */
  checkGrammarAsync(gbnf: string): Promise<void>;
  createContext(options: NativeContextOptions): Promise<NativeContext>;
  createEmbedder(options: NativeEmbedderOptions): Promise<NativeEmbedder>;
  /** The weights are freed when the last context of the model has been disposed too. */
  dispose(): void;
}

/** Sizes of an embedder. */
export interface NativeEmbedderOptions {
  /** Most tokens of a call, and of a text. */
  readonly batch: number;
  /** Most texts of a call. */
  readonly sequences: number;
  readonly threads: number;
  /**
   * How the vectors of a text's tokens become one vector, by llama.cpp's number; -1: the model's
   * default.
   */
  readonly pooling: number;
  readonly typeK: number;
  readonly typeV: number;
  /** -1: if available. 0: off. 1: on. */
  readonly flashAttention: number;
  readonly onGpu: boolean;
}

/** A context of llama.cpp that makes vectors of texts. */
export interface NativeEmbedder {
  /**
   * Computes the vectors of texts in a thread of its own.
   * @param tokens of all texts, concatenated
   * @param lengths tokens of each
   * @returns [texts, width]
   */
  embed(tokens: Int32Array, lengths: Int32Array): Promise<Float32Array>;
  /** Length of a vector. */
  width(): number;
  pooling(): number;
  /** Interrupts the computation, and frees the memory. */
  dispose(): void;
}

/** Sizes of a context. */
export interface NativeContextOptions {
  readonly cells: number;
  readonly batch: number;
  readonly microBatch: number;
  readonly sequences: number;
  /** Most sampled rows of a call. */
  readonly outputs: number;
  readonly threads: number;
  readonly batchThreads: number;
  readonly typeK: number;
  readonly typeV: number;
  /** -1: if available. 0: off. 1: on. */
  readonly flashAttention: number;
  readonly offloadCache: boolean;
  /** Tokens of the blocks that `copy` saves and loads; 0: none are. */
  readonly blockSize: number;
  /** Five hashes: see native/llama/block_header.h. */
  readonly origin: BigUint64Array;
}

/** A sampler of one request; see native/llama/sampler.h. */
export interface NativeSamplerOptions {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly seed: number;
  /** Below 0: no log-probabilities. */
  readonly numLogprobs: number;
  readonly biasTokens: Int32Array;
  readonly biases: Float32Array;
  readonly prompt: Int32Array;
  /** GBNF; '': none. */
  readonly grammar: string;
}

/** The result of a program, or of several steps of its chain. */
export interface NativeAnswer {
  /** Steps whose tokens are here, one after the other. */
  readonly steps: number;
  /** Whether another answer of the chain follows. */
  readonly goesOn: boolean;
  /** Leading calls that were done. Below 0: the content of the cache is unknown. */
  readonly callsDone: number;
  /** Why the next call failed; '': all were done. */
  readonly failure: string;
  /** The context is being disposed. */
  readonly wasStopped: boolean;
  /** For each sample of the calls that were begun: the number of its tokens, and these. */
  readonly tokens: Int32Array;
  /**
   * For each token of a sampler with log-probabilities: its own, the number of others, and [token,
   * log-probability] of each other.
   */
  readonly logprobs: Float32Array;
}

/** How copies ended. */
export interface NativeCopies {
  /** The `CopyEnd` of each save and load, in their order. */
  readonly ends: Int32Array;
  /** Why a move failed, so that the content of the cache is unknown; '': none did. */
  readonly failure: string;
}

/** A context of llama.cpp: the KV cache, and a thread that computes. */
export interface NativeContext {
  /**
   * Computes the first `size` numbers of a program (native/llama/program.h). The array must not
   * change until the last answer has come. One program at a time.
   * @param chain most steps that may follow. In each of them, all requests decode their last tokens
   * @returns the answer to the program, maybe with steps of its chain
   */
  compute(program: Int32Array, size: number, chain: number): Promise<NativeAnswer>;
  /** The next answer of a chain: at once if it is there. @throws Error if none follows */
  next(): NativeAnswer | Promise<NativeAnswer>;
  /** Ends the chain after its present step. Its last answer still comes. */
  endChain(): void;
  /** @returns the sampler's number. @throws Error if its grammar cannot be parsed */
  addSampler(options: NativeSamplerOptions): number;
  dropSampler(sampler: number): void;
  cells(): number;
  /**
   * The lowest and the highest position of a sequence in the cache; -1 if the sequence is empty.
   */
  positions(sequence: number): [number, number];
  /** Bytes of a saved block; 0: the cache is of a kind whose blocks cannot be saved. */
  blockBytes(): number;
  /**
   * Notes the memory of saved blocks, which must stay until it is dropped. @returns its number
   */
  addArena(pointer: bigint, numBlocks: number): number;
  dropArena(arena: number): void;
  /**
   * First position of a saved block in its text. If this context may not load the block, by its
   * header, the result is the negative number of a `CopyEnd`.
   */
  placeOf(arena: number, block: number): number;
  /**
   * Makes the first `size` numbers of moves, saves and loads (`Moves`), while no program is
   * computed. One call at a time.
   */
  copy(moves: Int32Array, size: number): Promise<NativeCopies>;
  /** Blocks the thread until the copies under way are over; null: none are. */
  waitForCopies(): NativeCopies | null;
  /** Interrupts the computation, and frees the memory. */
  dispose(): void;
}
