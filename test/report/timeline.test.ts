// A timeline keeps peaks and weighted means at bounded memory.
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/base/random.js';
import { Timeline } from '../../src/report/charts/timeline.js';

/** A value of a span, from which the expected buckets are computed. */
interface Value {
  fromMs: number;
  toMs: number;
  value: number;
}

function expectBuckets(
  timeline: Timeline,
  track: ReturnType<Timeline['track']>,
  values: readonly Value[],
): void {
  const { min, mean, max } = timeline.points(track);
  for (let i = 0; i < timeline.numBuckets; i++) {
    const [from, to] = [i * timeline.widthMs, (i + 1) * timeline.widthMs];
    const inside = values.filter(({ fromMs, toMs }) =>
      fromMs === toMs ? fromMs >= from && fromMs < to : fromMs < to && toMs > from,
    );
    if (inside.length === 0) {
      expect([min[i], mean[i], max[i]]).toEqual([null, null, null]);
      continue;
    }
    expect(min[i]).toBe(Math.min(...inside.map(({ value }) => value)));
    expect(max[i]).toBe(Math.max(...inside.map(({ value }) => value)));
    const weights = inside.map(({ fromMs, toMs }) => Math.min(toMs, to) - Math.max(fromMs, from));
    const total = weights.reduce((a, b) => a + b, 0);
    const sum = inside.reduce((a, { value }, k) => a + value * weights[k], 0);
    if (total === 0) expect(mean[i]).toBe(null);
    else expect(mean[i]).toBeCloseTo(sum / total, 6);
  }
}

describe('a timeline', () => {
  it.each([1, 2, 3, 4, 5])('seed %i: says of every bucket what all values say', (seed) => {
    const random = new Random(seed);
    const timeline = new Timeline(16);
    const track = timeline.track();
    const values: Value[] = [];
    let now = 0;
    for (let i = 0; i < 300; i++) {
      const until = now + random.exponential(seed * 3) * (random.below(4) === 0 ? 0 : 1);
      const value = random.below(100) - 20;
      timeline.hold(track, now, until, value);
      values.push({ fromMs: now, toMs: until, value });
      now = until;
    }
    expect(timeline.numBuckets).toBeGreaterThan(8);
    expect(timeline.numBuckets).toBeLessThanOrEqual(16);
    expectBuckets(timeline, track, values);
  });

  it('keeps a peak that lasted no time, however long it goes on', () => {
    const timeline = new Timeline(8);
    const track = timeline.track();
    for (let i = 0; i < 100_000; i++) timeline.hold(track, i, i + 1, 1);
    timeline.hold(track, 100_000, 100_000, 999);
    for (let i = 100_000; i < 300_000; i++) timeline.hold(track, i, i + 1, 1);
    expect(timeline.points(track).max).toContain(999);
    expect(timeline.summary(track)).toEqual({ min: 1, mean: 1, max: 999 });
    expect(timeline.numBuckets).toBeLessThanOrEqual(8);
  });

  it('weighs single values by their weights', () => {
    const timeline = new Timeline(8);
    const track = timeline.track();
    timeline.add(track, 0.5, 1, 3);
    timeline.add(track, 0.6, 0, 1);
    timeline.add(track, 90_000, 0.25);
    expect(timeline.summary(track)).toEqual({ min: 0, mean: 0.65, max: 1 });
    expect(timeline.points(track).mean[0]).toBe(0.75);
    expect(timeline.endMs).toBe(90_000);
  });

  it('has nothing to say of a track without values', () => {
    const timeline = new Timeline(8);
    const [empty, used] = [timeline.track(), timeline.track()];
    timeline.add(used, 20, 5);
    expect(timeline.summary(empty)).toBe(null);
    expect(new Set(timeline.points(empty).mean)).toEqual(new Set([null]));
  });

  it('widens all tracks alike', () => {
    const timeline = new Timeline(4);
    const [early, late] = [timeline.track(), timeline.track()];
    timeline.add(early, 3.5, 7);
    timeline.add(late, 15.5, 9);
    expect(timeline.widthMs).toBe(4);
    expect(timeline.points(early).max).toEqual([7, null, null, null]);
    expect(timeline.points(late).max).toEqual([null, null, null, 9]);
  });
});
