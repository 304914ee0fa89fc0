import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Whether one more adapter may run in this step, or the request's runs already (vLLM `max_loras`). Which adapters run is
 * looked up when the first waiting request with one is considered, so that steps without such pay nothing.
 *
 * vLLM looks at the plan. A running request that has no entry in it, because its drafts in flight may reach the model's
 * length, has one in a later plan when they were rejected: then more adapters run than there may be, and vLLM dies.
 */
export function fitsAdapters(s: SchedulerState, plan: Plan, request: Request): boolean {
  const { maxLoras } = s.config;
  if (maxLoras === 0 || request.adapter === '') return true;
  const { stepAdapters } = s;
  if (s.stepAdaptersOf !== plan.step) {
    s.stepAdaptersOf = plan.step;
    stepAdapters.clear();
    const { deviations } = s.config;
    const running = deviations.countIdleAdapters
      ? s.queues.running
      : plan.requests.slice(0, plan.numRequests);
    for (const each of running) noteAdapter(stepAdapters, each);
  }
  return stepAdapters.size < maxLoras || stepAdapters.has(request.adapter);
}

/** A request enters the plan. */
export function enterAdapter(s: SchedulerState, plan: Plan, request: Request): void {
  if (s.stepAdaptersOf === plan.step) noteAdapter(s.stepAdapters, request);
}

function noteAdapter(adapters: Set<string>, { adapter }: Request): void {
  if (adapter !== '') adapters.add(adapter);
}
