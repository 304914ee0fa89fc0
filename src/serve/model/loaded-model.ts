import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import { SAMPLING_NAMES } from '../api/sampling.js';
import type { TextFormat } from '../api/text-format.js';
import { openChatTemplate } from './chat-template.js';
import type { ModelOptions } from './model-options.js';
import { ModelVocabulary } from './model-vocabulary.js';

/**
 * The parts of a model with its own tokenizer that a server needs. A `LlamaModel` of
 * `blockstep/llama-cpp` has them.
 */
export interface LoadedModel {
  readonly info: {
    readonly architecture: string;
    readonly vocabSize: number;
    readonly bosToken: number | null;
    readonly eosToken: number | null;
    readonly endTokens: readonly number[];
    readonly chatTemplate: string | null;
    readonly longestToken?: number;
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
  /**
   * See `LlamaModel.grammar`: one grammar serves any number of requests. Absent: the model's texts
   * cannot be constrained to a format.
   */
  grammar?(form: GrammarForm): Grammar;
  /** See `LlamaModel.grammarAsync`. */
  grammarAsync?(form: GrammarForm): Promise<Grammar>;
}

/** The source of a grammar: text in GBNF, a JSON schema, or any JSON object. */
export type GrammarForm =
  | { readonly gbnf: string }
  | { readonly jsonSchema: Readonly<Record<string, unknown>> | boolean }
  | { readonly json: true };

/** Options for serving such a model. */
export interface LoadedModelOptions {
  /** The name by which clients request the model. */
  readonly id: string;
  /** A chat template in Jinja that replaces the model's own. */
  readonly chatTemplate?: string;
  /** The sampling parameters that apply where a client gives none. Default `SAMPLING_DEFAULTS`. */
  readonly samplingDefaults?: SamplingParams;
  /** The model's output for a text, if it does not generate text: see `ModelOptions`. */
  readonly vectors?: 'embeddings' | 'scores';
  /** See `ModelOptions`. */
  readonly toolCallParser?: string;
  readonly reasoningParser?: string;
}

/**
 * The sampling parameters that apply unless the model or a client sets them: the defaults of
 * llama.cpp's server. A small model whose unlikely tokens are never dropped soon writes nonsense.
 */
export const SAMPLING_DEFAULTS: SamplingParams = Object.freeze({
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
});

/**
 * The server options for a model with its own tokenizer and chat template.
 *
 * `` `ts
 * const model = await openLlamaModel({ path: 'model.gguf' });
 * await app.register(blockstepServer, { engine, model: await modelOptions(model, { id: 'my-model'
 * }) });
 * `` `
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
  // Grammars are slow to make, and clients request the same grammars repeatedly.
  const made = new Map<string, Promise<Grammar>>();
  const make = async (form: GrammarForm): Promise<Grammar> =>
    model.grammarAsync?.(form) ?? model.grammar!(form);
  const grammar = (format: TextFormat): Promise<Grammar> => {
    const key = JSON.stringify(format);
    const known = made.get(key) ?? make(formOf(format));
    made.delete(key);
    made.set(key, known);
    // A grammar that failed is made again, because other requests may have caused the failure.
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
    vocabulary,
    chatTemplate: await openChatTemplate(chatTemplate ?? info.chatTemplate, texts),
    sampling: SAMPLING_NAMES,
    samplingDefaults,
    ...(toolCallParser !== undefined && { toolCallParser }),
    ...(reasoningParser !== undefined && { reasoningParser }),
    ...((model.grammar ?? model.grammarAsync) !== undefined && { grammar }),
  };
}

/** The maximum number of cached grammars. The most recently used are kept. */
const MOST_GRAMMARS = 32;

/** The token that ends a text comes first, because a request receives it as its end token. */
function endTokensOf({ eosToken, endTokens }: LoadedModel['info']): readonly number[] {
  if (eosToken === null) return endTokens;
  return [eosToken, ...endTokens.filter((token) => token !== eosToken)];
}

function formOf(format: TextFormat): GrammarForm {
  if (format.type === 'gbnf') return { gbnf: format.grammar };
  return format.type === 'json_schema' ? { jsonSchema: format.schema } : { json: true };
}
