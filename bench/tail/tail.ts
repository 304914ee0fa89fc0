import { quantile } from '../rows/quantile.js';
import { Cause, type Life } from './life-result.js';

/** The analysis of the slowest steps of a workload. */
export interface Tail {
  readonly p50: number;
  readonly p99: number;
  /** p99 over p50: of the steps, and of the bare loop beside them. */
  readonly ratio: number;
  readonly bareRatio: number;
  /**
   * p99 over p50 of the times that repeat: each step counts with its least time in all lives. The
   * times that the machine caused are left out.
   */
  readonly ownRatio: number;
  /** Steps above p99, by the events during them; a step may have several causes. */
  readonly slow: { readonly [cause in 'gc' | 'fault' | 'preempted' | 'repeats' | 'nothing']: number } & {
    readonly all: number;
  };
  /** The slowest of the steps that are slow in every life. */
  readonly repeating: readonly Repeating[];
}

/** A step that is slow in every life, so because of its own work. */
export interface Repeating {
  readonly step: number;
  readonly about: number;
  /** Its least time over the p50. */
  readonly ratio: number;
  /** The events in it that happened in every life, as bits of `Cause`. */
  readonly causes: number;
}

/** A step repeats if it takes so many times the p50 in every life. */
const SLOW = 1.5;
const LISTED = 8;

/** @param lives of the same workload, step by step the same */
export function tailOf(lives: readonly Life[]): Tail {
  const steps = lives[0].times.length;
  const all = lives.flatMap(({ times }) => times);
  const [p50, p99] = [quantile(all, 0.5), quantile(all, 0.99)];
  const least = Array.from({ length: steps }, (_, i) => Math.min(...lives.map(({ times }) => times[i])));
  const leastP50 = quantile(least, 0.5);
  const bare = lives.flatMap((life) => life.bare);
  const slow = { gc: 0, fault: 0, preempted: 0, repeats: 0, nothing: 0, all: 0 };
  for (const { times, causes } of lives)
    for (let i = 0; i < steps; i++) {
      if (times[i] <= p99) continue;
      const repeats = least[i] > SLOW * leastP50;
      slow.all++;
      if (causes[i] & Cause.gc) slow.gc++;
      if (causes[i] & Cause.fault) slow.fault++;
      if (causes[i] & Cause.preempted) slow.preempted++;
      if (repeats) slow.repeats++;
      if (causes[i] === 0 && !repeats) slow.nothing++;
    }
  const repeating = least
    .map((time, step) => {
      const causes = lives.reduce((bits, life) => bits & life.causes[step], ~0);
      return { step, about: lives[0].abouts[step], ratio: time / leastP50, causes };
    })
    .filter(({ ratio }) => ratio > SLOW)
    .sort((a, b) => b.ratio - a.ratio)
    .slice(0, LISTED);
  return {
    p50,
    p99,
    ratio: p99 / p50,
    bareRatio: quantile(bare, 0.99) / quantile(bare, 0.5),
    ownRatio: quantile(least, 0.99) / leastP50,
    slow,
    repeating,
  };
}
