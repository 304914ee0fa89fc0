import type { Workload } from '../../../../workload/workload.js';

/**
 * Smaller token ids are left out of prompts. They are control tokens and bytes in many
 * vocabularies: the first 259 of Llama 2's, the first 1,000 of Mistral's.
 */
export const FIRST_TOKEN = 1000;
/**
 * Hardly any model has a smaller vocabulary. Llama 2 and the first models of Mistral have this
 * size.
 */
export const USUAL_VOCABULARY = 32_000;

/** The fields of every request of a replay beside its prompt and its length. */
export interface BodyOptions {
  readonly model: string;
  /** Whether a text continues behind the model's end of text, up to the length in the trace. */
  readonly ignoreEos: boolean;
  /** Token ids of prompts lie in [FIRST_TOKEN, vocabularySize). */
  readonly vocabularySize: number;
}

/**
 * The body of a request of a workload. The prompt is the prompt of the replay in virtual time, with
 * each token id mapped into the range. Prompts with a common prefix there have a common prefix
 * here.
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
