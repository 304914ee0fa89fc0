import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { AnswerForms } from '../answers/answer-forms.js';
import type { Vocabulary } from '../text/vocabulary.js';
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
  readonly sampling: HeededSampling;
  /** What parameters of sampling are where a client does not say them. */
  readonly samplingDefaults: SamplingParams;
  /** Makes what holds a text to a format; null: nothing does. */
  readonly grammar: ((format: TextFormat) => Grammar | Promise<Grammar>) | null;
  /** The forms in which it thinks and calls tools. */
  readonly answers: AnswerForms;
  /** When it was made, in seconds since 1970. */
  readonly created: number;
  /** Most tokens of prompt and output together. */
  readonly maxModelLen: number;
}
