import type { Trace, TraceEvent } from './trace.js';

/** What an event needs that the scheduler may not offer. */
function featuresOf(event: TraceEvent): string[] {
  if (event.t === 'chunk' || event.t === 'end') return ['sessions'];
  if (event.t === 'grammar') return ['structured output'];
  if (event.t !== 'add') return [];
  const needed: string[] = [];
  if (event.resumable) needed.push('sessions');
  if (event.so) needed.push('structured output');
  if (event.lora) needed.push('LoRA');
  return needed;
}

/** The features that a trace needs and the runner cannot drive, because the scheduler does not offer them. */
export function unsupportedFeatures(trace: Trace): string[] {
  const needed = new Set<string>();
  const { config } = trace;
  if (trace.connector !== null) needed.add('connector');
  if ((config.max_loras ?? null) !== null) needed.add('LoRA');
  if (config.max_num_scheduled_tokens !== null) needed.add('max_num_scheduled_tokens');
  if (config.use_v2_model_runner) needed.add('use_v2_model_runner');
  for (const step of trace.steps) {
    if (step.defer) needed.add('structured output');
    for (const event of [...step.events, ...(step.mid ?? [])]) {
      for (const feature of featuresOf(event)) needed.add(feature);
    }
  }
  return [...needed].sort();
}
