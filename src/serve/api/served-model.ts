import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { AnswerForms } from '../answers/answer-forms.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { ApiError } from './api-error.js';
import type { Chat } from './chat.js';
import type { Encoder } from './encoder.js';
import type { HeededSampling } from './sampling.js';
import type { TextFormat } from './text-format.js';

/** The model that a server offers to clients. */
export interface ServedModel {
  /** The name by which clients request the model. */
  readonly id: string;
  readonly vocabulary: Vocabulary;
  /** Tokenizes texts. */
  readonly encoder: Encoder;
  /**
   * Makes the prompt of a chat.
   * @throws ApiError, or BlockstepError, also by rejection, for a chat that the template cannot
   * express
   */
  readonly chatPrompt: (chat: Chat) => Int32Array | Promise<Int32Array>;
  /** Whether the model's own template makes the prompt. Only such a template knows tools. */
  readonly hasTemplate: boolean;
  /** The source of that template; null if there is none or it is unknown. */
  readonly templateSource: string | null;
  readonly sampling: HeededSampling;
  /** The sampling parameters that apply where a client gives none. */
  readonly samplingDefaults: SamplingParams;
  /**
   * Makes the grammar that constrains a text to a format; null if the model supports no formats.
   */
  readonly grammar: ((format: TextFormat) => Grammar | Promise<Grammar>) | null;
  /** The model's output for a text, if it does not generate text; null if it does. */
  readonly vectors: 'embeddings' | 'scores' | null;
  /**
   * Makes the tokens by which such a model scores a query and a document; null if it scores
   * nothing.
   */
  readonly rankPrompt: ((query: string, document: string) => Int32Array | Promise<Int32Array>) | null;
  /** The formats in which the model writes its reasoning and its tool calls. */
  readonly answers: AnswerForms;
  /** The creation time, in seconds since 1970. */
  readonly created: number;
  /** The maximum number of tokens of prompt and output together. */
  readonly maxModelLen: number;
}

/** Refuses a request for another model. A request without a model name is for this model. */
export function checkModel(body: unknown, { id }: ServedModel): void {
  const { model } = (body ?? {}) as { model?: unknown };
  if (model === undefined || model === null || model === id) return;
  if (typeof model !== 'string') throw new ApiError(400, 'model must be a string', { param: 'model' });
  const message = `the model ${JSON.stringify(model.slice(0, 200))} is not served here; ${JSON.stringify(id)} is`;
  throw new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}
