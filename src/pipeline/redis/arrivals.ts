import type { Place } from './wire/entry.js';

/** How the receiver must handle arriving messages. */
export interface Arrival {
  /** Number of leading messages that arrived before. */
  readonly numDoubled: number;
  /** Number of earlier messages that never arrived. */
  readonly numMissing: number;
}

interface Sender {
  instance: string;
  epoch: number;
  /** The next expected number. */
  next: number;
  heardAt: number;
  /** Former lives of the sender, the latest last. Messages from them are dropped. */
  readonly former: string[];
}

/** Number of former lives that are remembered for a sender. */
const MOST_FORMER = 16;
/**
 * Milliseconds after which a silent sender is forgotten. A sender begins a new epoch well before
 * (`REST_MS` of `outbox.ts`), so it never continues from a number that is forgotten here.
 */
const FORGET_MS = 3_600_000;

/**
 * Tracks which messages of each sender have arrived. Each message counts once, in order.
 *
 * An unknown sender may have sent messages to a former process of the receiver's name. Its numbers
 * then continue from any value. No message is missing in that case, because all messages of a
 * request follow the request's submission.
 *
 * Invariant: of each sender's present life and epoch, all messages before `next` arrived, went to a
 * former process, or were reported as missing.
 */
export class Arrivals {
  readonly #senders = new Map<string, Sender>();
  readonly #now: () => number;

  readonly #isFirst: boolean;

  /**
   * @param isFirst whether no process had the receiver's name before, so that numbers begin at 1
   */
  constructor(isFirst: boolean, now: () => number) {
    this.#isFirst = isFirst;
    this.#now = now;
  }

  /** Messages have arrived. @returns null: all of them are from a former life of their sender */
  receive({ sender: name, instance, epoch, first }: Place, count: number): Arrival | null {
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

  /** Forgets senders that were silent for long. Call it from time to time. */
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
