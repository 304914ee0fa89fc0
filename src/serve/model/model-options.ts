import { badArg, isList, isObject } from '../../base/checks.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import { AnswerForms } from '../answers/answer-forms.js';
import {
  REASONING_PARSERS,
  reasoningParserOf,
  TOOL_CALL_PARSERS,
  toolCallParserOf,
} from '../answers/parsers.js';
import type { Chat, ChatTemplate } from '../api/chat.js';
import { type ChatMessage, plainChatText } from '../api/chat-message.js';
import { Encoder } from '../api/encoder.js';
import { type HeededSampling, SAMPLING_NAMES } from '../api/sampling.js';
import type { ServedModel } from '../api/served-model.js';
import type { TextFormat } from '../api/text-format.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { templatePrompt } from './template-prompt.js';

/** The model behind an engine, as clients see it. */
export interface ModelOptions {
  /** The name by which clients request the model. */
  id: string;
  /** Default: o200k. */
  vocabulary?: Vocabulary;
  /**
   * Makes the prompt of a chat, as tokens; the model answers after them. Default: a line
   * `role: text` for each message.
   */
  chatPrompt?: (messages: readonly ChatMessage[], vocabulary: Vocabulary) => Int32Array;
  /**
   * Alternative to `chatPrompt`: the model's own template (`openChatTemplate`), which also knows
   * how tools and their answers are written.
   */
  chatTemplate?: ChatTemplate;
  /**
   * The sampling parameters that the executor supports. The executor finds them in
   * `ExecutorRequest.params`, under these names. Others are refused, unless their value has no
   * effect. `ignore`: all are accepted and none is used, for an executor whose texts mean nothing.
   * Default: none, as for an executor that samples greedily. An executor that supports `logprobs`
   * returns `TokenLogprobs` as the extra of each token.
   */
  sampling?: HeededSampling;
  /**
   * The sampling parameters that the executor receives where a client gives none. Default: none.
   */
  samplingDefaults?: SamplingParams;
  /**
   * Makes the grammar that constrains a text to a format (`response_format`, `grammar`), once for
   * each choice. Choices and requests may share a grammar that keeps no state of a text. A thrown
   * ERR_BLOCKSTEP_BAD_ARG is sent to the client. Default: none, and formats are refused.
   */
  grammar?: (format: TextFormat) => Grammar | Promise<Grammar>;
  /**
   * The output of a model that does not generate text (`Engine.embed`). `embeddings`: vectors of
   * texts. `scores`: scores of documents. Default: the model generates text.
   */
  vectors?: 'embeddings' | 'scores';
  /** With `scores`: makes the tokens by which the model scores a query and a document. */
  rankPrompt?: (query: string, document: string) => Int32Array | Promise<Int32Array>;
  /**
   * The format in which the model calls tools, by vLLM's names (`hermes`, `mistral`, …). `auto`:
   * the format of the model's template. `none`: calls stay text. Default `auto`.
   */
  toolCallParser?: string;
  /**
   * The format of the model's reasoning, by vLLM's names (`deepseek_r1`, `qwen3`, …), with `auto`
   * and `none` as in `toolCallParser`. Default `auto`.
   */
  reasoningParser?: string;
}

const MODEL_OPTIONS = knownNames<ModelOptions>(
  'model',
  {
    id: true,
    vocabulary: true,
    chatPrompt: true,
    chatTemplate: true,
    sampling: true,
    samplingDefaults: true,
    grammar: true,
    vectors: true,
    rankPrompt: true,
    toolCallParser: true,
    reasoningParser: true,
  },
  { name: 'did you mean id?', tokenizer: 'did you mean vocabulary?' },
);

/**
 * Checks the options of the model.
 * @param maxModelLen the maximum number of tokens of prompt and output together
 * @throws by rejection ERR_BLOCKSTEP_BAD_ARG
 */
export async function parseModel(model: unknown, maxModelLen: number): Promise<ServedModel> {
  if (!isObject(model)) throw badArg('model', model, 'an object with the id of the model');
  checkNames(model, MODEL_OPTIONS);
  const { id, chatPrompt, chatTemplate } = model as unknown as ModelOptions;
  const { vocabulary = await defaultVocabulary() } = model as unknown as ModelOptions;
  const { sampling = [], samplingDefaults = {}, grammar = null } = model as unknown as ModelOptions;
  if (typeof id !== 'string' || !/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(id))
    throw badArg('model.id', id, 'a name of 1 to 200 characters without control characters');
  if (!isVocabulary(vocabulary))
    throw badArg(
      'model.vocabulary',
      vocabulary,
      'a Vocabulary: name, size, endOfText, encode, textOf, bytesOf',
    );
  if (chatPrompt !== undefined && typeof chatPrompt !== 'function')
    throw badArg('model.chatPrompt', chatPrompt, 'a function');
  if (chatTemplate !== undefined && !isTemplate(chatTemplate))
    throw badArg('model.chatTemplate', chatTemplate, 'a ChatTemplate: an object with render');
  if (chatTemplate !== undefined && chatPrompt !== undefined)
    throw badArg('model.chatPrompt', chatPrompt, 'absent where there is a chatTemplate');
  if (sampling !== 'ignore' && !isList(sampling, (name) => SAMPLING_NAMES.includes(name as never)))
    throw badArg(
      'model.sampling',
      sampling,
      `"ignore", or a list of names among ${SAMPLING_NAMES.join(', ')}`,
    );
  const heeded: readonly string[] = sampling === 'ignore' ? [] : sampling;
  if (!isObject(samplingDefaults) || !Object.keys(samplingDefaults).every((name) => heeded.includes(name)))
    throw badArg(
      'model.samplingDefaults',
      samplingDefaults,
      'an object of parameters that are in model.sampling',
    );
  if (grammar !== null && typeof grammar !== 'function') throw badArg('model.grammar', grammar, 'a function');
  const { vectors = null, rankPrompt = null } = model as unknown as ModelOptions;
  if (vectors !== null && vectors !== 'embeddings' && vectors !== 'scores')
    throw badArg('model.vectors', vectors, '"embeddings", "scores", or absent');
  if ((typeof rankPrompt === 'function') !== (vectors === 'scores'))
    throw badArg(
      'model.rankPrompt',
      rankPrompt,
      'a function where model.vectors is "scores", and absent otherwise',
    );
  const { toolCallParser = 'auto', reasoningParser = 'auto' } = model as unknown as ModelOptions;
  const source = chatTemplate?.source ?? null;
  const calls = parserNamed('toolCallParser', toolCallParser, TOOL_CALL_PARSERS, () =>
    toolCallParserOf(source),
  );
  const thoughts = parserNamed('reasoningParser', reasoningParser, REASONING_PARSERS, () =>
    reasoningParserOf(source),
  );
  const encoder = new Encoder(vocabulary, maxModelLen);
  return {
    id,
    vocabulary,
    encoder,
    chatPrompt: (chat: Chat) => {
      if (chatTemplate !== undefined) return templatePrompt(chatTemplate, chat, encoder);
      if (chatPrompt !== undefined) return chatPrompt(chat.messages, vocabulary);
      return encoder.encode('messages', plainChatText(chat.messages));
    },
    hasTemplate: chatTemplate !== undefined,
    templateSource: source,
    sampling,
    samplingDefaults: { ...samplingDefaults },
    grammar,
    vectors,
    rankPrompt,
    answers: new AnswerForms(vocabulary, calls, thoughts),
    maxModelLen,
    created: Math.floor(Date.now() / 1000),
  };
}

/** The tables of o200k are slow to load, and not needed with another vocabulary. */
async function defaultVocabulary(): Promise<Vocabulary> {
  return (await import('../text/vocabulary.js')).o200k;
}

/** The name of a format; null if none. @throws ERR_BLOCKSTEP_BAD_ARG */
function parserNamed(
  option: string,
  name: unknown,
  known: Readonly<Record<string, unknown>>,
  ofTemplate: () => string | null,
): string | null {
  if (name === 'auto') return ofTemplate();
  if (name === 'none') return null;
  if (typeof name === 'string' && Object.hasOwn(known, name)) return name;
  throw badArg(`model.${option}`, name, `"auto", "none", or one of ${Object.keys(known).join(', ')}`);
}

function isTemplate(value: unknown): boolean {
  return isObject(value) && typeof value['render'] === 'function';
}

function isVocabulary(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { size, endOfText, endTokens = [], encode, textOf, bytesOf } = value as unknown as Vocabulary;
  const functions = [encode, textOf, bytesOf];
  return (
    Number.isInteger(size) &&
    Number.isInteger(endOfText) &&
    isList(endTokens, Number.isInteger) &&
    functions.every((each) => typeof each === 'function')
  );
}
