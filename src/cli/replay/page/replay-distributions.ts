// Charts of the latencies and step times of a replay.
import type { Chart } from '../../../report/charts/chart.js';
import { distributionChart } from '../../../report/charts/distribution-chart.js';
import { latencyDistribution } from './chart-parts.js';
import type { ReplayPageInput } from './replay-page-input.js';

/** Durations of requests, by the cost model. */
export function requestCharts({ measurements }: ReplayPageInput): Chart[] {
  const shared = { source: 'virtual', of: 'requests' } as const;
  return [
    latencyDistribution(measurements.ttftMs, {
      ...shared,
      id: 'ttft',
      title: 'Time to first token',
      note: 'From the arrival of a request to its first token, waiting included.',
      empty: 'No request came to its first token.',
    }),
    latencyDistribution(measurements.tpotMs, {
      ...shared,
      id: 'tpot',
      title: 'Time per output token',
      note: 'Mean time between the tokens of a request, of those that finished with two or more.',
      empty: 'No request finished with two tokens or more.',
    }),
    latencyDistribution(measurements.e2eMs, {
      ...shared,
      id: 'e2e',
      title: 'End-to-end latency',
      note: 'From the arrival of a request to its last token, of those that finished.',
      empty: 'No request finished.',
    }),
  ];
}

/** Real durations of the scheduler. */
export function stepChart({ measurements, report, recorded }: ReplayPageInput): Chart {
  const recording = recorded ? ' Recording the log is part of it.' : '';
  return distributionChart({
    id: 'step',
    title: 'Scheduler step',
    source: 'measured',
    unit: 'µs',
    of: 'steps',
    note: `Time of schedule() and update() together, by the clock. The model’s time is no part of it.${recording}`,
    empty: 'No step was computed.',
    distribution: measurements.stepUs.distribution,
    percentiles: report.schedulerStepUs,
  });
}
