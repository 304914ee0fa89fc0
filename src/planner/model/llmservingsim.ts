// Reads the tables of LLMServingSim's profiler.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { BlockstepError } from '../../base/errors.js';
import { evenGrid, type GridPoint } from './grid.js';
import { NO_PROVENANCE, PROFILE_SCHEMA, type Profile, USUAL_HOST } from './profile.js';
import { readBy } from './profile-file.js';
import type { SeenRange } from './seen-range.js';

/**
 * How often a layer of LLMServingSim's tables is computed in each layer of a dense model. Unnamed
 * layers are computed once in the model.
 */
const PER_LAYER: Readonly<Record<string, number>> = {
  layernorm: 2,
  qkv_proj: 1,
  qk_norm: 1,
  rotary_emb: 1,
  o_proj: 1,
  gate_up_proj: 1,
  act_fn: 1,
  down_proj: 1,
};
const US = 1000;

/**
 * Reads the tables of a dense model that LLMServingSim's profiler wrote: `dense.csv`,
 * `per_sequence.csv`, `attention.csv` of one folder. Measured times that fall while the work grows
 * are smoothed.
 * @param layers number of layers of the model, since the tables are of one layer
 * @param skew the pooled constant of the folder's `meta.yaml` (`alpha_default`); 0: none was
 * measured
 * @returns the profile, and how many of its points were smoothed
 * @throws ERR_BLOCKSTEP_BAD_FILE, ERR_BLOCKSTEP_BAD_ARG
 */
export function readLlmServingSim(
  folder: string,
  layers: number,
  skew: number,
): { profile: Profile; evened: number; points: number } {
  if (existsSync(join(folder, 'moe.csv'))) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_FILE',
      `${folder}: must be the profile of a dense model, got moe.csv`,
    );
  }
  const linear = summed(folder, 'dense.csv', 'tokens', (layer) => (PER_LAYER[layer] ?? 1 / layers) * layers);
  const rows = summed(folder, 'per_sequence.csv', 'sequences', () => 1);
  const attention = rowsOf(folder, 'attention.csv', [
    'prefill_chunk',
    'kv_prefill',
    'n_decode',
    'kv_decode',
    'time_us',
  ]).map((row) => {
    const [chunk, past, decodes, context, us] = row.map(Number);
    return [chunk, past, decodes, context, (layers * us) / US];
  });
  const grids = [
    evenGrid('dense.csv', linear, 1),
    evenGrid('per_sequence.csv', rows, 1),
    evenGrid('attention.csv', attention, 4),
  ] as const;
  const profile: Profile = {
    schema: PROFILE_SCHEMA,
    kind: 'table',
    name: folder,
    provenance: { ...NO_PROVENANCE, source: `LLMServingSim: ${folder}` },
    seen: seenOf(linear, rows, attention),
    host: { ...USUAL_HOST },
    kvTokens: null,
    table: { linear: grids[0].points, rows: grids[1].points, attention: grids[2].points, skew },
  };
  return {
    profile,
    evened: grids.reduce((sum, { changed }) => sum + changed, 0),
    points: grids.reduce((sum, { points }) => sum + points.length, 0),
  };
}

/** The milliseconds of all layers of a table together, by the number of tokens or sequences. */
function summed(folder: string, name: string, axis: string, times: (layer: string) => number): GridPoint[] {
  const sums = new Map<number, { ms: number; layers: number }>();
  const layers = new Set<string>();
  for (const [layer, at, us] of rowsOf(folder, name, ['layer', axis, 'time_us'])) {
    layers.add(layer);
    const sum = sums.get(Number(at)) ?? { ms: 0, layers: 0 };
    sums.set(Number(at), { ms: sum.ms + (times(layer) * Number(us)) / US, layers: sum.layers + 1 });
  }
  for (const [at, sum] of sums) {
    if (sum.layers === layers.size) continue;
    const problem = `${axis} ${at} has ${sum.layers} of ${layers.size} layers`;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${join(folder, name)}: ${problem}`);
  }
  return [...sums].map(([at, { ms }]) => [at, ms]);
}

/** The named columns of a CSV file. */
function rowsOf(folder: string, name: string, columns: readonly string[]): string[][] {
  const path = join(folder, name);
  const read = (text: string): string[][] => parse(text, { skip_empty_lines: true });
  const [header = [], ...rows] = readBy(read, path);
  const places = columns.map((column) => header.indexOf(column));
  const missing = columns[places.indexOf(-1)];
  if (missing !== undefined) {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: expected a column ${missing}`);
  }
  return rows.map((row) => places.map((place) => row[place]));
}

function seenOf(
  linear: readonly GridPoint[],
  rows: readonly GridPoint[],
  attention: readonly GridPoint[],
): SeenRange {
  const most = (points: readonly GridPoint[], of: (point: GridPoint) => number): number =>
    points.reduce((max, point) => Math.max(max, of(point)), 0);
  return {
    tokens: [1, most(linear, ([tokens]) => tokens)],
    rows: [1, most(rows, ([count]) => count)],
    prefillTokens: [0, most(attention, ([chunk]) => chunk)],
    prefillPairs: [0, most(attention, ([chunk, past]) => chunk * (past + (chunk + 1) / 2))],
    decodeContextTokens: [0, most(attention, ([, , decodes, context]) => decodes * context)],
    largestDecodeContext: [0, most(attention, ([, , , context]) => context)],
    drafts: [0, 0],
  };
}
