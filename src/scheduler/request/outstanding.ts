/**
 * The uses of a request's blocks besides the request itself. The blocks are freed when the request
 * has finished and no use is left. They are never freed because one of several uses ended (vLLM
 * #46240), and the status of the request never decides it.
 *
 * Each use has a name, its kind and owner, and uses are never merely counted. A second report of
 * the same use finds nothing to end.
 */
export class Outstanding {
  /** When each use that is not over began, by key, oldest first. */
  readonly #since = new Map<string, number>();
  /**
   * Keys of uses that have ended. They distinguish a second completion of a use from the completion
   * of an unknown one.
   */
  readonly #ended = new Set<string>();
  /** Keys of uses that were reported done before they began: `finishedSending` of a request that still runs. */
  readonly #early = new Set<string>();

  /** Uses that are not over. */
  get size(): number {
    return this.#since.size;
  }

  /** Registers a use that begins at time `now`. @returns false if the use is registered already */
  add(kind: OutstandingKind, owner: string, now: number): boolean {
    const key = keyOf(kind, owner);
    if (this.#since.has(key)) return false;
    this.#since.set(key, now);
    this.#ended.delete(key);
    return true;
  }

  /** Ends a use. @returns false if the use is not registered */
  remove(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (!this.#since.delete(key)) return false;
    this.#ended.add(key);
    return true;
  }

  /** Notes that a use was reported done before it began. @returns false if that is noted already */
  addEarly(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (this.#early.has(key)) return false;
    this.#early.add(key);
    return true;
  }

  /**
   * Whether a use was reported done before it began. If so, the use counts as ended from then on, and the note is
   * gone.
   */
  endEarly(kind: OutstandingKind, owner: string): boolean {
    const key = keyOf(kind, owner);
    if (!this.#early.delete(key)) return false;
    this.#ended.add(key);
    return true;
  }

  /** Whether the use is registered and not over. */
  has(kind: OutstandingKind, owner: string): boolean {
    return this.#since.has(keyOf(kind, owner));
  }

  /** Whether any use of this kind is registered. */
  hasAny(kind: OutstandingKind): boolean {
    for (const key of this.#since.keys()) if (key.startsWith(`${kind}:`)) return true;
    return false;
  }

  /** Whether any rank of this child (of any child, if undefined) has a use of this kind that is not over. */
  hasPeer(kind: OutstandingKind, child: number | undefined): boolean {
    for (const key of this.#since.keys()) {
      if (key.startsWith(`${kind}:`) && isPeer(key.slice(kind.length + 1), child)) return true;
    }
    return false;
  }

  /** Whether the use was registered and has ended. */
  knew(kind: OutstandingKind, owner: string): boolean {
    return this.#ended.has(keyOf(kind, owner));
  }

  /** Ends every use of this kind whose owner passes. @returns whether a use was ended */
  removeWhere(kind: OutstandingKind, passes: (owner: string) => boolean): boolean {
    const before = this.#since.size;
    for (const key of [...this.#since.keys()]) {
      const owner = key.slice(kind.length + 1);
      if (key.startsWith(`${kind}:`) && passes(owner)) this.remove(kind, owner);
    }
    return this.#since.size < before;
  }

  /** `kind:owner` of every use that is not over, for people. */
  describe(): string[] {
    return [...this.#since.keys()];
  }

  /**
   * Kind, owner and beginning of every use that is not over. `since` is in milliseconds of the scheduler's clock.
   */
  uses(): { kind: OutstandingKind; owner: string; since: number }[] {
    return [...this.#since].map(([key, since]) => {
      const colon = key.indexOf(':');
      return { kind: key.slice(0, colon) as OutstandingKind, owner: key.slice(colon + 1), since };
    });
  }
}

/**
 * The kinds of uses. `load`: a transfer into the blocks. `store`: a transfer out of them. `lease`:
 * a peer may still read them.
 */
export type OutstandingKind = 'load' | 'store' | 'lease';

/** Every kind of use. */
export const OUTSTANDING_KINDS: readonly OutstandingKind[] = ['load', 'store', 'lease'];

function keyOf(kind: OutstandingKind, owner: string): string {
  return `${kind}:${owner}`;
}

const PEER = /^child (\d+) rank \d+$/;

/** The owner of a use that belongs to one rank of one child of the connector. */
export function peer(child: number, rank: number): string {
  return `child ${child} rank ${rank}`;
}

/** Whether the owner of a use is a rank of this child (of any child, if undefined). */
export function isPeer(owner: string, child: number | undefined): boolean {
  const match = PEER.exec(owner);
  return match !== null && (child === undefined || Number(match[1]) === child);
}

/** One use of a request's blocks, as `Scheduler.hold` and `Scheduler.complete` name it. */
export interface BlockUse {
  /** Handle of the request whose blocks are used. */
  handle: number;
  /** Whether the blocks are written (`load`), read (`store`), or may be read by a peer (`lease`). */
  kind: OutstandingKind;
  /** Names the use among those of its kind, for instance by the job of a transfer. */
  owner: string;
}

/**
 * Whether something besides the request uses its blocks. Taking the blocks from the request would then free none of
 * them.
 */
export function isUsed({ outstanding }: { readonly outstanding: Outstanding | null }): boolean {
  return outstanding !== null && outstanding.size > 0;
}
