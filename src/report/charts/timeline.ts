/** One quantity over time, bucket by bucket. */
export interface Track {
  /**
   * Smallest and largest value of each bucket; Infinity and -Infinity in buckets without a value.
   */
  readonly min: Float64Array;
  readonly max: Float64Array;
  /**
   * Per bucket: the sum of values times weights, and the sum of weights. Their quotient is the
   * mean.
   */
  readonly sum: Float64Array;
  readonly weight: Float64Array;
}

/** A track for drawing: null in buckets without a value. */
export interface TrackPoints {
  min: (number | null)[];
  mean: (number | null)[];
  max: (number | null)[];
}

const FIRST_WIDTH_MS = 1;

/**
 * Several quantities over the same time, in constant memory. The number of buckets is fixed. When
 * time runs past the last bucket, pairs of buckets are merged and the width of a bucket doubles. So
 * no peak is ever lost, and equal inputs give equal results. At the end between half of the buckets
 * and all of them are in use.
 */
export class Timeline {
  readonly #tracks: Track[] = [];
  readonly #numBuckets: number;
  #widthMs = FIRST_WIDTH_MS;
  #endMs = 0;

  /** @param numBuckets even */
  constructor(numBuckets = 512) {
    this.#numBuckets = numBuckets;
  }

  /** Milliseconds that a bucket spans. */
  get widthMs(): number {
    return this.#widthMs;
  }

  /** The latest time of any value, in milliseconds. */
  get endMs(): number {
    return this.#endMs;
  }

  /** Number of buckets from 0 to `endMs`. */
  get numBuckets(): number {
    return Math.floor(this.#endMs / this.#widthMs) + 1;
  }

  track(): Track {
    const column = (fill: number): Float64Array => new Float64Array(this.#numBuckets).fill(fill);
    const track = { min: column(Infinity), max: column(-Infinity), sum: column(0), weight: column(0) };
    this.#tracks.push(track);
    return track;
  }

  /**
   * Records a `value` at one moment. The mean of such a quantity is over its values, by their
   * weights.
   */
  add(track: Track, atMs: number, value: number, weight = 1): void {
    put(track, this.#bucket(atMs), value, weight);
  }

  /** Records a `value` from one moment to another. The mean of such a quantity is over time. */
  hold(track: Track, fromMs: number, toMs: number, value: number): void {
    const last = this.#bucket(toMs);
    for (let i = this.#bucket(fromMs); i <= last; i++) {
      const start = Math.max(fromMs, i * this.#widthMs);
      const end = Math.min(toMs, (i + 1) * this.#widthMs);
      // A single moment counts for the extremes only. A span that ends where a bucket begins has no
      // part in that bucket.
      if (end > start || fromMs === toMs) put(track, i, value, end - start);
    }
  }

  points({ min, max, sum, weight }: Track): TrackPoints {
    const points: TrackPoints = { min: [], mean: [], max: [] };
    for (let i = 0; i < this.numBuckets; i++) {
      const none = min[i] === Infinity;
      points.min.push(none ? null : min[i]);
      points.max.push(none ? null : max[i]);
      // Rounding may put the mean slightly outside the extremes.
      const mean = weight[i] > 0 ? Math.min(max[i], Math.max(min[i], sum[i] / weight[i])) : null;
      points.mean.push(mean);
    }
    return points;
  }

  /** Extremes and mean over the whole time; null without values. */
  summary({ min, max, sum, weight }: Track): { min: number; mean: number; max: number } | null {
    const total = add(weight);
    if (total === 0) return null;
    const [low, high] = [Math.min(...min), Math.max(...max)];
    return { min: low, mean: Math.min(high, Math.max(low, add(sum) / total)), max: high };
  }

  #bucket(atMs: number): number {
    if (atMs > this.#endMs) this.#endMs = atMs;
    while (atMs >= this.#numBuckets * this.#widthMs) this.#widen();
    return Math.floor(atMs / this.#widthMs);
  }

  #widen(): void {
    this.#widthMs *= 2;
    const half = this.#numBuckets / 2;
    for (const { min, max, sum, weight } of this.#tracks) {
      for (let i = 0; i < half; i++) {
        const j = 2 * i;
        min[i] = Math.min(min[j], min[j + 1]);
        max[i] = Math.max(max[j], max[j + 1]);
        sum[i] = sum[j] + sum[j + 1];
        weight[i] = weight[j] + weight[j + 1];
      }
      min.fill(Infinity, half);
      max.fill(-Infinity, half);
      sum.fill(0, half);
      weight.fill(0, half);
    }
  }
}

function put({ min, max, sum, weight }: Track, i: number, value: number, share: number): void {
  if (value < min[i]) min[i] = value;
  if (value > max[i]) max[i] = value;
  sum[i] += value * share;
  weight[i] += share;
}

function add(column: Float64Array): number {
  return column.reduce((a, b) => a + b, 0);
}
