import { badArg } from '../../../base/checks.js';
import { BlockstepError, checkInteger, messageOf } from '../../../base/errors.js';
import { INSPECT, showFacts } from '../../../base/inspect.js';
import { sharedAside } from '../../../base/scripts/aside.js';
import { badModel } from '../gguf/bad-model.js';
import { readGguf } from '../gguf/gguf-file.js';
import { readLoras } from '../gguf/lora-file.js';
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

/**
 * The task that reads grammars in another process, and its time limit in milliseconds on a busy
 * machine.
 */
const READ = { from: import.meta.url, module: '../sampling/grammar-form', name: 'readGrammar' };
const READ_MS = 5000;

/** How a text becomes tokens. */
export interface TokenizeOptions {
  /**
   * Adds the special tokens that the model's file asks for around a text; mostly the begin token.
   * Default false.
   */
  readonly addSpecial?: boolean;
  /**
   * Reads the names of special tokens in the text as these tokens. Never use this for texts of
   * strangers. Default false.
   */
  readonly parseSpecial?: boolean;
}

/**
 * A model of llama.cpp: weights and vocabulary, in memory until `dispose`. Any number of executors
 * may use it, also at the same time.
 */
export class LlamaModel {
  /** Facts of the loaded model. */
  readonly info: LlamaModelInfo;
  /** Facts of its file. */
  readonly card: ModelCard;
  readonly #native: NativeModel;
  /**
   * llama.cpp's facts of the model. They are read once, because reading goes through the whole
   * vocabulary.
   */
  readonly #said: NativeModelInfo;
  readonly #library: LlamaLibrary;
  #disposed = false;
  /** Settles when the texts so far have been tokenized off the event loop. */
  #tokenizing: Promise<void> = Promise.resolve();

  private constructor(card: ModelCard, native: NativeModel, library: LlamaLibrary, loras: readonly string[]) {
    this.card = card;
    this.#native = native;
    this.#library = library;
    this.#said = native.info();
    this.info = readInfo(card.path, this.#said, library, loras);
  }

  /** See `openLlamaModel`. */
  static async open(options: LlamaModelOptions): Promise<LlamaModel> {
    const resolved = resolveModelOptions(options);
    const { path, libraryFolder, attention, gpuLayers, memoryMap, checkTensors } = resolved;
    const { loras, onProgress, signal } = resolved;
    signal?.throwIfAborted();
    const file = readGguf(path);
    const card = readModelCard(file);
    const loraBytes = readLoras(loras, file);
    const looks = resolved.variant === 'auto' && libraryFolder === null && gpuLayers !== 0;
    const variant = looks ? await findLlamaVariant() : resolved.variant;
    const isOnHost =
      variant === 'cpu' || gpuLayers === 0 || (variant === 'auto' && process.platform !== 'darwin');
    if (isOnHost && !memoryMap) checkMemory(card, process.availableMemory() - loraBytes);
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
        { gpuLayers, memoryMap, checkTensors, adapters: [...loras.values()] },
        onProgress,
        cancelled,
      );
      return new LlamaModel(card, native, library, [...loras.keys()]);
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
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED; ERR_BLOCKSTEP_BAD_MODEL if the
   * vocabulary lacks a token that the text needs
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
   * Like `tokenize`, off the event loop, for texts of more than a few thousand characters. Texts
   * are tokenized one at a time, in their order.
   * @returns a promise of token ids, a new array; it is rejected with the errors of `tokenize`
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
   * The bytes of a token. A character may span several tokens, so decode the bytes of several
   * pieces together (`TextDecoder` with `stream`).
   * @param token id, below `info.vocabSize`
   * @param special gives special tokens their names; otherwise they have no bytes. Default true
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED
   */
  piece(token: number, special = true): Uint8Array {
    const native = this.#alive();
    return native.piece(checkInteger('token', token, 0, this.info.vocabSize - 1), special);
  }

  /**
   * The prompt tokens by which a scoring model reads a query and a document.
   * @returns a promise of the tokens, rejected with the errors of `tokenizeAsync`
   */
  rankPrompt(query: string, document: string): Promise<Int32Array> {
    const tokenize = (text: string, parseSpecial: boolean): Promise<Int32Array> =>
      this.tokenizeAsync(text, { parseSpecial });
    return rankPrompt(this.#said, tokenize, query, document);
  }

  /**
   * Makes a grammar that constrains the tokens of a request:
   * `engine.submit({ grammar: model.grammar({ jsonSchema }) })`.
   * @param form `gbnf`: llama.cpp's own language, with the start rule `root`. `jsonSchema`: JSON
   * that fits a schema. `json`: any object
   * @throws ERR_BLOCKSTEP_BAD_ARG for a grammar that cannot be parsed, or an unsupported schema;
   * ERR_BLOCKSTEP_DISPOSED
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
   * Like `grammar`, off the event loop, which a large schema or a stranger's grammar would block.
   * Another process reads the grammar, for at most five seconds, and llama.cpp tries it in a
   * thread.
   * @returns a promise of the grammar; it is rejected with the errors of `grammar`, and if a limit
   * is exceeded
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

  /** Frees the weights once no executor uses them any more. Idempotent. */
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

  /** The native model, llama.cpp's facts of it, and its library, for executors. @internal */
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

/**
 * Refuses options that need a GPU if llama.cpp finds none. llama.cpp would silently compute on the
 * CPU.
 */
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
 * Refuses weights that do not fit. The system would grant the memory, and kill some process once
 * the weights are read. Of mapped weights, the system keeps in memory as much as fits.
 */
function checkMemory({ path, weightBytes }: ModelCard, free: number): void {
  if (weightBytes <= free) return;
  const message = `the model ${path} has ${inWords(weightBytes)} of weights, and ${inWords(free)} are free: take one with fewer or smaller weights, or leave memoryMap at true, which is slow then`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}

/**
 * Loads a model from a GGUF file, which takes from less than a second to minutes. For a model in
 * several files, pass the path of the first file. Needs the package `@node-llama-cpp/<platform>` in
 * the version that `LLAMA_VERSIONS` names.
 * @returns a promise of the model. It is rejected with ERR_BLOCKSTEP_BAD_ARG,
 * ERR_BLOCKSTEP_NO_NATIVE, or the reason of `signal`. ERR_BLOCKSTEP_BAD_MODEL: the file is missing,
 * truncated or no model. ERR_BLOCKSTEP_NO_MEMORY: the weights are not mapped and do not fit.
 * ERR_BLOCKSTEP_NO_PACKAGE: llama.cpp is not installed, or has another version
 */
export function openLlamaModel(options: LlamaModelOptions): Promise<LlamaModel> {
  return LlamaModel.open(options);
}

/**
 * The prompt by which a model scores how well a document answers a query. It follows the template
 * of the model's file. Without a template it has the tokens that the vocabulary puts between two
 * texts, as in the training of encoders.
 */
async function rankPrompt(
  { rankTemplate, bos, eos, sep, addsBos, addsEos, addsSep }: NativeModelInfo,
  tokenize: (text: string, parseSpecial: boolean) => Promise<Int32Array>,
  query: string,
  document: string,
): Promise<Int32Array> {
  if (rankTemplate !== null) {
    const parts = { '{query}': query, '{document}': document };
    const text = rankTemplate.replace(/\{query\}|\{document\}/g, (name) => parts[name as keyof typeof parts]);
    return tokenize(text, true);
  }
  const end = eos < 0 ? sep : eos;
  const special = (isThere: boolean, token: number): number[] => (isThere && token >= 0 ? [token] : []);
  return Int32Array.from([
    ...special(addsBos, bos),
    ...(await tokenize(query, false)),
    ...special(addsEos, end),
    ...special(addsSep, sep),
    ...(await tokenize(document, false)),
    ...special(addsEos, end),
  ]);
}
