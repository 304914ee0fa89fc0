import type { Redis } from 'iovalkey';
import { Deferred } from '../../base/deferred.js';
import { describeError } from '../../base/errors.js';
import type { PipelineMessage } from '../transport/messages.js';
import { type Client, inTime, Line } from './line.js';
import { type Link, Links } from './links.js';
import { addCommands, type Letter, type Parcel, packLetters, splitParcel, takeLetters } from './parcels.js';
import type { RedisTransportSettings } from './redis-options.js';
import { makeMark } from './wire/entry.js';
import { toWire } from './wire/message-parts.js';
import type { Packer } from './wire/packer.js';

/** So many bundles go out before the first is answered. */
const MOST_BUNDLES = 4;
/** So many connections in a row may break before a parcel is answered: from then on one goes out alone. */
const FEW_BREAKS = 2;
/** After so many the parcel that goes out alone is what they break over. */
const MOST_BREAKS = 4;
/** Errors of the server that are about this message alone. */
const HOPELESS = /^(WRONGTYPE|ERR (?!Protocol))/;
/** What a server may say before it closes a connection. */
const REFUSAL = /^ERR Protocol/;

/** What an outbox is made of. */
export interface OutboxParts {
  readonly name: string;
  readonly instance: string;
  readonly client: Client;
  readonly packer: Packer;
  readonly settings: RedisTransportSettings;
  readonly now: () => number;
}

/**
 * What a party sends. Messages wait here until the server has taken them, at most a stated number of them, and go out in order. What
 * the server may not have taken is sent again; the receiver drops what it has.
 *
 * Invariants: `#parcels` has what was sent and is not answered, before everything in `#letters`; each message that can be sent has a
 * number, whether it goes out or not, so that the receiver sees what is missing.
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
  /** Connections that broke since a parcel was answered. */
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

  /** Why a message could not be sent, in words; null: none. */
  get lastRefusal(): string | null {
    return this.#lastRefusal;
  }

  /** Begins to send what waits. */
  open(): void {
    this.#isOpen = true;
    this.#pump();
  }

  /** Takes a message, which goes out when it is its turn. @returns why it never can, in words: it has no number then; or null */
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

  /** Begins the time to live of a party's own inbox again. Best effort. */
  renew(key: string): void {
    this.#redis?.pexpire(key, this.#parts.settings.ttlMs).catch(() => {});
  }

  /** Forgets what was not used for long. To be called from time to time. */
  tidy(): void {
    this.#links.tidy();
  }

  /** Sends what waits, for at most `closeMs`; then, if `key` is given, removes it from the server, and closes the line. */
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

  /** Drops what waits, and takes nothing more. */
  discard(): void {
    this.#isClosing = true;
    this.counts.dropped += this.counts.queued;
    // What the server still answers is for nobody.
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

  /** A message does not go out. The receiver learns it by the number of the next one, which is a mark if nothing else comes. */
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

  /** Uses a connection until it fails: first of all what the one before may not have brought to the server. */
  async #use(redis: Redis): Promise<void> {
    const failed = new Deferred<void>();
    this.#failed = failed;
    this.#redis = redis;
    redis.once('close', () => failed.reject(new Error('the connection was closed')));
    this.#numBundles = 0;
    this.#postAgain(redis);
    // What the server had taken may have gone with it: the numbers tell.
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

  /** Whether one parcel goes out alone. */
  get #isCareful(): boolean {
    return this.#numBreaks >= FEW_BREAKS && this.#parcels.length > 0;
  }

  /**
   * A connection was closed. Where a server refuses a message so, as one that is too large for it, and comes back for every connection,
   * that message must not be sent for ever.
   */
  #broke(): void {
    const at = this.#parcels.findIndex(({ isSent }) => !isSent);
    if (at < 0 || ++this.#numBreaks < MOST_BREAKS) return;
    const parcel = this.#parcels[at];
    this.#numBreaks = FEW_BREAKS;
    if (parcel.letters.length > 1) this.#parcels.splice(at, 1, ...splitParcel(parcel, this.#parts));
    else this.#refused(parcel, `${MOST_BREAKS} connections broke over it`);
  }

  /** Sends what the connection before may not have brought to the server. */
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
      const parcels = packLetters(takeLetters(this.#letters), this.#parts);
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

  /** @throws if the connection is to be given up, and the parcel sent again */
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
    // The receiver has gone, or its inbox was removed, which it sees itself. If it comes back the link begins anew.
    this.counts.undeliverable += letters.length;
    this.#links.drop(link);
  }

  /** Its receiver learns by the number of the next message that it is missing. */
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
