/** The failure of a run. `CaseError` adds its place and its history. */
export class Trouble extends Error {
  override name = 'Trouble';
}

/** A case that failed: seed and step, the failure, its history, and the call that repeats it. */
export class CaseError extends Error {
  override name = 'CaseError';
  /** Name of the case. */
  readonly caseName: string;
  /** The seed that shows the failure. */
  readonly seed: number;

  constructor(caseName: string, seed: number, message: string, cause: unknown) {
    super(message, { cause });
    this.caseName = caseName;
    this.seed = seed;
  }
}

/** Most events that a message shows. */
const SHOWN = 30;

/** Remembers the last events. */
export class Diary {
  readonly #lines: string[] = [];
  /** Number of the present round. */
  round = 0;

  note(line: string): void {
    this.#lines.push(`  round ${this.round}: ${line}`);
    if (this.#lines.length > 4 * SHOWN) this.#lines.splice(0, 2 * SHOWN);
  }

  /** The last events, the latest one last. */
  toString(): string {
    return this.#lines.slice(-SHOWN).join('\n');
  }
}
