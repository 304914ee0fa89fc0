import { badArg } from '../../../base/checks.js';
import { BlockstepError, checkInteger, messageOf } from '../../../base/errors.js';
import { INSPECT, showFacts } from '../../../base/inspect.js';
import { sharedAside } from '../../../base/scripts/aside.js';
import { badModel } from '../gguf/bad-model.js';
import { readGguf } from '../gguf/gguf-file.js';
import { inWords } from '../gguf/memory-needs.js';
import { type ModelCard, readModelCard } from '../gguf/model-card.js';
import type { LlamaDevice, NativeModel, NativeModelInfo } from '../native/binding.js';
import { findLlamaVariant, hasGpu, type LlamaLibrary, loadLibrary } from '../native/library.js';
import type { LlamaVariant } from '../native/packages.js';
import {
  badGrammar,
  type LlamaGrammarForm,
  type ReadGrammar,
  readGrammar,
} from '../sampling/grammar-form.js';
import { LlamaGrammar } from '../sampling/llama-grammar.js';
import { type LlamaModelInfo, readInfo } from './model-info.js';
import { type LlamaModelOptions, resolveModelOptions } from './model-options.js';
import { rankPrompt } from './rank-prompt.js';

/** Reads grammars aside, and milliseconds in which that is done on a busy machine. */
const READ = { from: import.meta.url, module: '../sampling/grammar-form', name: 'readGrammar' };
const READ_MS = 5000;

/** How a text becomes tokens. */
export interface TokenizeOptions {
  /** Adds the tokens that the model wants around a text, as its file says: that of its begin, for most. Default false. */
  readonly addSpecial?: boolean;
  /** Reads the names of special tokens in the text as these tokens. Never for what strangers wrote. Default false. */
  readonly parseSpecial?: boolean;
}

/**
 * A model of llama.cpp: weights and vocabulary, in memory until `dispose`. Any number of executors may compute with it, one after the
 * other or beside each other.
 */
export class LlamaModel {
  /** What the model is. */
  readonly info: LlamaModelInfo;
  /** What its file says of it. */
  readonly card: ModelCard;
  readonly #native: NativeModel;
  /** What llama.cpp says of it. Asked for once: it goes through the whole vocabulary. */
  readonly #said: NativeModelInfo;
  readonly #library: LlamaLibrary;
  #disposed = false;
  /** The end of the texts that are tokenized off the event loop. */
  #tokenizing: Promise<void> = Promise.resolve();

  private constructor(card: ModelCard, native: NativeModel, library: LlamaLibrary) {
    this.card = card;
    this.#native = native;
    this.#library = library;
    this.#said = native.info();
    this.info = readInfo(card.path, this.#said, library);
  }

  /** See `openLlamaModel`. */
  static async open(options: LlamaModelOptions): Promise<LlamaModel> {
    const resolved = resolveModelOptions(options);
    const { path, libraryFolder, attention, gpuLayers, memoryMap, checkTensors } = resolved;
    const { onProgress, signal } = resolved;
    signal?.throwIfAborted();
    const card = readModelCard(readGguf(path));
    const looks = resolved.variant === 'auto' && libraryFolder === null && gpuLayers !== 0;
    const variant = looks ? await findLlamaVariant() : resolved.variant;
    const isOnHost =
      variant === 'cpu' || gpuLayers === 0 || (variant === 'auto' && process.platform !== 'darwin');
    if (isOnHost && !memoryMap) checkMemory(card, process.availableMemory());
    const library = await loadLibrary(variant, libraryFolder, attention);
    checkDevices(library, variant, gpuLayers);
    const cancelled = new Int32Array(1);
    const cancel = (): void => {
      cancelled[0] = 1;
    };
    signal?.addEventListener('abort', cancel);
    try {
      const native = await library.addon.loadModel(
        path,
        { gpuLayers, memoryMap, checkTensors },
        onProgress,
        cancelled,
      );
      return new LlamaModel(card, native, library);
    } catch (cause) {
      signal?.throwIfAborted();
      throw badModel(path, `cannot be loaded: ${messageOf(cause)}`, cause);
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** The devices that llama.cpp found, with their free memory when the library was loaded. */
  get devices(): readonly LlamaDevice[] {
    return this.#library.devices;
  }

  /**
   * Turns a text into tokens.
   * @returns token ids, a new array
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED; ERR_BLOCKSTEP_BAD_MODEL where the vocabulary lacks what the text needs
   */
  tokenize(text: string, { addSpecial = false, parseSpecial = false }: TokenizeOptions = {}): Int32Array {
    if (typeof text !== 'string') throw badArg('text', text, 'a string');
    const native = this.#alive();
    try {
      return native.tokenize(text, addSpecial, parseSpecial);
    } catch (cause) {
      return this.#noTokens(cause);
    }
  }

  /**
   * The same, off the event loop: for texts of more than a few thousand characters. Texts are tokenized one at a time, in their order.
   * @returns a promise of token ids, a new array; it is rejected with what `tokenize` throws
   */
  tokenizeAsync(
    text: string,
    { addSpecial = false, parseSpecial = false }: TokenizeOptions = {},
  ): Promise<Int32Array> {
    const next = this.#tokenizing.then(async () => {
      if (typeof text !== 'string') throw badArg('text', text, 'a string');
      const native = this.#alive();
      return await native
        .tokenizeAsync(text, addSpecial, parseSpecial)
        .catch((cause) => this.#noTokens(cause));
    });
    this.#tokenizing = next.then(
      () => {},
      () => {},
    );
    return next;
  }

  /**
   * The bytes of a token. A character may have several tokens, so bytes of several pieces make a text (`TextDecoder` with `stream`).
   * @param token id, below `info.vocabSize`
   * @param special gives special tokens their names; otherwise they have no bytes. Default true
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED
   */
  piece(token: number, special = true): Uint8Array {
    const native = this.#alive();
    return native.piece(checkInteger('token', token, 0, this.info.vocabSize - 1), special);
  }

  /**
   * The tokens by which a model that scores is told of a query and a document.
   * @returns a promise of them, rejected as that of `tokenizeAsync` is
   */
  rankPrompt(query: string, document: string): Promise<Int32Array> {
    const tokenize = (text: string, parseSpecial: boolean): Promise<Int32Array> =>
      this.tokenizeAsync(text, { parseSpecial });
    return rankPrompt(this.#said, tokenize, query, document);
  }

  /**
   * Makes a grammar, which holds the tokens of a request to it: `engine.submit({ grammar: model.grammar({ jsonSchema }) })`.
   * @param form `gbnf`: llama.cpp's own language, whose rule `root` is the begin. `jsonSchema`: JSON as a schema has it. `json`: any object
   * @throws ERR_BLOCKSTEP_BAD_ARG for a grammar that cannot be parsed, or a schema that cannot be heeded; ERR_BLOCKSTEP_DISPOSED
   */
  grammar(form: LlamaGrammarForm): LlamaGrammar {
    this.#alive();
    const { gbnf, tokens } = readGrammar(form);
    this.#checkTokens(tokens);
    try {
      this.#alive().checkGrammar(gbnf);
    } catch (cause) {
      throw badGrammar(cause);
    }
    return new LlamaGrammar(gbnf);
  }

  /**
   * The same, off the event loop, which a large schema or a grammar of a stranger would hold up: it is read in a process aside, for at most
   * five seconds, and llama.cpp tries it in a thread.
   * @returns a promise of the grammar; it is rejected with what `grammar` throws, and with what breaks it off
   */
  async grammarAsync(form: LlamaGrammarForm): Promise<LlamaGrammar> {
    this.#alive();
    const { gbnf, tokens } = await sharedAside
      .run<LlamaGrammarForm, ReadGrammar>(READ, form, { timeMs: READ_MS })
      .catch((error: unknown) => {
        throw error instanceof RangeError ? badGrammar('it is nested too deep') : error;
      });
    this.#checkTokens(tokens);
    await this.#alive()
      .checkGrammarAsync(gbnf)
      .catch((cause) => {
        throw badGrammar(cause);
      });
    return new LlamaGrammar(gbnf);
  }

  /** Frees the weights, once no executor computes with them any more. Idempotent. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  [INSPECT](depth: number, options: object): string {
    const { architecture, vocabSize, file } = this.info;
    return showFacts('LlamaModel', depth, options, { architecture, vocabSize, file });
  }

  /** The native model, what llama.cpp says of it, and its library, for executors. @internal */
  static nativeOf(model: LlamaModel): { native: NativeModel; said: NativeModelInfo; library: LlamaLibrary } {
    if (!(model instanceof LlamaModel)) throw badArg('model', model, 'a LlamaModel');
    return { native: model.#alive(), said: model.#said, library: model.#library };
  }

  #checkTokens(tokens: ReadGrammar['tokens']): void {
    for (const [name, place] of tokens) {
      if (this.#alive().tokenize(name, false, true).length === 1) continue;
      throw badGrammar(new Error(`the model has no token ${name.slice(0, 60)}, at ${place}`));
    }
  }

  #noTokens(cause: unknown): never {
    throw badModel(this.card.path, `has a vocabulary that cannot write the text: ${messageOf(cause)}`, cause);
  }

  #alive(): NativeModel {
    if (!this.#disposed) return this.#native;
    throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the model was disposed');
  }
}

/** Refuses what wants a GPU where llama.cpp finds none: it would compute on the CPU without a word. */
function checkDevices(library: LlamaLibrary, variant: LlamaVariant, gpuLayers: number): void {
  if (hasGpu(library) || gpuLayers === 0) return;
  if (gpuLayers > 0)
    throw badArg(
      'gpuLayers',
      gpuLayers,
      'absent or 0, since llama.cpp finds no GPU; a GPU needs another variant',
    );
  if (variant !== 'auto' && variant !== 'cpu')
    throw badArg('variant', variant, 'auto or cpu, since llama.cpp finds no GPU: is its driver installed?');
}

/**
 * Refuses weights that do not fit: the system would give the memory away, and end some process when they are read. Of mapped ones it keeps in
 * memory what has room.
 */
function checkMemory({ path, weightBytes }: ModelCard, free: number): void {
  if (weightBytes <= free) return;
  const message = `the model ${path} has ${inWords(weightBytes)} of weights, and ${inWords(free)} are free: take one with fewer or smaller weights, or leave memoryMap at true, which is slow then`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}

/**
 * Loads a model from a GGUF file, which takes from less than a second to minutes. Of a model in several files the first one is named.
 * Needs the package `@node-llama-cpp/<platform>` in the version that `LLAMA_VERSIONS` names.
 * @returns a promise of the model. It is rejected with ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_BAD_MODEL for a file that is missing, cut off
 * or no model; ERR_BLOCKSTEP_NO_MEMORY for weights that are not mapped and do not fit; ERR_BLOCKSTEP_NO_PACKAGE without llama.cpp, or with another version of it; ERR_BLOCKSTEP_NO_NATIVE; and with the reason of
 * `signal`
 */
export function openLlamaModel(options: LlamaModelOptions): Promise<LlamaModel> {
  return LlamaModel.open(options);
}
