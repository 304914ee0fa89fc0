import type { Vocabulary } from '../text/vocabulary.js';
import type { ChatMessage } from './chat-message.js';
import type { HeededSampling } from './sampling.js';

/** The model that a server offers, as clients see it. */
export interface ServedModel {
  /** The name by which clients ask for it. */
  readonly id: string;
  readonly vocabulary: Vocabulary;
  /** Makes the prompt of a chat; its end is where the model answers. */
  readonly chatPrompt: (messages: readonly ChatMessage[], vocabulary: Vocabulary) => Int32Array;
  readonly sampling: HeededSampling;
  /** When it was made, in seconds since 1970. */
  readonly created: number;
  /** Most tokens of prompt and output together. */
  readonly maxModelLen: number;
}
