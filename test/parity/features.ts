// Features that a trace needs and the scheduler lacks.
import type { Trace } from './trace.js';

/** A feature that a scheduler may lack for the time being, by its name in a trace. */
export type Feature = 'kv_groups';

/**
 * The features that a trace needs and the runner cannot drive, because the scheduler does not offer
 * them.
 * @param lacks features that this scheduler does not offer and another one does
 */
export function unsupportedFeatures(trace: Trace, lacks: readonly Feature[] = []): string[] {
  const needed: string[] = lacks.filter((feature) => trace.config[feature] !== undefined);
  const { config } = trace;
  if (config.max_num_scheduled_tokens !== null) needed.push('max_num_scheduled_tokens');
  if (config.use_v2_model_runner) needed.push('use_v2_model_runner');
  return needed;
}
