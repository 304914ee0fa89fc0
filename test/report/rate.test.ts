// A rate over time.
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/base/random.js';
import { Rate } from '../../src/report/charts/rate.js';
import { Timeline } from '../../src/report/charts/timeline.js';

describe('a rate', () => {
  it('is what was counted over the time in which it was', () => {
    const timeline = new Timeline(8);
    const rate = new Rate(timeline);
    rate.count(6);
    rate.settle(2);
    rate.settle(4);
    rate.count(2);
    rate.settle(6);
    expect(timeline.points(rate.track).mean.slice(0, 6)).toEqual([3000, 3000, 0, 0, 1000, 1000]);
  });

  it('keeps what was counted in no time for the next moment', () => {
    const timeline = new Timeline(8);
    const rate = new Rate(timeline);
    rate.count(1);
    rate.settle(0);
    rate.count(2);
    rate.settle(0);
    rate.count(3);
    rate.settle(2);
    expect(timeline.summary(rate.track)).toEqual({ min: 3000, mean: 3000, max: 3000 });
  });

  it.each([1, 2, 3])('seed %i: loses nothing, however long it goes on', (seed) => {
    const random = new Random(seed);
    const timeline = new Timeline(16);
    const rate = new Rate(timeline);
    let [now, total] = [0, 0];
    for (let i = 0; i < 500; i++) {
      now += random.below(3) === 0 ? 0 : random.exponential(20);
      const count = random.below(5);
      rate.count(count);
      rate.settle(now);
      total += count;
    }
    rate.settle(now + 1);
    expect(timeline.summary(rate.track)!.mean).toBeCloseTo((1000 * total) / (now + 1), 6);
  });
});
