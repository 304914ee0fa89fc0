import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import { SAMPLING_NAMES } from '../api/sampling.js';
import type { TextFormat } from '../api/text-format.js';
import { openChatTemplate } from './chat-template.js';
import type { ModelOptions } from './model-options.js';
import { ModelVocabulary } from './model-vocabulary.js';

/** What a server needs of a model that brings its own tokenizer: a `LlamaModel` of `blockstep/llama-cpp` has it. */
export interface LoadedModel {
  readonly info: {
    readonly architecture: string;
    readonly vocabSize: number;
    readonly bosToken: number | null;
    readonly eosToken: number | null;
    readonly endTokens: readonly number[];
    readonly chatTemplate: string | null;
    readonly longestToken?: number;
    /** Names of its LoRA adapters; absent: none. */
    readonly loras?: readonly string[];
  };
  /** See `LlamaModel.tokenize`. */
  tokenize(
    text: string,
    options: { readonly addSpecial: boolean; readonly parseSpecial: boolean },
  ): Int32Array;
  /** See `LlamaModel.tokenizeAsync`. */
  tokenizeAsync?(
    text: string,
    options: { readonly addSpecial: boolean; readonly parseSpecial: boolean },
  ): Promise<Int32Array>;
  /** See `LlamaModel.piece`. */
  piece(token: number, special: boolean): Uint8Array;
  /** See `LlamaModel.rankPrompt`. Absent: the model scores nothing. */
  rankPrompt?(query: string, document: string): Int32Array | Promise<Int32Array>;
  /** See `LlamaModel.grammar`: one is good for any number of requests. Absent: the texts of the model cannot be held to a format. */
  grammar?(form: GrammarForm): Grammar;
  /** See `LlamaModel.grammarAsync`. */
  grammarAsync?(form: GrammarForm): Promise<Grammar>;
}

/** What a grammar is made of: text in GBNF, a JSON schema, or any object in JSON. */
export type GrammarForm =
  | { readonly gbnf: string }
  | { readonly jsonSchema: Readonly<Record<string, unknown>> | boolean }
  | { readonly json: true };

/** How such a model is to be served. */
export interface LoadedModelOptions {
  /** The name by which clients ask for it. */
  readonly id: string;
  /** A chat template in Jinja, in place of the model's own. */
  readonly chatTemplate?: string;
  /** What parameters of sampling are where a client does not say them. Default `SAMPLING_DEFAULTS`. */
  readonly samplingDefaults?: SamplingParams;
  /** What the model makes of texts where it generates none: see `ModelOptions`. */
  readonly vectors?: 'embeddings' | 'scores';
  /** See `ModelOptions`. */
  readonly toolCallParser?: string;
  readonly reasoningParser?: string;
}

/**
 * What parameters of sampling are unless the model or a client says otherwise: those of llama.cpp's server. A small model whose least likely
 * tokens are never dropped soon says nonsense.
 */
export const SAMPLING_DEFAULTS: SamplingParams = Object.freeze({
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
});

/**
 * The options of a server for a model that brings its own tokenizer and chat template.
 *
 * ```ts
 * const model = await openLlamaModel({ path: 'model.gguf' });
 * await app.register(blockstepServer, { engine, model: await modelOptions(model, { id: 'my-model' }) });
 * ```
 */
export async function modelOptions(model: LoadedModel, options: LoadedModelOptions): Promise<ModelOptions> {
  const { id, chatTemplate, samplingDefaults = SAMPLING_DEFAULTS } = options;
  const { toolCallParser, reasoningParser } = options;
  const { info } = model;
  const { bosToken, eosToken } = info;
  const vocabulary = new ModelVocabulary(info.architecture, {
    numTokens: info.vocabSize,
    beginToken: bosToken ?? -1,
    endTokens: endTokensOf(info),
    tokenize: (text, addSpecial, parseSpecial) => model.tokenize(text, { addSpecial, parseSpecial }),
    ...(info.longestToken !== undefined && { longestToken: info.longestToken }),
    ...(model.tokenizeAsync !== undefined && {
      tokenizeAsync: (text: string, addSpecial: boolean, parseSpecial: boolean) =>
        model.tokenizeAsync!(text, { addSpecial, parseSpecial }),
    }),
    piece: (token, showsSpecial) => model.piece(token, showsSpecial),
  });
  // Grammars take long to make, and clients ask for the same ones again and again.
  const made = new Map<string, Promise<Grammar>>();
  const make = async (form: GrammarForm): Promise<Grammar> =>
    model.grammarAsync?.(form) ?? model.grammar!(form);
  const grammar = (format: TextFormat): Promise<Grammar> => {
    const key = JSON.stringify(format);
    const known = made.get(key) ?? make(formOf(format));
    made.delete(key);
    made.set(key, known);
    // One that was refused is made again: what broke it off may have been others.
    known.catch(() => {
      if (made.get(key) === known) made.delete(key);
    });
    if (made.size > MOST_GRAMMARS) made.delete(made.keys().next().value as string);
    return known;
  };
  if (options.vectors !== undefined) {
    const { vectors } = options;
    const rankPrompt = (query: string, document: string) => model.rankPrompt!(query, document);
    return { id, vocabulary, vectors, ...(vectors === 'scores' && { rankPrompt }) };
  }
  const texts = {
    beginText: bosToken === null ? '' : vocabulary.specialText(bosToken),
    endText: eosToken === null ? '' : vocabulary.specialText(eosToken),
  };
  return {
    id,
    ...(info.loras !== undefined && { adapters: info.loras }),
    vocabulary,
    chatTemplate: await openChatTemplate(chatTemplate ?? info.chatTemplate, texts),
    sampling: SAMPLING_NAMES,
    samplingDefaults,
    ...(toolCallParser !== undefined && { toolCallParser }),
    ...(reasoningParser !== undefined && { reasoningParser }),
    ...((model.grammar ?? model.grammarAsync) !== undefined && { grammar }),
  };
}

/** Grammars that are kept, those that were asked for last. */
const MOST_GRAMMARS = 32;

/** The token of a text's end first: it is the one that a request is told of. */
function endTokensOf({ eosToken, endTokens }: LoadedModel['info']): readonly number[] {
  if (eosToken === null) return endTokens;
  return [eosToken, ...endTokens.filter((token) => token !== eosToken)];
}

function formOf(format: TextFormat): GrammarForm {
  if (format.type === 'gbnf') return { gbnf: format.grammar };
  return format.type === 'json_schema' ? { jsonSchema: format.schema } : { json: true };
}
