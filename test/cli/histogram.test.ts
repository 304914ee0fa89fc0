// `Histogram` keeps percentiles to 0.1 %.
import { describe, expect, it } from 'vitest';
import { Histogram } from '../../src/cli/replay/run/histogram.js';

describe('Histogram', () => {
  it('has no percentiles before the first value', () => {
    expect(new Histogram().percentiles()).toEqual({ count: 0, p50: null, p90: null, p99: null, max: null });
  });

  it('keeps percentiles to 0.1 %', () => {
    const histogram = new Histogram();
    for (let i = 1; i <= 10_000; i++) histogram.record(i);
    const { count, p50, p90, p99, max } = histogram.percentiles();
    expect(count).toBe(10_000);
    for (const [found, expected] of [
      [p50!, 5000],
      [p90!, 9000],
      [p99!, 9900],
      [max!, 10_000],
    ]) {
      expect(Math.abs(found / expected - 1)).toBeLessThan(0.001);
    }
  });

  it('puts no percentile above the largest value', () => {
    const histogram = new Histogram();
    histogram.record(3268.4);
    expect(histogram.percentiles()).toEqual({ count: 1, p50: 3268.4, p90: 3268.4, p99: 3268.4, max: 3268.4 });
  });

  it('takes 0 and fractions', () => {
    const histogram = new Histogram();
    for (const value of [0, 0.25, 0.5]) histogram.record(value);
    const { p50, max } = histogram.percentiles();
    expect([p50, max]).toEqual([0.25, 0.5]);
  });
});
