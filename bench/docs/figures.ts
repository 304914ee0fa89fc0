import { judge } from '../rows/budgets.js';
import type { Results } from '../rows/results.js';
import { BARE_LOOP, type Group, type Latency, type Row } from '../rows/row.js';
import { figure } from '../rows/table.js';

/** The sign for a figure that a run does not have. */
export const NONE = '–';

/** The figures of one run, as text for a page in Markdown. */
export class Figures {
  readonly #rows: readonly Row[];

  constructor({ rows }: Pick<Results, 'rows'>) {
    this.#rows = rows;
  }

  row(group: Group, name: string): Row | undefined {
    return this.#rows.find((row) => row.group === group && row.name === name);
  }

  /** The figure itself: of a time its p50. */
  value(group: Group, name: string): string {
    const row = this.row(group, name);
    if (row?.unit === 'tokens/s') return Math.round(row.value).toLocaleString('en-US');
    return shown(row?.value);
  }

  of(group: Group, name: string, percentile: keyof Latency): string {
    return shown(this.row(group, name)?.latency?.[percentile]);
  }

  perRequest(group: Group, name: string): string {
    const row = this.row(group, name);
    return shown(row?.requests === undefined ? undefined : row.value / row.requests);
  }

  ratio(group: Group, name: string, to: string): string {
    const [above, below] = [this.row(group, name), this.row(group, to)];
    return shown(above && below && above.value / below.value);
  }

  /** Names of a group's times, in their order. */
  times(group: Group): string[] {
    return this.#rows.filter((row) => row.group === group && row.latency).map(({ name }) => name);
  }

  bareLoop(): string {
    return this.value('calibration', BARE_LOOP);
  }

  /** Our own limits, each with the measured figure. */
  budgets(): string[][] {
    return judge(this.#rows).map(({ what, unit, limit, measured, ratio }) => [
      `${what}, ${unit}`,
      String(limit),
      figure(measured),
      ratio > 1 ? `missed: ${figure(ratio)} times the limit` : 'met',
    ]);
  }
}

function shown(value: number | undefined): string {
  return value === undefined ? NONE : figure(value);
}
