// Runs the rows on a list of variants, and prints the table.
import CliTable3 from 'cli-table3';
import { ROWS, type RowResult, runRow, runRows } from './rows.js';
import type { ShapeOptions } from './stages/flow.js';
import type { SubjectOptions } from './subject.js';
import type { Variant } from './variants.js';

/** One line of a table: every row of the matrix on one variant. */
export interface Line {
  readonly variant: string;
  readonly rows: readonly RowResult[];
}

/** Runs every row on every variant. */
export async function runTable(variants: readonly Variant[], options: SubjectOptions): Promise<Line[]> {
  const lines: Line[] = [];
  for (const variant of variants) {
    const rows = await during(variant, () => runRows(() => variant.make(options)));
    lines.push({ variant: variant.name, rows });
  }
  return lines;
}

/** How many of the sixteen sequential aborts hang at zero chunks, for each `maxNumSeqs` and seed. */
export async function runHangs(
  variant: Variant,
  widths: readonly number[],
  seeds: readonly number[],
  shapes: ShapeOptions = {},
): Promise<{ maxNumSeqs: number; hung: number[] }[]> {
  const [row] = ROWS;
  if (row === undefined) return [];
  const all: { maxNumSeqs: number; hung: number[] }[] = [];
  for (const maxNumSeqs of widths) {
    const hung: number[] = [];
    for (const seed of seeds) {
      const subject = variant.make({ ...shapes, maxNumSeqs, seed });
      const { hungAtZero } = await during(variant, () => runRow(subject, { ...row, seed }));
      subject.dispose?.();
      hung.push(hungAtZero);
    }
    all.push({ maxNumSeqs, hung });
  }
  return all;
}

async function during<T>(variant: Variant, act: () => Promise<T>): Promise<T> {
  return await (variant.during === undefined ? act() : variant.during(act));
}

/** The result of `runHangs`, as a line of text. */
export function sayHangs(maxNumSeqs: number, hung: readonly number[]): string {
  return `get and skip, maxNumSeqs ${maxNumSeqs}, ${hung.length} seeds: of 16 hang at zero chunks ${hung.join(', ')}`;
}

/** A table as text. */
export function printTable(lines: readonly Line[]): string {
  const table = new CliTable3({
    head: ['', ...ROWS.map(({ name }) => name), 'what guards found'],
    style: { head: [], border: [] },
    colWidths: [20, 17, 17, 17, 17, 14, 24],
    wordWrap: true,
  });
  for (const { variant, rows } of lines) table.push([variant, ...rows.map(cell), found(rows)]);
  return table.toString();
}

function cell({ total, completed, aborted, hung, hungAtZero, wrong, died, lostPlaces }: RowResult): string {
  const ended = completed + aborted;
  if (died !== null) return `dies after ${ended}: ${died}`;
  const parts = [`${ended}/${total}`];
  if (hung > 0) parts.push(`${hung} hang, ${hungAtZero} of them at zero chunks`);
  if (wrong > 0) parts.push(`${wrong} wrong`);
  if (lostPlaces > 0) parts.push(`${lostPlaces} places lost`);
  return parts.join('; ');
}

function found(rows: readonly RowResult[]): string {
  const sum = new Map<string, number>();
  for (const { guards } of rows)
    for (const [guard, count] of Object.entries(guards)) sum.set(guard, (sum.get(guard) ?? 0) + count);
  return sum.size === 0 ? 'nothing' : [...sum].map(([guard, count]) => `${guard} ${count}`).join(', ');
}
