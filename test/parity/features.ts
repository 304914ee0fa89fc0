import type { Trace } from './trace.js';

/** The features that a trace needs and the runner cannot drive, because the scheduler does not offer them. */
export function unsupportedFeatures(trace: Trace): string[] {
  const needed: string[] = [];
  const { config } = trace;
  if (config.max_num_scheduled_tokens !== null) needed.push('max_num_scheduled_tokens');
  if (config.use_v2_model_runner) needed.push('use_v2_model_runner');
  return needed;
}
