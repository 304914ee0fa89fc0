// Sentences that the tables and the page of a replay share.
import { counted, duration, grouped, percent } from '../../../report/markup/figures.js';
import type { Report } from './report.js';

/** The origin of the requests, with omissions and changes. */
export function sourceInWords({ workload, load }: Pick<Report, 'workload' | 'load'>): string {
  const name = workload.file === null ? 'generated' : `${workload.file} (${workload.format})`;
  const requests = counted(workload.requests, 'request');
  const notes = [
    workload.requests === 1 ? requests : `${requests} within ${duration(1000 * load.arrivalSeconds)}`,
  ];
  if (workload.skippedLines > 0) notes.push(`${counted(workload.skippedLines, 'malformed line')} skipped`);
  if (workload.zeroOutputs > 0)
    notes.push(`${grouped(workload.zeroOutputs)} of output length 0 replayed with 1`);
  return `${name}: ${notes.join(', ')}`;
}

/** Why no prefix of a prompt can have been in the cache; null if it is possible. */
export function whyNoHits({ workload, options }: Report): string | null {
  if (options['enablePrefixCaching'] === false) return 'turned off';
  if (!workload.promptContents) return 'no hits possible: the trace has no prompt contents';
  return null;
}

/** The cached part of the prompts. */
export function hitsInWords(report: Report): string {
  const { queries, hits, hitRate } = report.prefixCache;
  const hit = `${percent(hitRate)} hit: ${grouped(hits)} of ${grouped(queries)} prompt tokens`;
  return whyNoHits(report) ?? (queries === 0 ? 'no prompt was looked up' : hit);
}

/** A warning that steps lie outside a profile's measurements; null if none does. */
export function extrapolationInWords({ extrapolated, options }: Report): string | null {
  if (extrapolated === null || extrapolated === 0) return null;
  const share = extrapolated === 1 ? 'every step lies' : `${percent(extrapolated)} of the steps lie`;
  return `${share} outside of what the profile ${String(options['model'])} was measured with. Times there are calculated, and were never measured.`;
}

/** A warning of overload, with its evidence; null without overload. */
export function overloadInWords({ load, workload }: Pick<Report, 'workload' | 'load'>): string | null {
  const { exceedsCapacity, waitingAtLastArrival, arrivalSeconds } = load;
  if (!exceedsCapacity || waitingAtLastArrival === null) return null;
  const [waiting, all] = [grouped(waitingAtLastArrival), grouped(workload.requests)];
  const after = duration(1000 * arrivalSeconds);
  return `the load exceeds the capacity. The queue grew until the last request arrived: then, after ${after}, ${waiting} of ${all} requests were waiting. Latencies grow with the length of such a workload.`;
}
