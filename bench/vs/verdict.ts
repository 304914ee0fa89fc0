// The verdict of all processes of a case.
import type { Spread } from './pair-result.js';

/** One process: the times of this build, and of the build that it was compared with. */
export interface Pair {
  readonly own: Spread;
  readonly other: Spread;
}

export type Verdict = 'slower' | 'faster' | 'not shown';

/** The result of all processes of one case together. */
export interface Comparison {
  /** Medians of p10, in microseconds. */
  readonly other: number;
  readonly own: number;
  /** This build's time over the other's: the median of the processes, at p10 and at p50. */
  readonly p10: number;
  readonly p50: number;
  /** The least and the largest p10 of a process. */
  readonly range: readonly [number, number];
  /** The same of this build beside itself: a difference that no change has made. */
  readonly control: readonly [number, number];
  readonly verdict: Verdict;
}

/** Differences below this are not worth a word, whatever the control says. */
const LEAST = 0.02;

/** @param pairs processes with both builds @param controls processes with this build on both sides */
export function compare(pairs: readonly Pair[], controls: readonly Pair[]): Comparison {
  const p10s = pairs.map(({ own, other }) => own.p10 / other.p10);
  const range = rangeOf(p10s);
  const control = rangeOf(controls.map(({ own, other }) => own.p10 / other.p10));
  const noise = Math.max(1 + LEAST, control[1], 1 / control[0]);
  const verdict = range[0] > noise ? 'slower' : range[1] < 1 / noise ? 'faster' : 'not shown';
  return {
    other: middle(pairs.map(({ other }) => other.p10)),
    own: middle(pairs.map(({ own }) => own.p10)),
    p10: middle(p10s),
    p50: middle(pairs.map(({ own, other }) => own.p50 / other.p50)),
    range,
    control,
    verdict,
  };
}

function rangeOf(list: readonly number[]): [number, number] {
  return [Math.min(...list), Math.max(...list)];
}

/** The median; of an even number, the mean of the two in the middle. */
function middle(list: readonly number[]): number {
  const sorted = list.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
