import type { RequestResult } from '../../engine/outputs/outputs.js';
import { BOUNDS, Buckets, tokenBounds } from './buckets.js';
import type { Exposed } from './exposed.js';

/** The metrics of requests over HTTP, under vLLM's names. */
export class RequestMetrics {
  readonly #lengths: Readonly<Record<'prompt' | 'output' | 'maxOutput' | 'maxTokens' | 'computed', Buckets>>;
  readonly #times: Readonly<Record<'request' | 'queue' | 'inference' | 'prefill' | 'decode', Buckets>>;
  readonly #choices = new Buckets(BOUNDS.choices);
  readonly #firstToken = new Buckets(BOUNDS.firstToken);
  readonly #betweenTokens = new Buckets(BOUNDS.betweenTokens);
  readonly #perToken = new Buckets(BOUNDS.betweenTokens);

  constructor(maxModelLen: number) {
    const length = (): Buckets => new Buckets(tokenBounds(maxModelLen));
    const time = (): Buckets => new Buckets(BOUNDS.request);
    this.#lengths = {
      prompt: length(),
      output: length(),
      maxOutput: length(),
      maxTokens: length(),
      computed: length(),
    };
    this.#times = { request: time(), queue: time(), inference: time(), prefill: time(), decode: time() };
  }

  /** A request was accepted. It consists of one engine request for each choice. */
  came(numChoices: number, maxTokens: number): void {
    for (let i = 0; i < numChoices; i++) {
      this.#choices.observe(numChoices);
      this.#lengths.maxTokens.observe(maxTokens);
    }
  }

  /** Further tokens have come. @param ms since the previous tokens */
  generated(ms: number): void {
    this.#betweenTokens.observe(ms / 1000);
  }

  /** An engine request has ended without failing. */
  ended({ numPromptTokens, numCachedTokens, tokens, timings }: RequestResult): void {
    const { prompt, output, maxOutput, computed } = this.#lengths;
    const { firstScheduledMs, firstTokenMs, endedMs } = timings;
    prompt.observe(numPromptTokens);
    output.observe(tokens.length);
    maxOutput.observe(tokens.length);
    computed.observe(numPromptTokens - numCachedTokens);
    this.#times.request.observe(endedMs / 1000);
    if (firstScheduledMs !== null) {
      this.#times.queue.observe(firstScheduledMs / 1000);
      this.#times.inference.observe((endedMs - firstScheduledMs) / 1000);
    }
    if (firstTokenMs === null || firstScheduledMs === null) return;
    this.#firstToken.observe(firstTokenMs / 1000);
    this.#times.prefill.observe((firstTokenMs - firstScheduledMs) / 1000);
    this.#times.decode.observe((endedMs - firstTokenMs) / 1000);
    if (tokens.length > 1) this.#perToken.observe((endedMs - firstTokenMs) / 1000 / (tokens.length - 1));
  }

  expose(exposed: Exposed): void {
    const { prompt, output, maxOutput, maxTokens, computed } = this.#lengths;
    const { request, queue, inference, prefill, decode } = this.#times;
    const add = (name: string, help: string, buckets: Buckets): void => {
      exposed.histogram(`vllm:${name}`, help, buckets);
    };
    add('time_to_first_token_seconds', 'From a request to its first token.', this.#firstToken);
    add('inter_token_latency_seconds', 'Between the outputs of a request.', this.#betweenTokens);
    add(
      'request_time_per_output_token_seconds',
      'For each token behind the first, by request.',
      this.#perToken,
    );
    add('e2e_request_latency_seconds', 'From a request to its end.', request);
    add('request_queue_time_seconds', 'From a request to its first step.', queue);
    add('request_inference_time_seconds', 'From the first step of a request to its end.', inference);
    add('request_prefill_time_seconds', 'From the first step of a request to its first token.', prefill);
    add('request_decode_time_seconds', 'From the first token of a request to its end.', decode);
    add('request_prompt_tokens', 'Tokens of the prompt, by request.', prompt);
    add('request_generation_tokens', 'Generated tokens, by request.', output);
    add('request_max_num_generation_tokens', 'Most generated tokens of a choice, by request.', maxOutput);
    add(
      'request_prefill_kv_computed_tokens',
      'Tokens of the prompt that no cache had, by request.',
      computed,
    );
    add('request_params_n', 'Choices that were asked for, by request.', this.#choices);
    add('request_params_max_tokens', 'Most tokens that were asked for, by request.', maxTokens);
  }
}
