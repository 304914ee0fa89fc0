// Common parts of the tables of all replays.
import CliTable3 from 'cli-table3';
import { grouped, latencyUnit } from '../../../report/markup/figures.js';
import type { Percentiles } from '../run/histogram.js';

/** The tables of a report: facts by their names, then percentiles. */
export function renderTables(
  facts: readonly (readonly string[])[],
  times: readonly (readonly string[])[],
): string {
  const style = { head: [], border: [], compact: true };
  const first = new CliTable3({ style });
  first.push(...facts.map((row) => [...row]));
  const second = new CliTable3({
    style,
    head: ['', 'p50', 'p90', 'p99', 'max'],
    colAligns: ['left', 'right', 'right', 'right', 'right'],
  });
  second.push(...times.map((row) => [...row]));
  return `${first.toString()}\n${second.toString()}\n`;
}

/** A text in lines that fit a narrow terminal. */
export function wrapped(text: string): string {
  return wrappedAt(text, 79);
}

/** A text in lines of at most `width` characters. A longer word has a line of its own. */
export function wrappedAt(text: string, width: number): string {
  return text.replace(new RegExp(`(.{1,${width}})( |$)`, 'g'), '$1\n').trimEnd();
}

/** A row of latencies, in a suitable unit. @param source `virtual` or `real` */
export function latencyRow(name: string, { p50, p90, p99, max }: Percentiles, source: string): string[] {
  const unit = latencyUnit(max);
  const cells = [p50, p90, p99, max].map((ms) => (ms === null ? '-' : short(ms / unit.ms)));
  return [`${name}, ${unit.name} (${source})`, ...cells];
}

/** A value in three significant digits, the precision of the histograms. */
export function short(value: number): string {
  return value >= 100 ? grouped(Math.round(value)) : value.toPrecision(3);
}

/** One row with the counts above 0; no row if all are 0. */
export function optional(name: string, counts: Readonly<Record<string, number>>): [string, string][] {
  const found = Object.entries(counts).filter(([, count]) => count > 0);
  return found.length === 0 ? [] : [[name, named(Object.fromEntries(found))]];
}

/** Counts, each after its name. */
export function named(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${grouped(count)}`.trim())
    .join(', ');
}
