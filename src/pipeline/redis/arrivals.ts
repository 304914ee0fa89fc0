import type { Place } from './wire/entry.js';

/** What is to be done with messages that came. */
export interface Arrival {
  /** So many of them, the first ones, came before. */
  readonly numDoubled: number;
  /** So many messages before them never came. */
  readonly numMissing: number;
}

interface Sender {
  instance: string;
  epoch: number;
  /** The number that is next. */
  next: number;
  heardAt: number;
  /** Former lives of the sender, the latest last: what still comes from them is dropped. */
  readonly former: string[];
}

/** Former lives that are remembered of a sender. */
const MOST_FORMER = 16;
/**
 * Milliseconds after which a silent sender is forgotten. A sender begins anew well before (`REST_MS` of `outbox.ts`), so that it never
 * goes on from a number that is forgotten here.
 */
const FORGET_MS = 3_600_000;

/**
 * Which messages of which sender have come: each counts once, in order.
 *
 * A sender that is not known may have sent to a former process of the receiver's name: then its numbers go on from wherever they are.
 * Nothing is missing by that, since whatever belongs to a request comes behind the request's submission.
 *
 * Invariant: of each sender's present life and epoch, all messages before `next` came, went to a former process, or were reported as
 * missing.
 */
export class Arrivals {
  readonly #senders = new Map<string, Sender>();
  readonly #now: () => number;

  readonly #isFirst: boolean;

  /** @param isFirst whether nobody had the receiver's name before: then numbers begin at 1 */
  constructor(isFirst: boolean, now: () => number) {
    this.#isFirst = isFirst;
    this.#now = now;
  }

  /** Messages have come. @returns null: all of them are of a former life of their sender */
  take({ sender: name, instance, epoch, first }: Place, count: number): Arrival | null {
    const sender = this.#senders.get(name) ?? this.#begin(name, instance, epoch, first);
    if (sender.former.includes(instance)) return null;
    if (sender.instance !== instance) {
      sender.former.push(sender.instance);
      if (sender.former.length > MOST_FORMER) sender.former.shift();
      sender.instance = instance;
      sender.epoch = -1;
    }
    if (epoch < sender.epoch) return null;
    if (epoch > sender.epoch) {
      sender.epoch = epoch;
      sender.next = 1;
    }
    sender.heardAt = this.#now();
    const numDoubled = Math.min(count, Math.max(0, sender.next - first));
    const numMissing = Math.max(0, first - sender.next);
    sender.next = Math.max(sender.next, first + count);
    return { numDoubled, numMissing };
  }

  /** Forgets senders that were silent for long. To be called from time to time. */
  tidy(): void {
    const due = this.#now() - FORGET_MS;
    for (const [name, { heardAt }] of this.#senders) if (heardAt < due) this.#senders.delete(name);
  }

  get size(): number {
    return this.#senders.size;
  }

  #begin(name: string, instance: string, epoch: number, first: number): Sender {
    const next = this.#isFirst ? 1 : first;
    const sender: Sender = { instance, epoch, next, heardAt: this.#now(), former: [] };
    this.#senders.set(name, sender);
    return sender;
  }
}
