/**
 * What still uses a request's blocks besides the request itself. The blocks go back exactly when the request has
 * finished and this set is empty: never earlier because one of several completed (vLLM #46240), and never derived
 * from the status.
 */
export class Outstanding {
  readonly #keys = new Set<string>();
  /** Uses that have ended, so that a second completion is told from a foreign one. */
  readonly #ended = new Set<string>();

  get size(): number {
    return this.#keys.size;
  }

  /** Registers a use; false if it is registered already. */
  add(kind: OutstandingKind, owner: string): boolean {
    const key = `${kind}:${owner}`;
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    return true;
  }

  /** Ends a use; false if it is not registered. */
  remove(kind: OutstandingKind, owner: string): boolean {
    const key = `${kind}:${owner}`;
    if (!this.#keys.delete(key)) return false;
    this.#ended.add(key);
    return true;
  }

  /** Whether the use was registered once and has ended. */
  knew(kind: OutstandingKind, owner: string): boolean {
    return this.#ended.has(`${kind}:${owner}`);
  }

  /** `kind:owner` of every use, for people. */
  describe(): string[] {
    return [...this.#keys];
  }
}

/** `load`: a transfer into the blocks; `store`: a transfer out of them; `lease`: a peer may still read them. */
export type OutstandingKind = 'load' | 'store' | 'lease';

export const OUTSTANDING_KINDS: readonly OutstandingKind[] = ['load', 'store', 'lease'];
