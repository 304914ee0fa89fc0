/** The state of all messages from one party to another one in one epoch. */
export interface Link {
  readonly to: string;
  /** The receiver's inbox on the server. */
  readonly key: string;
  /**
   * Whether the receiver's inbox is created if missing. This is so for a stage, which may come
   * later.
   */
  readonly isKept: boolean;
  readonly epoch: number;
  /** Number of the next message. */
  next: number;
  /** Number of messages that wait for the server's answer, or to be sent. */
  numWaiting: number;
  usedAt: number;
  /** When the time to live of the receiver's inbox must be renewed. */
  renewAt: number;
}

/**
 * Milliseconds after which an unused link begins a new epoch. Its receiver may have forgotten it
 * (`FORGET_MS` of `arrivals.ts`).
 */
const REST_MS = 1_800_000;

/**
 * The links of one party, by receiver. A receiver that went away and came back gets a new link,
 * with a new epoch.
 *
 * Invariant: `#behind` has the links whose receivers must get the number of the last message,
 * because messages may be missing.
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

  /** Returns the link to a receiver; a new one if there is none. */
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

  /** Gives a queued message its number. @returns the number */
  number(link: Link): number {
    link.usedAt = this.#now();
    link.numWaiting++;
    this.#behind.delete(link);
    return link.next++;
  }

  /** A message will not be sent. It keeps its number, so that the receiver sees the gap. */
  skip(link: Link): void {
    link.next++;
    this.#behind.add(link);
  }

  /** Messages sent on any link may not have arrived. */
  doubtAll(): void {
    for (const link of this.#links.values()) this.#behind.add(link);
  }

  /** One of the links whose receivers must get the last number. */
  get behind(): Link | undefined {
    const [link] = this.#behind;
    return link;
  }

  /** The receiver has gone. */
  drop(link: Link): void {
    this.#behind.delete(link);
    if (this.#links.get(link.to) === link) this.#links.delete(link.to);
  }

  /** Forgets links that were unused for long. */
  tidy(): void {
    const due = this.#now() - REST_MS;
    for (const link of this.#links.values()) if (link.usedAt < due && link.numWaiting === 0) this.drop(link);
  }
}
