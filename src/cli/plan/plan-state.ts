import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { isObject } from '../../base/checks.js';
import { BlockstepError } from '../../base/errors.js';
import type { FleetRun } from '../../planner/sweep/evaluation.js';

/** The first line of a file of states. */
const HEADER = '{"blockstep":"plan-state/2"}';

/**
 * The simulated runs of a plan, in a file. Each run is appended as soon as it is known: one
 * line of JSON.
 */
export class PlanState {
  readonly path: string;
  readonly known = new Map<string, FleetRun>();
  readonly #descriptor: number;

  private constructor(path: string, descriptor: number) {
    this.path = path;
    this.#descriptor = descriptor;
  }

  /**
   * Opens or creates a file. A last line that was truncated by a crash is skipped.
   * @throws ERR_BLOCKSTEP_BAD_FILE for a file of another kind, which stays unchanged
   */
  static open(path: string): PlanState {
    const bad = (problem: string, cause?: unknown): BlockstepError =>
      new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: ${problem}`, { cause });
    try {
      const isNew = !existsSync(path);
      const [header, ...lines] = isNew ? [HEADER] : readFileSync(path, 'utf8').split('\n');
      if (header !== HEADER) throw bad('is no state of a plan; name a file that does not exist');
      const state = new PlanState(path, openSync(path, 'a'));
      if (isNew) writeSync(state.#descriptor, `${HEADER}\n`);
      // The next line must not continue a truncated line.
      else if (lines.at(-1) !== '') writeSync(state.#descriptor, '\n');
      for (const line of lines) state.#addLine(line);
      return state;
    } catch (cause) {
      if (cause instanceof BlockstepError) throw cause;
      throw bad(`cannot be used: ${(cause as NodeJS.ErrnoException).code ?? String(cause)}`, cause);
    }
  }

  add(key: string, run: FleetRun): void {
    writeSync(this.#descriptor, `${JSON.stringify({ key, run })}\n`);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #addLine(line: string): void {
    try {
      const entry: unknown = JSON.parse(line);
      if (!isObject(entry) || typeof entry['key'] !== 'string' || !isObject(entry['run'])) return;
      const run = entry['run'] as unknown as FleetRun;
      // JSON has no infinity, which stands for a bound that cannot be kept.
      const strainOf = (value: number | null): number => value ?? Number.POSITIVE_INFINITY;
      const { strain, parts } = run;
      this.known.set(entry['key'], { ...run, strain: strainOf(strain), parts: parts.map(strainOf) });
    } catch {
      // A truncated line.
    }
  }
}
