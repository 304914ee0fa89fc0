import { figure } from '../../../report/markup/figures.js';
import { element, say } from './elements.js';

/** One moment of a chart: the time in milliseconds, and a value for each line. Null is a gap. */
export type Point = readonly [time: number, ...values: (number | null)[]];

const WIDTH = 600;
const HEIGHT = 150;
/** The possible time spans of a chart's width. The shortest with room for all points is used. */
const SPANS_MS = [60_000, 120_000, 300_000];
/** Points further apart are not connected, because nobody watched in between. */
const GAP_MS = 6000;

/** The range of values of a chart, and the values of its grid lines, the lowest first. */
interface Scale {
  readonly ticks: readonly number[];
  /** The position of a value: 0 is the bottom, 1 the top. */
  place(value: number): number;
}

/**
 * How the scale of a chart follows from its values. `log`: powers of ten, so that one slow step
 * does not flatten all others. A number: from 0 to it. `linear`: from 0 to the largest value.
 */
export type ScaleKind = 'log' | 'linear' | number;

/** A line chart of the last five minutes. Each line is one path, however many points there are. */
export class LineChart {
  readonly #id: string;
  readonly #paths: readonly SVGPathElement[];
  readonly #kind: ScaleKind;
  /** The ticks that are shown, with their positions. */
  #ticks = '';

  constructor(id: string, numLines: number, kind: ScaleKind = 'linear') {
    this.#id = id;
    this.#kind = kind;
    const svg = element(id, SVGSVGElement);
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.#paths = Array.from({ length: numLines }, (_, line) => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('class', `n${line}`);
      return svg.appendChild(path);
    });
  }

  /** Shows points, the oldest first. The newest point is at the right edge. */
  show(points: readonly Point[]): void {
    const end = points.at(-1)?.[0] ?? 0;
    const age = end - (points[0]?.[0] ?? end);
    const span = SPANS_MS.find((each) => each >= age) ?? SPANS_MS[SPANS_MS.length - 1];
    const scale = scaleOf(this.#kind, points);
    this.#paths.forEach((path, line) => {
      path.setAttribute('d', outline(points, line + 1, { start: end - span, span, scale }));
      const last = points.at(-1)?.[line + 1] ?? null;
      say(`${this.#id}-${line}`, last === null ? '–' : figure(Number(last.toPrecision(3))));
    });
    this.#showTicks(scale);
    say(`${this.#id}-start`, `${span / 60_000} min ago`);
  }

  #showTicks({ ticks, place }: Scale): void {
    const marks = ticks.map((tick) => [figure(tick), `${(100 * place(tick)).toFixed(2)}%`] as const);
    const text = marks.join();
    if (text === this.#ticks) return;
    this.#ticks = text;
    // The marks are replaced at once, so that nothing moves while it is read.
    element(`${this.#id}-ticks`, HTMLDivElement).replaceChildren(
      ...marks.map(([label, bottom]) => {
        const mark = document.createElement('span');
        mark.textContent = label;
        mark.style.bottom = bottom;
        return mark;
      }),
    );
  }
}

/** The values at the edges of a chart. */
interface Frame {
  readonly start: number;
  readonly span: number;
  readonly scale: Scale;
}

function outline(points: readonly Point[], column: number, { start, span, scale }: Frame): string {
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
    const y = HEIGHT - scale.place(value) * HEIGHT;
    path += `${isDrawing ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    isDrawing = true;
  }
  return path;
}

function scaleOf(kind: ScaleKind, points: readonly Point[]): Scale {
  if (kind === 'log') return logScale(points);
  const top = kind === 'linear' ? niceTop(points) : kind;
  return { ticks: [0, top / 2, top], place: (value) => Math.min(value / top, 1) };
}

/** From one power of ten to another, with room for all values above zero. */
function logScale(points: readonly Point[]): Scale {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const [, ...values] of points) {
    for (const value of values) {
      if (value === null || value <= 0) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  if (most === 0) least = most = 1;
  const low = Math.floor(Math.log10(least));
  const high = Math.max(low + 1, Math.ceil(Math.log10(most)));
  // At most five powers have a line.
  const step = Math.ceil((high - low) / 4);
  const ticks: number[] = [];
  for (let power = low; power <= high; power += step) ticks.push(10 ** power);
  const place = (value: number): number =>
    value <= 0 ? 0 : Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  return { ticks, place };
}

/** The smallest of 1, 2, 5, 10, 20, … that is not below any value. */
function niceTop(points: readonly Point[]): number {
  let most = 0;
  for (const [, ...values] of points) for (const value of values) most = Math.max(most, value ?? 0);
  if (most === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= most) ?? most;
}
