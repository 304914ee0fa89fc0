import type { Chart } from '../../../report/charts/chart.js';
import { type DistributionChartInput, distributionChart } from '../../../report/charts/distribution-chart.js';
import { latencyUnit } from '../../../report/markup/figures.js';
import type { Histogram } from '../run/histogram.js';
import type { ReplayPageInput } from './replay-page-input.js';

/** How long requests took, by the cost model. */
export function requestCharts({ measurements }: ReplayPageInput): Chart[] {
  const chart = (
    histogram: Histogram,
    own: Pick<DistributionChartInput, 'id' | 'title' | 'note' | 'empty'>,
  ): Chart => {
    const percentiles = histogram.percentiles();
    const unit = latencyUnit(percentiles.max);
    const shared = { source: 'virtual', unit: unit.name, perUnit: unit.ms, of: 'requests' } as const;
    return distributionChart({ ...shared, ...own, distribution: histogram.distribution, percentiles });
  };
  return [
    chart(measurements.ttftMs, {
      id: 'ttft',
      title: 'Time to first token',
      note: 'From the arrival of a request to its first token, waiting included.',
      empty: 'No request came to its first token.',
    }),
    chart(measurements.tpotMs, {
      id: 'tpot',
      title: 'Time per output token',
      note: 'Mean time between the tokens of a request, of those that finished with two or more.',
      empty: 'No request finished with two tokens or more.',
    }),
    chart(measurements.e2eMs, {
      id: 'e2e',
      title: 'End-to-end latency',
      note: 'From the arrival of a request to its last token, of those that finished.',
      empty: 'No request finished.',
    }),
  ];
}

/** How long the scheduler took, by the clock. */
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
