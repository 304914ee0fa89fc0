/**
 * How the tokens of a request are picked, under the names of OpenAI's and vLLM's APIs. The server of an engine gives it to the executor as
 * `ExecutorRequest.params`, and so may any client. What is absent was not said: it is as if it had the neutral value that stands here.
 */
export interface SamplingParams {
  /** 0: always the most likely token. Up to 2; neutral is 1, which leaves the model's probabilities as they are. */
  readonly temperature?: number;
  /** Keeps the most likely tokens that have this share of the probability together, from 0 to 1; neutral is 1. */
  readonly top_p?: number;
  /** Keeps so many most likely tokens; neutral is 0 or -1, which keeps all. */
  readonly top_k?: number;
  /** Drops tokens with less than this share of the probability of the most likely one, from 0 to 1; neutral is 0. */
  readonly min_p?: number;
  /** Equal seeds give equal tokens, in whatever batches; absent: a new one for each request. */
  readonly seed?: number;
  /** Taken from a token's logit for each time that it stands in the output, from -2 to 2; neutral is 0. */
  readonly frequency_penalty?: number;
  /** Taken from a token's logit once if it stands in the output, from -2 to 2; neutral is 0. */
  readonly presence_penalty?: number;
  /** Divides the logits of tokens that stand in prompt or output (multiplies those below 0), above 0 to 2; neutral is 1. */
  readonly repetition_penalty?: number;
  /** Added to the logits of tokens, by their ids, from -100 to 100. */
  readonly logit_bias?: { readonly [token: string]: number };
  /** Present: log-probabilities are wanted with every token, those of so many most likely tokens too, from 0 to 20. */
  readonly logprobs?: number;
  /** Present: it is told how likely the tokens of the prompt are. A prefix that is found in the cache is not computed, so nothing is told of it. */
  readonly prompt_logprobs?: PromptLogprobs;
}

/** Who is told how likely the tokens of a prompt are. */
export interface PromptLogprobs {
  /** Most likely tokens of which it wants to know too, from 0 to 20. */
  readonly count: number;
  /**
   * Called before the executor answers the step, for every token but the first. A position may come again, and no order is promised.
   * @param position of the token in the prompt, from 1 on
   */
  add(position: number, logprobs: TokenLogprobs): void;
}

/**
 * How likely a token was: what an executor that heeds `logprobs` answers for it in `ExecutorResult.extras`. The logarithms are natural, of the
 * model's own probabilities, before temperature, penalties, biases, filters and grammar.
 */
export interface TokenLogprobs {
  /** Of the token that was picked. */
  readonly logprob: number;
  /** The most likely tokens, the likeliest first: at least as many as were asked for, where the vocabulary has so many. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}
