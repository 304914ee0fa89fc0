// The result file of a GPU host: written again after every check.
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RESULTS_FOLDER } from '../../rows/results.js';
import type { Host } from '../host/host.js';
import type { Build } from '../host/tree.js';
import { type Figure, isFigure } from './figure.js';

/** Goes up when a reader of the old shape would misread the new one. */
export const GPU_SCHEMA = 1;

/**
 * `passed` and `failed` say what they say. `unavailable`: this host refuses to run it, and `detail` has its words.
 * `unfinished`: the time was over before it was. Only `failed` and `unfinished` fail a run, but only `passed` proves
 * anything.
 */
export type Verdict = 'passed' | 'failed' | 'unavailable' | 'unfinished';

/** How a check ended. */
export interface Outcome {
  verdict: Verdict;
  seconds: number;
  /** The findings: counts where it passed, the last words of the program where it did not. */
  detail: unknown;
}

export interface Check extends Outcome {
  name: string;
}

/** The results of a run on a GPU host, as their file holds them. */
export interface GpuResults {
  schema: typeof GPU_SCHEMA;
  kind: 'gpu';
  /** No GPU was used: an emulated one that proves logic. Its figures are no figures. */
  emulated: boolean;
  /** ISO 8601, UTC, of the start. */
  date: string;
  build: Build;
  host: Host;
  options: Record<string, unknown>;
  /** False while it runs, and for ever if it was killed. */
  complete: boolean;
  seconds: number;
  checks: Check[];
  figures: Figure[];
}

/** The results, written again after every check, so that whatever ends a run loses nothing that it has found. */
export class GpuRecord {
  readonly file: string;
  readonly results: GpuResults;
  readonly #start = performance.now();

  constructor(
    folder: string,
    head: Omit<GpuResults, 'schema' | 'kind' | 'complete' | 'seconds' | 'checks' | 'figures'>,
  ) {
    const { emulated, date, build, host, options } = head;
    this.results = {
      schema: GPU_SCHEMA,
      kind: 'gpu',
      emulated,
      date,
      build,
      host,
      options,
      complete: false,
      seconds: 0,
      checks: [],
      figures: [],
    };
    mkdirSync(folder, { recursive: true });
    this.file = join(folder, gpuFileName(this.results));
    this.#write();
  }

  /** Seconds since the start. */
  get elapsed(): number {
    return (performance.now() - this.#start) / 1000;
  }

  add(check: Check): void {
    this.results.checks.push({ ...check, seconds: Math.round(check.seconds * 10) / 10 });
    this.#write();
  }

  addFigures(figures: readonly Figure[]): void {
    this.results.figures.push(...figures);
    this.#write();
  }

  finish(): void {
    this.results.complete = true;
    this.#write();
  }

  /** 0 if nothing failed, otherwise 1. */
  get exitCode(): number {
    const { checks } = this.results;
    return checks.length > 0 &&
      checks.every(({ verdict }) => verdict === 'passed' || verdict === 'unavailable')
      ? 0
      : 1;
  }

  #write(): void {
    this.results.seconds = Math.round(this.elapsed * 10) / 10;
    writeFileSync(`${this.file}.new`, `${JSON.stringify(this.results, null, 2)}\n`);
    renameSync(`${this.file}.new`, this.file);
  }
}

/** `gpu-<date>-<commit>-<device>.json`. */
export function gpuFileName({ date, build, host, emulated }: GpuResults): string {
  const day = date.slice(0, 16).replace(/[T:]/g, '-');
  const device = emulated ? 'emulated' : (host.gpu?.name ?? 'no-gpu');
  const slug = device
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  return `gpu-${day}-${build.commit?.slice(0, 8) ?? 'nocommit'}-${slug}.json`;
}

/** @throws Error saying what is wrong, if this is no result of a run on a GPU host */
export function parseGpuResults(text: string, name: string): GpuResults {
  const results = JSON.parse(text) as GpuResults;
  if (results.kind !== 'gpu' || results.schema !== GPU_SCHEMA) {
    throw new Error(
      `${name} has kind ${results.kind} and schema ${results.schema}, expected gpu and ${GPU_SCHEMA}`,
    );
  }
  const wrong = results.figures.find((figure) => !isFigure(figure));
  if (wrong !== undefined) throw new Error(`${name} has a figure that is none: ${JSON.stringify(wrong)}`);
  return results;
}

/** The newest committed result on a real GPU; null if there is none. */
export function newestGpuResults(folder = RESULTS_FOLDER): GpuResults | null {
  const all = readdirSync(folder)
    .filter((name) => /^gpu-.*\.json$/.test(name))
    .map((name) => parseGpuResults(readFileSync(join(folder, name), 'utf8'), name))
    .filter(({ emulated }) => !emulated);
  return all.sort((a, b) => (a.date < b.date ? 1 : -1))[0] ?? null;
}
