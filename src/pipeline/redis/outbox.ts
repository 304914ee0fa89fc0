import type { Redis } from 'iovalkey';
import { Deferred } from '../../base/deferred.js';
import { describeError } from '../../base/errors.js';
import type { PipelineMessage } from '../transport/messages.js';
import { type Client, inTime, Line } from './line.js';
import { type Link, Links } from './links.js';
import { addCommands, drainLetters, type Letter, type Parcel, packLetters, splitParcel } from './parcels.js';
import type { RedisTransportSettings } from './redis-options.js';
import { makeMark } from './wire/entry.js';
import { toWire } from './wire/message-parts.js';
import type { Packer } from './wire/packer.js';

/** Maximum number of bundles under way without an answer. */
const MOST_BUNDLES = 4;
/**
 * After this many connections broke in a row without an answered parcel, only one parcel is sent at
 * a time.
 */
const FEW_BREAKS = 2;
/** After this many, the single parcel is considered the cause. */
const MOST_BREAKS = 4;
/** Errors of the server that concern only this message. */
const HOPELESS = /^(WRONGTYPE|ERR (?!Protocol))/;
/** An error that a server may send before it closes a connection. */
const REFUSAL = /^ERR Protocol/;

/** Options of an `Outbox`. */
export interface OutboxParts {
  readonly name: string;
  readonly instance: string;
  readonly client: Client;
  readonly packer: Packer;
  readonly settings: RedisTransportSettings;
  readonly now: () => number;
}

/**
 * The outgoing messages of a party. Messages wait here until the server has accepted them, up to a
 * limit, and are sent in order. Messages that the server may not have accepted are sent again; the
 * receiver drops duplicates.
 *
 * Invariants: `#parcels` has the unanswered parcels, which precede everything in `#letters`. Each
 * sendable message has a number, whether it is sent or not, so that the receiver sees gaps.
 */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #line: Line;
  readonly #mark: Uint8Array;
  readonly #links: Links;
  #letters: Letter[] = [];
  #parcels: Parcel[] = [];
  #redis: Redis | null = null;
  #failed: Deferred<void> | null = null;
  #numBundles = 0;
  /** Number of connections that broke since a parcel was answered. */
  #numBreaks = 0;
  #isDue = false;
  #isOpen = false;
  #isClosing = false;
  #whenEmpty: (() => void) | null = null;
  readonly counts = { sent: 0, dropped: 0, unsendable: 0, undeliverable: 0, queued: 0, queuedBytes: 0 };
  #lastRefusal: string | null = null;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.#mark = makeMark(parts.packer);
    this.#links = new Links(parts.settings.prefix, parts.now);
    this.#line = new Line(parts.client, parts.settings, (redis) => this.#use(redis));
  }

  get line(): Line {
    return this.#line;
  }

  /** Why the last unsendable message could not be sent; null: there was none. */
  get lastRefusal(): string | null {
    return this.#lastRefusal;
  }

  /** Begins to send the waiting messages. */
  open(): void {
    this.#isOpen = true;
    this.#pump();
  }

  /** Queues a message. @returns null, or why it can never be sent; it then has no number */
  send(to: string, message: PipelineMessage): string | null {
    if (this.#isClosing) {
      this.counts.dropped++;
      return null;
    }
    const { packer, settings } = this.#parts;
    const { maxQueuedMessages, maxQueuedBytes, maxMessageBytes } = settings;
    let bytes: Uint8Array;
    try {
      bytes = packer.pack(toWire(message));
      if (bytes.length > maxMessageBytes)
        throw new Error(`${bytes.length} bytes are more than maxMessageBytes`);
    } catch (error) {
      this.counts.unsendable++;
      const why = describeError(error);
      this.#lastRefusal = `${message.kind} to ${to}: ${why}`;
      return why;
    }
    const link = this.#links.to(to);
    const { queued, queuedBytes } = this.counts;
    if (queued >= maxQueuedMessages || queuedBytes + bytes.length > maxQueuedBytes) {
      this.counts.dropped++;
      this.#miss(link);
    } else this.#push(link, bytes);
    return null;
  }

  /** Renews the time to live of a party's own inbox. Best effort. */
  renew(key: string): void {
    this.#redis?.pexpire(key, this.#parts.settings.ttlMs).catch(() => {});
  }

  /** Forgets unused state. Call it from time to time. */
  tidy(): void {
    this.#links.tidy();
  }

  /**
   * Sends waiting messages for at most `closeMs`. Then removes `key` from the server, if given, and
   * closes the line.
   */
  async close(key: string | null): Promise<void> {
    const { closeMs, commandTimeoutMs } = this.#parts.settings;
    this.#isClosing = true;
    if (this.counts.queued > 0) await this.#untilEmpty(closeMs);
    this.counts.dropped += this.counts.queued;
    const redis = this.#redis;
    if (redis !== null && key !== null) await inTime(redis.unlink(key), commandTimeoutMs).catch(() => {});
    this.#line.close();
    this.#failed?.resolve();
    await this.#line.over;
  }

  /** Drops all waiting messages, and accepts no more. */
  discard(): void {
    this.#isClosing = true;
    this.counts.dropped += this.counts.queued;
    // Nobody waits for the server's further answers.
    this.#redis = null;
    this.#letters = [];
    this.#parcels = [];
    this.counts.queued = 0;
    this.counts.queuedBytes = 0;
  }

  #untilEmpty(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#whenEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /**
   * A message will not be sent. The number of the next message tells the receiver; without a next
   * message, a mark is sent.
   */
  #miss(link: Link): void {
    this.#links.skip(link);
    this.#schedule();
  }

  #push(link: Link, bytes: Uint8Array): void {
    this.#letters.push({ link, number: this.#links.number(link), bytes });
    this.counts.queued++;
    this.counts.queuedBytes += bytes.length;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#pump();
    });
  }

  /**
   * Uses a connection until it fails. It first repeats the parcels that the previous connection may
   * not have delivered.
   */
  async #use(redis: Redis): Promise<void> {
    const failed = new Deferred<void>();
    this.#failed = failed;
    this.#redis = redis;
    redis.once('close', () => failed.reject(new Error('the connection was closed')));
    this.#numBundles = 0;
    this.#postAgain(redis);
    // A restarted server may have lost accepted messages. The numbers show it.
    if (this.#line.numConnections > 1) this.#links.doubtAll();
    this.#pump();
    try {
      await failed.promise;
    } catch (error) {
      if (redis.status !== 'ready' || REFUSAL.test(describeError(error))) this.#broke();
      throw error;
    } finally {
      this.#redis = null;
    }
  }

  /** Whether only one parcel is sent at a time. */
  get #isCareful(): boolean {
    return this.#numBreaks >= FEW_BREAKS && this.#parcels.length > 0;
  }

  /**
   * A connection was closed. A server may refuse a message in this way, for instance because it is
   * too large. Such a message must not be repeated forever.
   */
  #broke(): void {
    const at = this.#parcels.findIndex(({ isSent }) => !isSent);
    if (at < 0 || ++this.#numBreaks < MOST_BREAKS) return;
    const parcel = this.#parcels[at];
    this.#numBreaks = FEW_BREAKS;
    if (parcel.letters.length > 1) this.#parcels.splice(at, 1, ...splitParcel(parcel, this.#parts));
    else this.#refused(parcel, `${MOST_BREAKS} connections broke over it`);
  }

  /** Sends the parcels that the previous connection may not have delivered. */
  #postAgain(redis: Redis): void {
    this.#parcels = this.#parcels.filter(({ isSent }) => !isSent);
    const again = this.#isCareful ? this.#parcels.slice(0, 1) : [...this.#parcels];
    if (again.length > 0) void this.#post(redis, again);
  }

  #pump(): void {
    const redis = this.#redis;
    while (this.#isOpen && redis !== null && this.#redis === redis && this.#numBundles < MOST_BUNDLES) {
      if (this.#isCareful) return;
      this.#addMarks();
      if (this.#letters.length === 0) return;
      const parcels = packLetters(drainLetters(this.#letters), this.#parts);
      this.#parcels.push(...parcels);
      void this.#post(redis, parcels);
    }
  }

  #addMarks(): void {
    const { maxQueuedMessages } = this.#parts.settings;
    while (!this.#isClosing && this.counts.queued < maxQueuedMessages) {
      const link = this.#links.behind;
      if (link === undefined) return;
      this.#push(link, this.#mark);
    }
  }

  async #post(redis: Redis, parcels: readonly Parcel[]): Promise<void> {
    this.#numBundles++;
    const commands = redis.pipeline();
    /** Places of the replies to the parcels. */
    const places = parcels.map((parcel) => addCommands(commands, parcel, this.#parts));
    try {
      const replies = await inTime(commands.exec(), this.#parts.settings.commandTimeoutMs);
      if (this.#redis !== redis || replies === null) return;
      const wasAlone = this.#isCareful;
      for (const [i, place] of places.entries()) this.#answered(parcels[i], replies[place]);
      this.#parcels = this.#parcels.filter(({ isSent }) => !isSent);
      this.#numBundles--;
      if (wasAlone) this.#postAgain(redis);
      if (this.counts.queued === 0) this.#whenEmpty?.();
      this.#pump();
    } catch (error) {
      if (this.#redis === redis) this.#failed?.reject(error);
    }
  }

  /** @throws if the connection must be closed and the parcel sent again */
  #answered(parcel: Parcel, [error, id]: readonly [Error | null, unknown]): void {
    if (error !== null) {
      if (!HOPELESS.test(error.message)) throw error;
      this.#refused(parcel, error.message);
      return;
    }
    this.#settle(parcel);
    const { link, letters } = parcel;
    const now = this.#parts.now();
    if (now >= link.renewAt) link.renewAt = now + this.#parts.settings.ttlMs / 3;
    if (id !== null) {
      this.counts.sent += letters.length;
      return;
    }
    // The receiver has gone, or its inbox was removed; a receiver notices this itself. If it comes
    // back, the link begins a new epoch.
    this.counts.undeliverable += letters.length;
    this.#links.drop(link);
  }

  /** The number of the next message tells the receiver that this one is missing. */
  #refused(parcel: Parcel, why: string): void {
    this.#settle(parcel);
    this.counts.unsendable += parcel.letters.length;
    this.#lastRefusal = `to ${parcel.link.to}: ${why}`;
  }

  #settle(parcel: Parcel): void {
    const { link, letters, size } = parcel;
    parcel.isSent = true;
    this.#numBreaks = 0;
    link.numWaiting -= letters.length;
    this.counts.queued -= letters.length;
    this.counts.queuedBytes -= size;
  }
}
