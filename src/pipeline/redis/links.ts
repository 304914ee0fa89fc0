/** All that one party has sent to another one since it began, or began anew. */
export interface Link {
  readonly to: string;
  /** The receiver's inbox on the server. */
  readonly key: string;
  /** Whether the receiver's inbox is made where there is none: it is a stage, which may come later. */
  readonly isKept: boolean;
  readonly epoch: number;
  /** Number of the next message. */
  next: number;
  /** Messages that wait for the server's answer, or for their turn. */
  numWaiting: number;
  usedAt: number;
  /** When the time to live of the receiver's inbox is begun again. */
  renewAt: number;
}

/** Milliseconds after which a link that was not used begins anew: its receiver may have forgotten it (`FORGET_MS` of `arrivals.ts`). */
const REST_MS = 1_800_000;

/**
 * The links of one party, by receiver. A receiver that went away and came back gets a new link, with a new epoch.
 *
 * Invariant: `#behind` has the links whose receivers are to be told the number of the last message, since some may not have come.
 */
export class Links {
  readonly #prefix: string;
  readonly #now: () => number;
  readonly #links = new Map<string, Link>();
  readonly #behind = new Set<Link>();
  #epoch = 0;

  /** @param prefix of all keys */
  constructor(prefix: string, now: () => number) {
    this.#prefix = prefix;
    this.#now = now;
  }

  /** The link to a receiver; a new one if there is none. */
  to(name: string): Link {
    let link = this.#links.get(name);
    if (link === undefined) {
      link = {
        ...{
          to: name,
          key: this.#prefix + name,
          isKept: name.startsWith('stage/'),
          epoch: ++this.#epoch,
          next: 1,
        },
        ...{ numWaiting: 0, usedAt: this.#now(), renewAt: Number.NEGATIVE_INFINITY },
      };
      this.#links.set(name, link);
    }
    return link;
  }

  /** A message is about to wait for its turn. @returns its number */
  number(link: Link): number {
    link.usedAt = this.#now();
    link.numWaiting++;
    this.#behind.delete(link);
    return link.next++;
  }

  /** A message does not go out: it has a number all the same, so that the receiver sees what is missing. */
  skip(link: Link): void {
    link.next++;
    this.#behind.add(link);
  }

  /** What was sent may not have come, on every link. */
  doubtAll(): void {
    for (const link of this.#links.values()) this.#behind.add(link);
  }

  /** One of the links whose receivers are to be told the last number. */
  get behind(): Link | undefined {
    const [link] = this.#behind;
    return link;
  }

  /** The receiver has gone. */
  drop(link: Link): void {
    this.#behind.delete(link);
    if (this.#links.get(link.to) === link) this.#links.delete(link.to);
  }

  /** Forgets links that were not used for long. */
  tidy(): void {
    const due = this.#now() - REST_MS;
    for (const link of this.#links.values()) if (link.usedAt < due && link.numWaiting === 0) this.drop(link);
  }
}
