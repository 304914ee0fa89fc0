// Latency objectives, and the distance of a run from their limits.
import { badArgument, show } from '../../base/errors.js';
import { LATENCIES, type Latency, type LatencySummary, STATISTICS, type Statistic } from '../run/summary.js';

/** One condition of an objective (SLO): a bound of a latency. */
export interface Condition {
  readonly latency: Latency;
  readonly statistic: Statistic;
  readonly belowMs: number;
}

const CONDITION = /^(\w+):(\w+)<(\d+(?:\.\d+)?)(ms|s)$/;
const EXPECTED = `conditions such as ttft:p95<1s,tpot:p95<50ms: one of ${LATENCIES.join(', ')}, then one of ${STATISTICS.join(', ')}, then a time in ms or s`;

/** Parses an objective. @throws ERR_BLOCKSTEP_BAD_ARG for an invalid text */
export function parseSlo(text: string): Condition[] {
  const seen = new Set<string>();
  return text.split(',').map((part) => {
    const found = CONDITION.exec(part.trim());
    if (found === null) throw badArgument('slo', show(part), EXPECTED);
    const [, latency, statistic, amount, unit] = found;
    const isKnown =
      LATENCIES.includes(latency as Latency) &&
      STATISTICS.includes(statistic as Statistic) &&
      Number(amount) > 0;
    if (!isKnown) throw badArgument('slo', show(part), EXPECTED);
    const name = `${latency}:${statistic}`;
    if (seen.has(name)) throw badArgument('slo', show(part), `${name} once`);
    seen.add(name);
    return {
      latency: latency as Latency,
      statistic: statistic as Statistic,
      belowMs: Number(amount) * (unit === 's' ? 1000 : 1),
    };
  });
}

/** An objective (SLO) in its written form. */
export function sloInWords(slo: readonly Condition[]): string {
  return slo.map(({ latency, statistic, belowMs }) => `${latency}:${statistic}<${belowMs}ms`).join(',');
}

/**
 * How near a run is to the bounds: the largest latency as a fraction of its bound. At most 1 means
 * that all are kept. Infinite if a latency has no value.
 */
export function strain(slo: readonly Condition[], summary: LatencySummary): number {
  return slo.reduce((most, { latency, statistic, belowMs }) => {
    const value = summary[latency][statistic];
    return Math.max(most, value === null ? Number.POSITIVE_INFINITY : value / belowMs);
  }, 0);
}
