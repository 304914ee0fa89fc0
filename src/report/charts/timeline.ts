/** One quantity over time, bucket by bucket. */
export interface Track {
  /** Smallest and largest value seen in each bucket; Infinity and -Infinity where there is none. */
  readonly min: Float64Array;
  readonly max: Float64Array;
  /** Sum of values times weights, and of the weights: their quotient is the mean. */
  readonly sum: Float64Array;
  readonly weight: Float64Array;
}

/** A track as it is drawn: null in buckets without a value. */
export interface TrackPoints {
  min: (number | null)[];
  mean: (number | null)[];
  max: (number | null)[];
}

const FIRST_WIDTH_MS = 1;

/**
 * Several quantities over the same time, in constant memory however long it gets: a fixed number of buckets, whose width
 * doubles when time runs past the last one. Pairs of buckets are merged then, so no peak is ever lost, and what comes out
 * follows from what went in alone. At the end between half of the buckets and all of them are in use.
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

  /** The latest time that anything happened at. */
  get endMs(): number {
    return this.#endMs;
  }

  /** Buckets from 0 to that time. */
  get numBuckets(): number {
    return Math.floor(this.#endMs / this.#widthMs) + 1;
  }

  track(): Track {
    const column = (fill: number): Float64Array => new Float64Array(this.#numBuckets).fill(fill);
    const track = { min: column(Infinity), max: column(-Infinity), sum: column(0), weight: column(0) };
    this.#tracks.push(track);
    return track;
  }

  /** Counts `value` in at one moment. Its mean is over such values, by their weights. */
  add(track: Track, atMs: number, value: number, weight = 1): void {
    put(track, this.#bucket(atMs), value, weight);
  }

  /** Counts in that the quantity was `value` from one moment to another. Its mean is over time. */
  hold(track: Track, fromMs: number, toMs: number, value: number): void {
    const last = this.#bucket(toMs);
    for (let i = this.#bucket(fromMs); i <= last; i++) {
      const start = Math.max(fromMs, i * this.#widthMs);
      const end = Math.min(toMs, (i + 1) * this.#widthMs);
      // A moment counts for the extremes. The next bucket's first moment is not in this one's span but for the last.
      if (end > start || fromMs === toMs) put(track, i, value, end - start);
    }
  }

  points({ min, max, sum, weight }: Track): TrackPoints {
    const points: TrackPoints = { min: [], mean: [], max: [] };
    for (let i = 0; i < this.numBuckets; i++) {
      const none = min[i] === Infinity;
      points.min.push(none ? null : min[i]);
      points.max.push(none ? null : max[i]);
      // Kept between the extremes, which rounding may leave it a hair outside of.
      const mean = weight[i] > 0 ? Math.min(max[i], Math.max(min[i], sum[i] / weight[i])) : null;
      points.mean.push(mean);
    }
    return points;
  }

  /** The whole time's extremes and mean; null if nothing was counted. */
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
