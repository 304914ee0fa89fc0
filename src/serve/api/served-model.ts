import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { AnswerForms } from '../answers/answer-forms.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { ApiError } from './api-error.js';
import type { Chat } from './chat.js';
import type { Encoder } from './encoder.js';
import type { HeededSampling } from './sampling.js';
import type { TextFormat } from './text-format.js';

/** The model that a server offers, as clients see it. */
export interface ServedModel {
  /** The name by which clients ask for it. */
  readonly id: string;
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

/** Refuses a request for another model. A request that names none is for this one. */
export function checkModel(body: unknown, { id }: ServedModel): void {
  const { model } = (body ?? {}) as { model?: unknown };
  if (model === undefined || model === null || model === id) return;
  if (typeof model !== 'string') throw new ApiError(400, 'model must be a string', { param: 'model' });
  const message = `the model ${JSON.stringify(model.slice(0, 200))} is not served here; ${JSON.stringify(id)} is`;
  throw new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}
