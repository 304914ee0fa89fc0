import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Part } from '../docs/parts.js';
import { type Machine, machineSlug, REPOSITORY, shortCommit } from '../machine.js';
import type { Row } from './row.js';

/** The version of the file format. It goes up when a reader of the old format would misread the new one. */
export const SCHEMA = 1;

/** The figures of one run, as its file holds them. */
export interface Results {
  schema: typeof SCHEMA;
  machine: Machine;
  /** A run with fewer samples, whose p99 cannot be compared with that of a full run. */
  quick: boolean;
  rows: Row[];
  /** Of a run of everything (docs/): the output of the other programs. */
  parts?: Part[];
}

export const RESULTS_FOLDER = join(REPOSITORY, 'bench', 'results');
export const BASELINE = join(RESULTS_FOLDER, 'baseline.json');

/** `<date>-<short commit>-<machine>.json` in the results folder. */
export function defaultFile({ machine }: Pick<Results, 'machine'>): string {
  const day = machine.date.slice(0, 16).replace(/[T:]/g, '-');
  return join(RESULTS_FOLDER, `${day}-${shortCommit(machine)}-${machineSlug(machine)}.json`);
}

export function writeResults(file: string, results: Results): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(results, rounded, 2)}\n`);
}

/** @throws Error if the file is no result of this schema */
export function readResults(file: string): Results {
  const results = JSON.parse(readFileSync(file, 'utf8')) as Results;
  if (results.schema !== SCHEMA) {
    throw new Error(`${file} has schema ${String(results.schema)}, expected ${SCHEMA}`);
  }
  return results;
}

/** The newest result of everything, by its date; null if there is none. */
export function newestWithParts(folder = RESULTS_FOLDER): string | null {
  const files = readdirSync(folder)
    .filter((name) => /^\d.*\.json$/.test(name))
    .map((name) => join(folder, name));
  const dated = files
    .map((file) => ({ file, ...readResults(file) }))
    .filter(({ parts }) => parts !== undefined);
  dated.sort((a, b) => (a.machine.date < b.machine.date ? 1 : -1));
  return dated[0]?.file ?? null;
}

/** A tenth of a nanosecond is finer than any clock here. */
function rounded(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Math.round(value * 1e4) / 1e4 : value;
}
