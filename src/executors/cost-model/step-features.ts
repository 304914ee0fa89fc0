import type { ExecutorPlan } from '../../engine/executor/executor.js';

/**
 * The sizes for which vLLM captures CUDA graphs by default. A step of decodes alone is padded to
 * the next of these sizes.
 */
const CAPTURED: readonly number[] = [1, 2, 4];
const CAPTURE_EVERY = 8;
const CAPTURE_EVERY_ABOVE = 16;
const CAPTURE_FINE = 256;
const CAPTURE_MOST = 512;

/**
 * Tokens that a step of `tokens` decodes computes: vLLM pads it to a captured size. Above the
 * largest captured size there is no graph and no padding.
 */
export function paddedTokens(tokens: number): number {
  if (tokens > CAPTURE_MOST) return tokens;
  for (const size of CAPTURED) if (tokens <= size) return size;
  const every = tokens <= CAPTURE_FINE ? CAPTURE_EVERY : CAPTURE_EVERY_ABOVE;
  return Math.ceil(tokens / every) * every;
}

/**
 * The work of a step, in exact numbers. The cost of a step is a function of these numbers alone
 * (`StepCost`). All steps share one object, so a caller that keeps it must copy it.
 */
export class StepFeatures {
  /** Tokens that the step computes, drafts included. */
  tokens = 0;
  /** `tokens`, padded to the size of a captured CUDA graph if the step only decodes. */
  paddedTokens = 0;
  /** Requests in the step. */
  rows = 0;
  /** Requests that compute tokens of their prompts, or recompute tokens after a preemption. */
  prefills = 0;
  prefillTokens = 0;
  /** Tokens of these requests that the KV cache already held. */
  prefillContextTokens = 0;
  /** Pairs of a new token of a prompt and a token that it attends to, itself included. */
  prefillPairs = 0;
  /** Requests that decode. */
  decodes = 0;
  /**
   * Tokens that the decoding requests attend to, including the tokens of this step: their sum, and
   * the largest number of one request.
   */
  decodeContextTokens = 0;
  largestDecodeContext = 0;
  /** Draft tokens among the tokens. */
  drafts = 0;
  /** Different LoRA adapters. */
  adapters = 0;
  readonly #adapters = new Set<string>();

  /** Tokens that a decoding request attends to on average; 0 if none decodes. */
  get meanDecodeContext(): number {
    return this.decodes === 0 ? 0 : this.decodeContextTokens / this.decodes;
  }

  /** Begins a step. */
  begin(): void {
    this.tokens = 0;
    this.paddedTokens = 0;
    this.rows = 0;
    this.prefills = 0;
    this.prefillTokens = 0;
    this.prefillContextTokens = 0;
    this.prefillPairs = 0;
    this.decodes = 0;
    this.decodeContextTokens = 0;
    this.largestDecodeContext = 0;
    this.drafts = 0;
    this.adapters = 0;
    if (this.#adapters.size > 0) this.#adapters.clear();
  }

  /**
   * Adds a request that decodes.
   * @param context tokens that it attends to, its `scheduled` ones included
   */
  addDecode(scheduled: number, context: number, drafts = 0): void {
    this.rows++;
    this.tokens += scheduled;
    this.drafts += drafts;
    this.decodes++;
    this.decodeContextTokens += context;
    if (context > this.largestDecodeContext) this.largestDecodeContext = context;
  }

  /** Adds a request that computes `scheduled` tokens of its prompt behind `computed` tokens. */
  addPrefill(scheduled: number, computed: number): void {
    this.rows++;
    this.tokens += scheduled;
    this.prefills++;
    this.prefillTokens += scheduled;
    this.prefillContextTokens += computed;
    this.prefillPairs += scheduled * (computed + (scheduled + 1) / 2);
  }

  /** Adds the adapter of a request that was added; empty for none. */
  addAdapter(name: string): void {
    if (name === '' || this.#adapters.has(name)) return;
    this.#adapters.add(name);
    this.adapters++;
  }

  /** Ends a step: every request was added. */
  end(): void {
    this.paddedTokens = this.prefills === 0 ? paddedTokens(this.tokens) : this.tokens;
  }

  /**
   * Adds entry i of a plan. It decodes if it computes only its last sampled token and drafts.
   * @param sampled tokens that the request has sampled, including steps in flight
   */
  addEntry(plan: ExecutorPlan, i: number, sampled: number): void {
    const computed = plan.numComputedTokens[i];
    const scheduled = plan.numScheduledTokens[i];
    const request = plan.requests[i];
    if (sampled > 0 && computed >= request.numPromptTokens + sampled - 1) {
      this.addDecode(scheduled, computed + scheduled, plan.numDraftTokens[i]);
    } else this.addPrefill(scheduled, computed);
    const { adapter } = request;
    if (adapter !== undefined && adapter !== '') this.addAdapter(adapter);
  }
}

/** Says how long steps take. Both functions are pure: equal features give equal times. */
export interface StepCost {
  /** Milliseconds that the device takes for a step: finite, at least 0. */
  stepMs(features: Readonly<StepFeatures>): number;
  /**
   * Milliseconds of work of the host before the step: finite, at least 0. With several steps in
   * flight this work hides behind the device.
   */
  hostMs(features: Readonly<StepFeatures>): number;
}
