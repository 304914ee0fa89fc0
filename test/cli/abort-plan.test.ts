// `AbortPlan` draws which requests are aborted, and when.
import { describe, expect, it } from 'vitest';
import { AbortPlan } from '../../src/cli/replay/run/abort-plan.js';

describe('AbortPlan', () => {
  it('draws the share that it is told, the same for equal seeds', () => {
    const [a, b, c] = [new AbortPlan(0.3, 1), new AbortPlan(0.3, 1), new AbortPlan(0.3, 2)];
    let aborted = 0;
    let different = 0;
    for (let index = 0; index < 10_000; index++) {
      const at = a.draw(index, 0, 100);
      expect(b.draw(index, 0, 100)).toBe(at);
      if (c.draw(index, 0, 100) !== at) different++;
      if (at !== null) aborted++;
    }
    expect(Math.abs(aborted - 3000)).toBeLessThan(150);
    expect(different).toBeGreaterThan(4000);
  });

  it('aborts all at rate 1 and none at rate 0', () => {
    for (let index = 0; index < 1000; index++) {
      expect(new AbortPlan(0, 9).draw(index, 5, 100)).toBeNull();
      expect(new AbortPlan(1, 9).draw(index, 5, 100)).not.toBeNull();
    }
  });

  it('spreads moments over the life that requests have of late', () => {
    const plan = new AbortPlan(1, 3);
    const moments = (): number[] =>
      Array.from({ length: 1000 }, (_, index) => plan.draw(index, 50, 100)! - 50);
    const alone = moments();
    expect(Math.min(...alone)).toBeGreaterThanOrEqual(0);
    expect(Math.min(...alone)).toBeLessThan(2);
    expect(Math.max(...alone)).toBeGreaterThan(98);
    expect(Math.max(...alone)).toBeLessThan(100);
    for (let i = 0; i < 200; i++) plan.observe(400, 100);
    const loaded = moments();
    expect(loaded[7] / alone[7]).toBeCloseTo(4, 3);
  });

  it('hands out deadlines in order, each once it has passed', () => {
    const plan = new AbortPlan(1, 0);
    for (const [atMs, index] of [
      [5, 1],
      [3, 2],
      [9, 3],
      [3.5, 4],
      [5, 5],
    ])
      plan.push(atMs, index);
    expect(plan.pop(2.9)).toBe(-1);
    expect([plan.pop(4), plan.pop(4), plan.pop(4)]).toEqual([2, 4, -1]);
    expect([plan.pop(5), plan.pop(5)].sort()).toEqual([1, 5]);
    expect([plan.pop(100), plan.pop(100)]).toEqual([3, -1]);
  });
});
