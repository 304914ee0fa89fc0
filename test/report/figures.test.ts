// Numbers, durations and ticks as text, with their exact value.
import { describe, expect, it } from 'vitest';
import { logTicks } from '../../src/report/charts/chart.js';
import {
  coarse,
  counted,
  datum,
  duration,
  figure,
  latencyUnit,
  percent,
} from '../../src/report/markup/figures.js';

describe('a figure', () => {
  it.each([
    [0, '0'],
    [1234567, '1,234,567'],
    [1234.5, '1,235'],
    [99.95, '100'],
    [12.345, '12.3'],
    [0.5, '0.500'],
    [0.0012345, '0.00123'],
    [0.0001, '1.00e-4'],
    [-12.345, '-12.3'],
  ])('%f is written %s', (value, text) => {
    expect(figure(value)).toBe(text);
  });

  it('carries its exact value, and a dash where there is none', () => {
    expect(datum(1234.5).source).toBe('<data value="1234.5">1,235</data>');
    expect(datum(0.33421, percent).source).toBe('<data value="0.33421">33.42 %</data>');
    expect(datum(null).source).toBe('–');
    expect([coarse(123456.7), coarse(null)]).toEqual([123460, null]);
  });
});

describe('a duration', () => {
  it.each([
    [0, '0 ms'],
    [0.5, '0.500 ms'],
    [51.42, '51.4 ms'],
    [999.4, '999 ms'],
    [1000, '1 s'],
    [52_360, '52.4 s'],
    [59_600, '1 min'],
    [106_600, '1 min 47 s'],
    [1_293_000, '21 min 33 s'],
    [3_442_100, '57 min 22 s'],
    [3_599_700, '1 h'],
    [4_982_300, '1 h 23 min'],
    [86_399_000, '1 d'],
    [187_000_000, '2 d 4 h'],
  ])('%f ms is written %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it('is compared in one unit', () => {
    expect([null, 9999, 10_000].map((max) => latencyUnit(max).name)).toEqual(['ms', 'ms', 's']);
  });
});

it('a count has a plural', () => {
  expect([0, 1, 2000].map((count) => counted(count, 'request'))).toEqual([
    '0 requests',
    '1 request',
    '2,000 requests',
  ]);
});

describe('ticks of a logarithmic axis', () => {
  it.each([
    [1, 1000, 8, [1, 3, 10, 30, 100, 300, 1000]],
    [0.08, 9, 8, [0.1, 0.2, 0.5, 1, 2, 5]],
    [10, 30, 8, [10, 12, 15, 20, 25, 30]],
    [1, 1e12, 3, [1, 1e5, 1e10]],
  ])('from %f to %f', (min, max, most, ticks) => {
    expect(logTicks(min, max, most)).toEqual(ticks);
  });
});
