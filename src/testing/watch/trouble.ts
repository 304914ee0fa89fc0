/** What breaks a run of a case. `CaseError` says where, and what led to it. */
export class Trouble extends Error {
  override name = 'Trouble';
}

/** A case that failed: seed and step, what broke, what led to it, and the call that shows it again. */
export class CaseError extends Error {
  override name = 'CaseError';
  /** Name of the case. */
  readonly caseName: string;
  /** The seed that shows it. */
  readonly seed: number;

  constructor(caseName: string, seed: number, message: string, cause: unknown) {
    super(message, { cause });
    this.caseName = caseName;
    this.seed = seed;
  }
}

/** Most events that a message shows. */
const SHOWN = 30;

/** Remembers what happened last. */
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
