// The LoRA adapters that run in one step.
import type { RuledConfig } from '../options/options.js';
import { NEVER, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { Queues } from './queues.js';

/**
 * The adapters that run in one step (vLLM `max_loras`). They are looked up when the first waiting request with an
 * adapter is considered, so that steps without such a request pay nothing.
 */
export class StepAdapters {
  readonly #config: RuledConfig;
  /** Adapters of step `#step`, as far as its plan is made. */
  readonly #adapters = new Set<string>();
  #step = NEVER;

  constructor(config: RuledConfig) {
    this.#config = config;
  }

  /**
   * Whether the request's adapter already runs in the step of this plan, or one more adapter may
   * run in it.
   *
   * vLLM counts the adapters of the plan's entries. A running request may have no entry, because
   * its drafts in flight may reach the model's length. It may have an entry in a later plan when
   * the drafts were rejected. Then more adapters run than `max_loras`, and vLLM fails its own
   * assertion (deviation `countIdleAdapters`).
   *
   * A borrowing adapter may take a running request out for this step. That request runs in a later
   * step, together with the requests that are admitted now.
   * @param queues the running and the lent requests
   */
  fits(plan: Plan, request: Request, { running, lent }: Pick<Queues, 'running' | 'lent'>): boolean {
    const { maxLoras, deviations } = this.#config;
    if (maxLoras === 0 || request.adapter === '') return true;
    if (this.#step !== plan.step) {
      this.#step = plan.step;
      this.#adapters.clear();
      const present = deviations.countIdleAdapters ? running : plan.requests.slice(0, plan.numRequests);
      for (const each of present) this.#note(each);
      for (const [each, from] of lent) if (from === 'running') this.#note(each);
    }
    return this.#adapters.size < maxLoras || this.#adapters.has(request.adapter);
  }

  /** Notes the adapter of a request that enters the plan. */
  enter(plan: Plan, request: Request): void {
    if (this.#step === plan.step) this.#note(request);
  }

  #note({ adapter }: Request): void {
    if (adapter !== '') this.#adapters.add(adapter);
  }
}
