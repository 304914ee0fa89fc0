import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { AnswerForms } from '../answers/answer-forms.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { ApiError } from './api-error.js';
import type { Chat } from './chat.js';
import type { Encoder } from './encoder.js';
import type { HeededSampling } from './sampling.js';
import type { TextFormat } from './text-format.js';

/** Most names of adapters in a message. */
const MOST_SHOWN = 10;

/** The model that a server offers, as clients see it. */
export interface ServedModel {
  /** The name by which clients ask for it. */
  readonly id: string;
  /** The names of its adapters, by which clients ask for the model with an adapter. */
  readonly adapters: readonly string[];
  readonly vocabulary: Vocabulary;
  /** Makes tokens of texts. */
  readonly encoder: Encoder;
  /** Makes the prompt of a chat. @throws ApiError, or BlockstepError, also by rejection, for a chat that the model cannot be told */
  readonly chatPrompt: (chat: Chat) => Int32Array | Promise<Int32Array>;
  /** Whether the prompt is made by a template of the model's own, which knows of tools. */
  readonly hasTemplate: boolean;
  /** The text of that template; null: there is none, or nobody knows it. */
  readonly templateSource: string | null;
  readonly sampling: HeededSampling;
  /** What parameters of sampling are where a client does not say them. */
  readonly samplingDefaults: SamplingParams;
  /** Makes what holds a text to a format; null: nothing does. */
  readonly grammar: ((format: TextFormat) => Grammar | Promise<Grammar>) | null;
  /** What it makes of texts in place of more text; null: it generates text. */
  readonly vectors: 'embeddings' | 'scores' | null;
  /** Makes what such a model scores of a query and a document; null: it scores nothing. */
  readonly rankPrompt: ((query: string, document: string) => Int32Array | Promise<Int32Array>) | null;
  /** The forms in which it thinks and calls tools. */
  readonly answers: AnswerForms;
  /** When it was made, in seconds since 1970. */
  readonly created: number;
  /** Most tokens of prompt and output together. */
  readonly maxModelLen: number;
}

/** What a request asked for by its model's name. */
export interface ChosenModel {
  /** The name, as answers have it. */
  readonly id: string;
  /** The adapter of that name; '': none. */
  readonly adapter: string;
}

/** Finds what a request asks for. A request that names no model is for the model itself. @throws ApiError */
export function chosenModel(body: unknown, { id, adapters }: ServedModel): ChosenModel {
  const { model } = (body ?? {}) as { model?: unknown };
  if (model === undefined || model === null || model === id) return { id, adapter: '' };
  if (typeof model !== 'string') throw new ApiError(400, 'model must be a string', { param: 'model' });
  if (adapters.includes(model)) return { id: model, adapter: model };
  const served = [id, ...adapters.slice(0, MOST_SHOWN)].map((name) => JSON.stringify(name)).join(', ');
  const are = adapters.length === 0 ? 'is' : adapters.length > MOST_SHOWN ? 'and others are' : 'are';
  const message = `the model ${JSON.stringify(model.slice(0, 200))} is not served here; ${served} ${are}`;
  throw new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}
