import { badArgument, show } from '../../base/errors.js';

/** A point of a grid: its coordinates, then its milliseconds. */
export type GridPoint = readonly number[];

/**
 * The next coordinate's keys, ascending, and the value under each: an inner node, or milliseconds.
 */
interface Node {
  readonly keys: number[];
  readonly below: (Node | number)[];
}

/**
 * A table of milliseconds over some coordinates. It is linear between its points, constant below
 * the first, and continues the last slope above the last.
 */
export class Grid {
  readonly #root: Node;

  /** @param points checked by `parseGrid`, in ascending order */
  constructor(points: readonly GridPoint[]) {
    this.#root = { keys: [], below: [] };
    for (const point of points) insert(this.#root, point, 0);
  }

  at(...query: readonly number[]): number {
    return lookUp(this.#root, query, 0);
  }
}

function insert(node: Node, point: GridPoint, depth: number): void {
  const key = point[depth];
  const isNew = node.keys.at(-1) !== key;
  if (isNew) node.keys.push(key);
  if (depth === point.length - 2) {
    node.below.push(point[depth + 1]);
    return;
  }
  if (isNew) node.below.push({ keys: [], below: [] });
  insert(node.below.at(-1) as Node, point, depth + 1);
}

function lookUp(node: Node, query: readonly number[], depth: number): number {
  const { keys, below } = node;
  const value = (i: number): number => {
    const under = below[i];
    return typeof under === 'number' ? under : lookUp(under, query, depth + 1);
  };
  const last = keys.length - 1;
  const at = query[depth];
  if (last === 0 || at <= keys[0]) return value(0);
  let high = 1;
  while (high < last && keys[high] < at) high++;
  const low = high - 1;
  const from = value(low);
  const to = value(high);
  const slope = (to - from) / (keys[high] - keys[low]);
  // The points of a grid do not fall. Interpolated values under two of them may, if the two have
  // different keys.
  return at <= keys[high] ? from + slope * (at - keys[low]) : to + Math.max(0, slope) * (at - keys[high]);
}

/**
 * Checks a grid, and sorts a copy of it.
 * @param name of the grid, for messages
 * @param coordinates number of coordinates in front of the milliseconds of a point
 * @throws ERR_BLOCKSTEP_BAD_ARG for values that are no numbers, negative, duplicate, or fall where
 * a coordinate grows
 */
export function parseGrid(name: string, value: unknown, coordinates: number): GridPoint[] {
  const points = sortedGrid(name, value, coordinates);
  eachPair(points, (point, before) => {
    if (point.at(-1)! >= before.at(-1)!) return;
    const what = `${point.at(-1)} ms at ${point.slice(0, -1).join(', ')}`;
    throw badArgument(name, what, `at least the ${before.at(-1)} ms at ${before.slice(0, -1).join(', ')}`);
  });
  return points;
}

/**
 * Smooths measured grids, so that more work never costs less. A point becomes the mean of the
 * largest value before it and the smallest behind it. Either alone would shift all noisy points to
 * one side.
 * @returns the points, and how many were changed
 */
export function evenGrid(
  name: string,
  value: readonly GridPoint[],
  coordinates: number,
): { points: GridPoint[]; changed: number } {
  const sorted = sortedGrid(name, value, coordinates);
  const highs = envelope(sorted, Math.max);
  const lows = envelope(sorted.toReversed(), Math.min).reverse();
  const points = sorted.map((point, i) => [...point.slice(0, -1), (highs[i] + lows[i]) / 2]);
  return { points, changed: points.filter((point, i) => point.at(-1) !== sorted[i].at(-1)).length };
}

/** The milliseconds of points, bounded by the previous points along each coordinate. */
function envelope(points: readonly GridPoint[], bound: (a: number, b: number) => number): number[] {
  const bounded = new Map(points.map((point) => [point, point.at(-1)!]));
  eachPair(points, (point, before) => {
    bounded.set(point, bound(bounded.get(point)!, bounded.get(before)!));
  });
  return points.map((point) => bounded.get(point)!);
}

function sortedGrid(name: string, value: unknown, coordinates: number): GridPoint[] {
  if (!Array.isArray(value) || value.length === 0) throw badArgument(name, show(value), 'a list of points');
  for (const point of value) {
    const isPoint =
      Array.isArray(point) &&
      point.length === coordinates + 1 &&
      point.every((each) => typeof each === 'number' && each >= 0 && each <= Number.MAX_VALUE);
    if (!isPoint) throw badArgument(name, show(point), `${coordinates + 1} finite numbers of at least 0`);
  }
  return [...(value as GridPoint[])].sort((a, b) => {
    for (let i = 0; i < coordinates; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return 0;
  });
}

/** Calls `look` for each point with its predecessor along each coordinate, in ascending order. */
function eachPair(points: readonly GridPoint[], look: (point: GridPoint, before: GridPoint) => void): void {
  const coordinates = points[0].length - 1;
  // By coordinate: the last point with the same other coordinates.
  const before = Array.from({ length: coordinates }, () => new Map<string, GridPoint>());
  for (const point of points) {
    for (let i = 0; i < coordinates; i++) {
      const others = point.slice(0, coordinates).toSpliced(i, 1).join();
      const last = before[i].get(others);
      if (last !== undefined) {
        if (last[i] === point[i])
          throw badArgument('a grid', point.slice(0, -1).join(', '), 'each point once');
        look(point, last);
      }
      before[i].set(others, point);
    }
  }
}
