import { decimal } from '../../src/report/markup/figures.js';
import type { Group, Row } from './row.js';

/** A limit that the design sets: the highest value of a figure in a quiet run on one core. */
export interface Budget {
  /** The limited quantity, in words. */
  what: string;
  group: Group;
  name: string;
  /** The p50 in microseconds; `tail`: p99 over p50; `bytes`: the value; `ratio`: p50 over that of row `to` of the group. */
  of: 'p50' | 'tail' | 'bytes' | 'ratio';
  to?: string;
  /** Unit of the limit, for readers. */
  unit: 'µs p50' | 'p99 / p50' | 'p50 / p50' | 'bytes';
  limit: number;
}

/** Less than one byte per request and step means that nothing is allocated: an object takes at least 12 bytes. */
const NO_BYTES = 1;

/** The budgets of the design. A budget that is missed is reported as missed, and stays. */
export const BUDGETS: readonly Budget[] = [
  p50('step of 256 decodes', 'decode', '256', 10),
  p50('step of 1,024 decodes', 'decode', '1024', 45),
  p50('mixed step of 256', 'mixed', 'step', 30),
  p50('add 2,048 tokens, hashing', 'operations', 'Scheduler.add, hashing', 10),
  p50('full hit of 2,048 tokens', 'operations', 'full hit, 10k cached', 2),
  p50('cold allocate of 2,048 tokens', 'operations', 'cold allocate, 10k empty', 4),
  p50('release of 2,048 tokens', 'operations', 'release, 10k cached', 0.6),
  {
    what: 'step of 256, 64 transfers / none',
    group: 'decode',
    name: '256, 64 transfers',
    of: 'ratio',
    to: '256',
    unit: 'p50 / p50',
    limit: 1.2,
  },
  p50('drain of 1,000 completions', 'transfers', 'drain 1,000', 50),
  tail('step of 256 decodes', 'decode', '256'),
  tail('step of 1,024 decodes', 'decode', '1024'),
  tail('mixed step of 256', 'mixed', 'step'),
  {
    what: 'heap of a step, each request',
    group: 'heap',
    name: 'step, per request',
    of: 'bytes',
    unit: 'bytes',
    limit: NO_BYTES,
  },
];

/** A budget, and the measured figure. */
export interface Verdict extends Budget {
  measured: number;
  /** measured / limit. The budget is met up to 1. */
  ratio: number;
  /**
   * The same for the fastest sample, which nothing else on the machine disturbed; null for figures
   * that are no p50.
   */
  bestRatio: number | null;
}

/** Verdicts on those budgets whose rows were measured, in the order of the budgets. */
export function judge(rows: readonly Row[]): Verdict[] {
  const verdicts: Verdict[] = [];
  for (const budget of BUDGETS) {
    const row = rows.find(({ group, name }) => group === budget.group && name === budget.name);
    if (row === undefined) continue;
    const measured = measuredOf(budget, row, rows);
    if (measured === null) continue;
    const best = budget.of === 'p50' && row.latency ? row.latency.min / budget.limit : null;
    verdicts.push({ ...budget, measured, ratio: measured / budget.limit, bestRatio: best });
  }
  return verdicts;
}

/** The measured figure that a budget limits; null if the row that it is compared with was not measured. */
function measuredOf({ of, group, to }: Budget, row: Row, rows: readonly Row[]): number | null {
  if (of === 'tail' && row.latency) return row.latency.p99 / row.latency.p50;
  if (of !== 'ratio') return row.value;
  const other = rows.find((each) => each.group === group && each.name === to);
  return other === undefined ? null : row.value / other.value;
}

/** A verdict for readers; `ratio` is measured / limit. */
export function inWords(ratio: number): string {
  if (ratio > 1) return `missed by ${decimal(100 * (ratio - 1))} %`;
  return ratio < 0 ? 'met' : `met (${decimal(100 * ratio, 0)} %)`;
}

function p50(what: string, group: Group, name: string, limit: number): Budget {
  return { what, group, name, of: 'p50', unit: 'µs p50', limit };
}

function tail(what: string, group: Group, name: string): Budget {
  return { what: `${what}, tail`, group, name, of: 'tail', unit: 'p99 / p50', limit: 2 };
}
