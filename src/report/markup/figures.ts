// Numbers, durations, counts and shares, formatted for people.
import { type Html, html } from './html.js';

/**
 * A number in three significant digits, with more digits only before the point. Thousands are
 * grouped.
 */
export function figure(value: number): string {
  if (Number.isInteger(value)) return grouped(value);
  const magnitude = Math.abs(value);
  if (magnitude >= 100) return grouped(Math.round(value));
  if (magnitude >= 0.001) return value.toPrecision(3);
  return value.toExponential(2);
}

/** A whole number with its thousands grouped. */
export function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

/** A duration in common units: 51.4 ms, 52.4 s, 21 min 33 s, 3 h 5 min, 2 d 4 h. */
export function duration(ms: number): string {
  if (ms < 1000) return `${figure(ms)} ms`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${figure(ms / 1000)} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 3600) return pair(seconds, 60, 'min', 's');
  return minutes < 24 * 60 ? pair(minutes, 60, 'h', 'min') : pair(Math.round(minutes / 60), 24, 'd', 'h');
}

/** A count of small units, written in large units and a rest: 1293 s as 21 min 33 s. */
function pair(count: number, perLarge: number, large: string, small: string): string {
  const rest = count % perLarge;
  return `${grouped(Math.floor(count / perLarge))} ${large}${rest === 0 ? '' : ` ${rest} ${small}`}`;
}

/** A unit of time. */
export interface TimeUnit {
  name: string;
  ms: number;
}

const MILLISECONDS: TimeUnit = { name: 'ms', ms: 1 };
const SECONDS: TimeUnit = { name: 's', ms: 1000 };

/**
 * The unit for latencies of which the largest is `maxMs`. All of them use it, so that they can be
 * compared.
 */
export function latencyUnit(maxMs: number | null): TimeUnit {
  return maxMs !== null && maxMs >= 10_000 ? SECONDS : MILLISECONDS;
}

/** A count with a noun in the singular: 1 request, 2 requests. */
export function counted(count: number, one: string): string {
  return `${grouped(count)} ${one}${count === 1 ? '' : 's'}`;
}

/** A number with at most `digits` behind the point; thousands are grouped. */
export function decimal(value: number, digits = 1): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** A number for people, with its exact value as an attribute; a dash for null. */
export function datum(value: number | null, text: (value: number) => string = figure): Html {
  return value === null ? html`–` : html`<data value="${value}">${text(value)}</data>`;
}

/** A fraction from 0 to 1 as a percentage. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

/** A value rounded to five digits: a chart looks the same, and the page is smaller. */
export function coarse(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(5));
}
