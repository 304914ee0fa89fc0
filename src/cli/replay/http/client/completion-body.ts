import type { Workload } from '../../../../workload/workload.js';

/**
 * Token ids below this one are left out of prompts. They are control tokens and bytes in many vocabularies: the first 259 of Llama 2's,
 * the first 1,000 of Mistral's.
 */
export const FIRST_TOKEN = 1000;
/** A size that hardly any model's vocabulary is below: that of Llama 2's and of Mistral's first ones. */
export const USUAL_VOCABULARY = 32_000;

/** What every request of a replay says beside its prompt and its length. */
export interface BodyOptions {
  readonly model: string;
  /** Whether a text goes on behind the model's end of text, up to the length that the trace says. */
  readonly ignoreEos: boolean;
  /** Token ids of prompts lie in [FIRST_TOKEN, vocabularySize). */
  readonly vocabularySize: number;
}

/**
 * The body of a request of a workload. Its prompt is the one of the replay in virtual time, with each token id taken into the range:
 * prompts that begin alike there begin alike here.
 * @returns JSON, as UTF-8
 */
export function completionBody(workload: Workload, index: number, options: BodyOptions): Buffer {
  const { model, ignoreEos, vocabularySize } = options;
  const span = vocabularySize - FIRST_TOKEN;
  const prompt = workload.prompt(index).map((token) => FIRST_TOKEN + (token % span));
  const rest = {
    model,
    max_tokens: workload.outputTokens[index],
    stream: true,
    stream_options: { include_usage: true },
    ...(ignoreEos && { ignore_eos: true }),
  };
  return Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"prompt":[${prompt.join(',')}]}`);
}
