import { checkNumber, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { StepCost, StepFeatures } from '../../executors/cost-model/step-features.js';
import { Grid, type GridPoint, parseGrid } from './grid.js';
import type { HostTime } from './physics-cost.js';

/** Measured milliseconds, as grids. */
export interface CostTable {
  /** All matrices of a step: tokens, ms. */
  linear: readonly GridPoint[];
  /** Work per sampled request: requests, ms. */
  rows: readonly GridPoint[];
  /**
   * Attention: prompt tokens, earlier tokens of their requests, decoding requests, context tokens
   * of each of these, ms.
   */
  attention: readonly GridPoint[];
  /**
   * Decodes of unequal lengths take longer than equally many of their mean length. The difference
   * is this fraction of their additional time if all were as long as the longest.
   */
  skew: number;
}

const TABLE = knownNames<CostTable>('the table of a profile', {
  linear: true,
  rows: true,
  attention: true,
  skew: true,
});

/** A checked copy. @throws ERR_BLOCKSTEP_BAD_ARG, also if costs fall while work grows */
export function parseTable(value: unknown): CostTable {
  if (!isObject(value)) throw badArgument('table', show(value), 'an object');
  checkNames(value, TABLE);
  return {
    linear: parseGrid('table.linear', value['linear'], 1),
    rows: parseGrid('table.rows', value['rows'], 1),
    attention: parseGrid('table.attention', value['attention'], 4),
    skew: checkNumber('table.skew', value['skew'], 0, 1),
  };
}

/** The cost of a step by measured tables. */
export class TableCost implements StepCost {
  readonly #linear: Grid;
  readonly #rows: Grid;
  readonly #attention: Grid;
  readonly #skew: number;
  readonly #host: HostTime;

  constructor(table: CostTable, host: HostTime) {
    this.#linear = new Grid(table.linear);
    this.#rows = new Grid(table.rows);
    // The coordinates that count requests come first, because the other coordinates have fewer
    // points under 0.
    this.#attention = new Grid(bySlices(table.attention));
    this.#skew = table.skew;
    this.#host = host;
  }

  hostMs({ rows }: Readonly<StepFeatures>): number {
    return this.#host.stepMs + rows * this.#host.rowMs;
  }

  stepMs(features: Readonly<StepFeatures>): number {
    const { paddedTokens, rows, drafts, prefillTokens, prefillContextTokens, decodes } = features;
    const { meanDecodeContext, largestDecodeContext } = features;
    const attention = (context: number): number =>
      this.#attention.at(prefillTokens, decodes, prefillContextTokens, context);
    let attentionMs = attention(meanDecodeContext);
    if (this.#skew > 0 && decodes > 1) {
      attentionMs += this.#skew * Math.max(0, attention(largestDecodeContext) - attentionMs);
    }
    return this.#linear.at(paddedTokens) + this.#rows.at(rows + drafts) + attentionMs;
  }
}

function bySlices(points: readonly GridPoint[]): GridPoint[] {
  const turned = points.map(([chunk, past, decodes, context, ms]) => [chunk, decodes, past, context, ms]);
  return turned.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
}
