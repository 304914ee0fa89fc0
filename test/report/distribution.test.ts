// The bars of a distribution.
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/base/random.js';
import { Distribution } from '../../src/report/charts/distribution.js';

describe('a distribution', () => {
  it('has no bars before the first value', () => {
    expect(new Distribution().bars(10)).toEqual({ edges: [], counts: [] });
  });

  it.each([5, 12, 40, 100])('has at most %i bars that count every value once, where it lies', (most) => {
    const random = new Random(most);
    const distribution = new Distribution();
    const values = Array.from({ length: 5000 }, () => 0.01 + random.exponential(20) ** 2);
    for (const value of values) distribution.record(value);
    const { edges, counts } = distribution.bars(most);
    expect(counts.length).toBeLessThanOrEqual(most);
    expect(counts.length).toBeGreaterThan(most / 6);
    expect(edges).toHaveLength(counts.length + 1);
    // An edge is a power of ten, which rounding can put on either side of a value.
    const near = values.filter((value) => edges.some((edge) => Math.abs(value / edge - 1) < 1e-9));
    expect(near).toEqual([]);
    counts.forEach((count, i) => {
      expect(count).toBe(values.filter((value) => value >= edges[i] && value < edges[i + 1]).length);
    });
  });

  it('puts what is too small or too large into the outermost bars', () => {
    const distribution = new Distribution();
    for (const value of [0, 1e-9, 1e300]) distribution.record(value);
    const { counts } = distribution.bars(1000);
    expect([counts[0], counts.at(-1)]).toEqual([2, 1]);
    expect(counts.reduce((a, b) => a + b)).toBe(3);
  });
});
