import type { SchedulerConfig } from '../options/options.js';
import { NEVER, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';

/**
 * The adapters that run in one step (vLLM `max_loras`). Which ones run is looked up when the first waiting request with an
 * adapter is considered, so that steps without such pay nothing.
 */
export class StepAdapters {
  readonly #config: SchedulerConfig;
  /** Adapters of the step `#step`, as far as its plan is made. */
  readonly #adapters = new Set<string>();
  #step = NEVER;

  constructor(config: SchedulerConfig) {
    this.#config = config;
  }

  /**
   * Whether one more adapter may run in the step of this plan, or the request's runs in it already.
   *
   * vLLM looks at the plan. A running request that has no entry in it, because its drafts in flight may reach the model's
   * length, has one in a later plan when they were rejected: then more adapters run than there may be, and vLLM dies.
   * @param running the requests that run
   */
  fits(plan: Plan, request: Request, running: readonly Request[]): boolean {
    const { maxLoras, deviations } = this.#config;
    if (maxLoras === 0 || request.adapter === '') return true;
    if (this.#step !== plan.step) {
      this.#step = plan.step;
      this.#adapters.clear();
      const present = deviations.countIdleAdapters ? running : plan.requests.slice(0, plan.numRequests);
      for (const each of present) this.#note(each);
    }
    return this.#adapters.size < maxLoras || this.#adapters.has(request.adapter);
  }

  /** A request enters the plan. */
  enter(plan: Plan, request: Request): void {
    if (this.#step === plan.step) this.#note(request);
  }

  #note({ adapter }: Request): void {
    if (adapter !== '') this.#adapters.add(adapter);
  }
}
