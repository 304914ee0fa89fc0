/**
 * How the tokens of a request are sampled, under the names of OpenAI's and vLLM's APIs. The server
 * of an engine passes them to the executor as `ExecutorRequest.params`, and any client may do so.
 * An absent parameter has the neutral value given here.
 */
export interface SamplingParams {
  /**
   * 0: always the most likely token. Up to 2; neutral is 1, which leaves the model's probabilities
   * unchanged.
   */
  readonly temperature?: number;
  /**
   * Keeps the most likely tokens that together have this share of the probability, from 0 to 1;
   * neutral is 1.
   */
  readonly top_p?: number;
  /** Keeps this number of most likely tokens; neutral is 0 or -1, which keeps all. */
  readonly top_k?: number;
  /** Drops tokens with less than this share of the probability of the most likely one, from 0 to 1; neutral is 0. */
  readonly min_p?: number;
  /** Equal seeds give equal tokens, in any batch; absent: a new seed for each request. */
  readonly seed?: number;
  /**
   * Subtracted from a token's logit for each occurrence in the output, from -2 to 2; neutral is 0.
   */
  readonly frequency_penalty?: number;
  /**
   * Subtracted from a token's logit once if it occurs in the output, from -2 to 2; neutral is 0.
   */
  readonly presence_penalty?: number;
  /**
   * Divides the logits of tokens that occur in prompt or output (multiplies negative logits), above
   * 0 to 2; neutral is 1.
   */
  readonly repetition_penalty?: number;
  /** Added to the logits of tokens, by their ids, from -100 to 100. */
  readonly logit_bias?: { readonly [token: string]: number };
  /**
   * If present, log-probabilities are reported with every token, and also for this number of most
   * likely tokens, from 0 to 20.
   */
  readonly logprobs?: number;
  /**
   * If present, receives the log-probabilities of the prompt's tokens. A cached prefix is not
   * computed, so nothing is reported for it.
   */
  readonly prompt_logprobs?: PromptLogprobs;
}

/** Receives the log-probabilities of a prompt's tokens. */
export interface PromptLogprobs {
  /** The number of most likely tokens to report besides, from 0 to 20. */
  readonly count: number;
  /**
   * Called before the executor answers the step, for every token but the first. A position may be
   * reported again, and the order is not defined.
   * @param position of the token in the prompt, from 1 on
   */
  add(position: number, logprobs: TokenLogprobs): void;
}

/**
 * The log-probabilities of a token: the form in which an executor that supports `logprobs` returns
 * them in `ExecutorResult.extras`. The logarithms are natural, of the model's own probabilities,
 * before temperature, penalties, biases, filters and grammar.
 */
export interface TokenLogprobs {
  /** The log-probability of the sampled token. */
  readonly logprob: number;
  /**
   * The most likely tokens, the likeliest first: at least the requested number, if the vocabulary
   * is that large.
   */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}
