import type { Plan } from '../plan/plan.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Tokens that the next entry of a plan may get; none if it is 0 or less. Each entry costs its tokens and the slots that its drafter needs
 * (`draftSlots`).
 * @param tokenBudget limit of `plan.totalTokens`
 */
export function tokensLeft({ config }: SchedulerState, plan: Plan, tokenBudget: number): number {
  return tokenBudget - plan.totalTokens - config.draftSlots * (plan.numRequests + 1);
}
