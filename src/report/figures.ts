import { type Html, html } from './html.js';

/** A number in three significant digits, more only before the point; thousands are grouped. */
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

/** A number for people that carries its exact value; a dash for none. */
export function datum(value: number | null, text: (value: number) => string = figure): Html {
  return value === null ? html`–` : html`<data value="${value}">${text(value)}</data>`;
}

/** A share from 0 to 1 as a percentage. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

/** Rounded so that a chart cannot tell the difference, to keep pages small. */
export function coarse(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(5));
}
