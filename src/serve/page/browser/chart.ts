// Lines over the last minutes.
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

/** Which values a chart has room for, and at which of them lines are drawn, the lowest first. */
interface Scale {
  readonly ticks: readonly number[];
  /** Where a value stands: 0 is the bottom, 1 the top. */
  place(value: number): number;
}

/**
 * How the scale of a chart follows from its values. `log`: by powers of ten, so that one slow step does not press all others to the
 * ground; a number: from 0 to it; `linear`: from 0 to what the largest value needs.
 */
export type ScaleKind = 'log' | 'linear' | number;

/** A chart of lines over the last five minutes. It has one path for each line, however many points there are. */
export class LineChart {
  readonly #id: string;
  readonly #paths: readonly SVGPathElement[];
  readonly #kind: ScaleKind;
  /** The ticks that are shown, and where. */
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

  /** Shows points, the oldest first; the newest one stands at the right edge. */
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
    // New ones in place of old ones: nothing that is read moves.
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

/** What the edges of a chart stand for. */
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
  // Lines for at most five powers.
  const step = Math.ceil((high - low) / 4);
  const ticks: number[] = [];
  for (let power = low; power <= high; power += step) ticks.push(10 ** power);
  const place = (value: number): number =>
    value <= 0 ? 0 : Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  return { ticks, place };
}

/** The smallest of 1, 2, 5, 10, 20, … that no value is above. */
function niceTop(points: readonly Point[]): number {
  let most = 0;
  for (const [, ...values] of points) for (const value of values) most = Math.max(most, value ?? 0);
  if (most === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= most) ?? most;
}
