import { figure } from '../../../report/markup/figures.js';
import { element, say } from './elements.js';

/** What a chart shows of one moment: when, in milliseconds, and a value for each line; null is a gap. */
export type Point = readonly [time: number, ...values: (number | null)[]];

const WIDTH = 600;
const HEIGHT = 150;
/** What the width stands for: the shortest of these that has room for all points. */
const SPANS_MS = [60_000, 120_000, 300_000];
/** Points further apart are not joined: nobody watched in between. */
const GAP_MS = 6000;

/** A chart of lines over the last five minutes. It has one path for each line, however many points there are. */
export class LineChart {
  readonly #id: string;
  readonly #paths: readonly SVGPathElement[];
  readonly #max: number | null;

  /** @param max the end of the scale; null: what the largest value needs */
  constructor(id: string, numLines: number, max: number | null = null) {
    this.#id = id;
    this.#max = max;
    const svg = element(id, SVGSVGElement);
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.#paths = Array.from({ length: numLines }, (_, line) => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('class', `n${line}`);
      return svg.appendChild(path);
    });
  }

  /** Shows points, the oldest first; the newest one stands at the right edge. */
  show(points: readonly Point[]): void {
    const end = points.at(-1)?.[0] ?? 0;
    const age = end - (points[0]?.[0] ?? end);
    const span = SPANS_MS.find((each) => each >= age) ?? SPANS_MS[SPANS_MS.length - 1];
    const top = this.#max ?? niceTop(points);
    this.#paths.forEach((path, line) => {
      path.setAttribute('d', outline(points, line + 1, { start: end - span, span, top }));
      const last = points.at(-1)?.[line + 1] ?? null;
      say(`${this.#id}-${line}`, last === null ? '–' : figure(Number(last.toPrecision(3))));
    });
    say(`${this.#id}-top`, figure(top));
    say(`${this.#id}-start`, `${span / 60_000} min ago`);
  }
}

/** What the edges of a chart stand for. */
interface Frame {
  readonly start: number;
  readonly span: number;
  readonly top: number;
}

function outline(points: readonly Point[], column: number, { start, span, top }: Frame): string {
  let path = '';
  let isDrawing = false;
  let before = 0;
  for (const point of points) {
    const value = point[column];
    if (value === null || point[0] < start) {
      isDrawing = false;
      continue;
    }
    if (point[0] - before > GAP_MS) isDrawing = false;
    before = point[0];
    const x = ((point[0] - start) / span) * WIDTH;
    const y = HEIGHT - (Math.min(value, top) / top) * (HEIGHT - 4);
    path += `${isDrawing ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    isDrawing = true;
  }
  return path;
}

/** The smallest of 1, 2, 5, 10, 20, … that no value is above. */
function niceTop(points: readonly Point[]): number {
  let most = 0;
  for (const [, ...values] of points) for (const value of values) most = Math.max(most, value ?? 0);
  if (most === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= most) ?? most;
}
