// Common parts of the charts of all replays.
import type { Chart, ChartSource } from '../../../report/charts/chart.js';
import { type DistributionChartInput, distributionChart } from '../../../report/charts/distribution-chart.js';
import { type TimeChartInput, timeChart } from '../../../report/charts/time-chart.js';
import type { Timeline, Track } from '../../../report/charts/timeline.js';
import { latencyUnit } from '../../../report/markup/figures.js';
import type { Load } from '../run/backlog.js';
import type { Histogram, Percentiles } from '../run/histogram.js';

/** The texts of a chart. */
export type Words = Pick<TimeChartInput, 'id' | 'title' | 'note'>;

/** The common parts of all strips of a page. */
export type Usual = Pick<TimeChartInput, 'source' | 'format' | 'scale' | 'axis' | 'timeline'>;

/** A strip with a text in place of a drawing. */
export function blankStrip(words: Pick<Chart, keyof Words>, source: ChartSource, why: string): Chart {
  return { ...words, source, description: why, drawing: why };
}

/**
 * A latency over time, in a suitable unit. `name` names the events with a value; `empty` is the
 * text without values.
 */
export function latencyStrip(
  usual: Usual,
  words: Words,
  drawn: { timeline: Timeline; track: Track; percentiles: Percentiles; name: string; empty: string },
): Chart {
  const { timeline, track, percentiles, name, empty } = drawn;
  if (percentiles.count === 0) return blankStrip(words, usual.source, empty);
  const unit = latencyUnit(percentiles.max);
  const series = [{ name, track, band: true }];
  return timeChart({ ...usual, ...words, timeline, unit: unit.name, perUnit: unit.ms, series });
}

/** Waiting requests over time. A mark at the last arrival shows overload. */
export function waitingStrip(usual: Usual, words: Words, track: Track, load: Load): Chart {
  if (Math.max(...track.max) <= 0) return blankStrip(words, usual.source, 'No request had to wait.');
  return timeChart({
    ...usual,
    ...words,
    unit: 'requests',
    series: [{ name: 'waiting', track, band: true }],
    mark: load.exceedsCapacity ? { atMs: 1000 * load.arrivalSeconds, what: 'last arrival' } : null,
  });
}

/** The distribution of a latency, in a suitable unit. */
export function latencyDistribution(
  histogram: Histogram,
  own: Pick<DistributionChartInput, 'id' | 'title' | 'note' | 'empty' | 'source' | 'of'>,
): Chart {
  const percentiles = histogram.percentiles();
  const unit = latencyUnit(percentiles.max);
  const { distribution } = histogram;
  return distributionChart({ ...own, unit: unit.name, perUnit: unit.ms, distribution, percentiles });
}
