/**
 * What still uses a request's blocks besides the request itself. The blocks go back exactly when the request has
 * finished and this set is empty: never earlier because one of several completed (vLLM #46240), and never derived
 * from the status.
 *
 * A use is named, never counted: a second report of the same use finds nothing to end.
 */
export class Outstanding {
  /** When each use began, by key, oldest first. */
  readonly #since = new Map<string, number>();
  /** Uses that have ended, so that a second completion is told from a foreign one. */
  readonly #ended = new Set<string>();
  /** Uses that were reported done before they began: `finishedSending` of a request that still runs. */
  readonly #early = new Set<string>();

  get size(): number {
    return this.#since.size;
  }

  /** Registers a use that begins `now`; false if it is registered already. */
  add(kind: OutstandingKind, owner: string, now: number): boolean {
    const key = keyOf(kind, owner);
    if (this.#since.has(key)) return false;
    this.#since.set(key, now);
    this.#ended.delete(key);
    return true;
  }

  /** Ends a use; false if it is not registered. */
  remove(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (!this.#since.delete(key)) return false;
    this.#ended.add(key);
    return true;
  }

  /** Notes that a use is over before it began; false if that is known. */
  addEarly(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (this.#early.has(key)) return false;
    this.#early.add(key);
    return true;
  }

  /** Whether the use was reported done before it began. It counts as ended from then on. */
  takeEarly(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (!this.#early.delete(key)) return false;
    this.#ended.add(key);
    return true;
  }

  has(kind: OutstandingKind, owner: string): boolean {
    return this.#since.has(keyOf(kind, owner));
  }

  /** Whether any use of this kind is registered. */
  hasAny(kind: OutstandingKind): boolean {
    for (const key of this.#since.keys()) if (key.startsWith(`${kind}:`)) return true;
    return false;
  }

  /** Whether any rank of this child, or of any if that is undefined, has a use of this kind registered. */
  hasPeer(kind: OutstandingKind, child: number | undefined): boolean {
    for (const key of this.#since.keys()) {
      if (key.startsWith(`${kind}:`) && isPeer(key.slice(kind.length + 1), child)) return true;
    }
    return false;
  }

  /** Whether the use was registered once and has ended. */
  knew(kind: OutstandingKind, owner: string): boolean {
    return this.#ended.has(keyOf(kind, owner));
  }

  /** Ends every use of this kind whose owner passes. @returns whether there was one */
  removeWhere(kind: OutstandingKind, passes: (owner: string) => boolean): boolean {
    const before = this.#since.size;
    for (const key of [...this.#since.keys()]) {
      const owner = key.slice(kind.length + 1);
      if (key.startsWith(`${kind}:`) && passes(owner)) this.remove(kind, owner);
    }
    return this.#since.size < before;
  }

  /** `kind:owner` of every use, for people. */
  describe(): string[] {
    return [...this.#since.keys()];
  }

  /** Kind, owner and beginning of every use, on the scheduler's clock. */
  uses(): { kind: OutstandingKind; owner: string; since: number }[] {
    return [...this.#since].map(([key, since]) => {
      const colon = key.indexOf(':');
      return { kind: key.slice(0, colon) as OutstandingKind, owner: key.slice(colon + 1), since };
    });
  }
}

/** `load`: a transfer into the blocks; `store`: a transfer out of them; `lease`: a peer may still read them. */
export type OutstandingKind = 'load' | 'store' | 'lease';

export const OUTSTANDING_KINDS: readonly OutstandingKind[] = ['load', 'store', 'lease'];

function keyOf(kind: OutstandingKind, owner: string): string {
  return `${kind}:${owner}`;
}

const PEER = /^child (\d+) rank \d+$/;

/** The owner of what one rank of one child of the connector does. */
export function peer(child: number, rank: number): string {
  return `child ${child} rank ${rank}`;
}

/** Whether an owner is a rank of this child; of any child, if that is undefined. */
export function isPeer(owner: string, child: number | undefined): boolean {
  const match = PEER.exec(owner);
  return match !== null && (child === undefined || Number(match[1]) === child);
}

/** One use of a request's blocks, as `hold` and `complete` name it. */
export interface BlockUse {
  handle: number;
  kind: OutstandingKind;
  owner: string;
}

/** Whether something besides the request uses its blocks, so that taking them would free none. */
export function isUsed({ outstanding }: { readonly outstanding: Outstanding | null }): boolean {
  return outstanding !== null && outstanding.size > 0;
}
