import type { Redis } from 'iovalkey';
import type { Mailbox } from '../transport/transport.js';
import { Arrivals } from './arrivals.js';
import { inTime, Line } from './line.js';
import type { OutboxParts } from './outbox.js';
import { type Entry, readEntry } from './wire/entry.js';

/** Options of an `Inbox`. */
export interface InboxParts extends OutboxParts {
  /** The stream's name on the server. */
  readonly key: string;
  readonly mailbox: Mailbox;
}

/** An entry of a stream as the server returns it: its id, and its fields; null: it was removed. */
type StreamEntry = readonly [Buffer, readonly Buffer[] | null];

/** Number of entries that are read at once. */
const MOST_ENTRIES = 64;
/** Milliseconds that a read waits on the server for a new entry. */
const BLOCK_MS = 2000;

/**
 * Prepares the inbox atomically: the group of this process, and the stream if missing. Groups are
 * named after lives of the party, so only the latest life reads. A new life claims the inbox.
 * Entries that its predecessor had and did not acknowledge are removed, because that process's
 * requests are dead. Undelivered entries are left for the new life.
 *
 * KEYS: the stream. ARGV: the group, the time to live, 1 for a new life, and the maximum number of
 * a reader's entries. Returns what was found, and how much was removed.
 */
const CLAIM_SCRIPT = `
local key, own, ttl, isNew, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local removed = 0
if redis.call('EXISTS', key) == 1 then
  for _, facts in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local name
    for i = 1, #facts, 2 do
      if facts[i] == 'name' then name = facts[i + 1] end
    end
    if name == own then return {'own', 0} end
    if isNew == '0' then return {'taken', 0} end
    for _, each in ipairs(redis.call('XPENDING', key, name, '-', '+', most)) do
      removed = removed + redis.call('XDEL', key, each[1])
    end
    redis.call('XGROUP', 'DESTROY', key, name)
  end
end
redis.call('XGROUP', 'CREATE', key, own, '0', 'MKSTREAM')
redis.call('PEXPIRE', key, ttl)
return {'new', removed}
`;

/**
 * The messages to a party: a stream on the server, which only this process reads, through its own
 * group. Messages handed to the mailbox are acknowledged and removed with the next read. The stream
 * therefore has little more than the unread messages.
 */
export class Inbox {
  readonly #parts: InboxParts;
  readonly #arrivals: Arrivals;
  readonly #line: Line;
  #isNew = true;
  #isReplaced = false;
  readonly #whenReady: () => void;
  readonly #whenReplaced: () => void;
  readonly counts = { received: 0, doubled: 0, missing: 0, stale: 0, foreign: 0, inherited: 0, losses: 0 };

  /**
   * @param whenReady called when the inbox exists; before that, nobody could answer this party
   * @param whenReplaced called when another process has joined under the same name
   */
  constructor(parts: InboxParts, whenReady: () => void, whenReplaced: () => void) {
    this.#parts = parts;
    this.#whenReady = whenReady;
    this.#whenReplaced = whenReplaced;
    this.#arrivals = new Arrivals(!parts.name.startsWith('stage/'), parts.now);
    this.#line = new Line(parts.client, parts.settings, (redis) => this.#use(redis));
  }

  get line(): Line {
    return this.#line;
  }

  /** Whether another process has since joined under the same name. */
  get isReplaced(): boolean {
    return this.#isReplaced;
  }

  /** Forgets unused state. Call it from time to time. */
  tidy(): void {
    this.#arrivals.tidy();
  }

  /** Stops reading. */
  async close(): Promise<void> {
    this.#line.close();
    await this.#line.over;
  }

  async #use(redis: Redis): Promise<void> {
    await this.#claim(redis);
    // The first read returns entries that this process received before the connection broke, and
    // did not acknowledge.
    let acknowledged: readonly Buffer[] = [];
    let isRest = true;
    for (;;) {
      const entries = await this.#read(redis, isRest ? '0' : '>', acknowledged);
      isRest &&= entries.length > 0;
      for (const [, fields] of entries) if (fields !== null) this.#open(fields);
      acknowledged = entries.map(([id]) => id);
    }
  }

  /**
   * Makes the group, or checks that it exists. A replaced party's line is closed, so its further
   * calls fail.
   */
  async #claim(redis: Redis): Promise<void> {
    const { key, instance, settings, name, mailbox } = this.#parts;
    const { ttlMs, commandTimeoutMs } = settings;
    const answer = redis.eval(CLAIM_SCRIPT, 1, key, instance, ttlMs, this.#isNew ? 1 : 0, MOST_ENTRIES);
    const [found, removed] = (await inTime(answer, commandTimeoutMs)) as [string, number];
    this.counts.inherited += removed;
    if (found === 'taken') {
      this.#isReplaced = true;
      this.#whenReplaced();
      mailbox.lost(null, `another process has joined as ${name}`);
      this.#line.close();
    } else if (found === 'new' && !this.#isNew) {
      this.counts.losses++;
      mailbox.lost(null, 'the server has lost what was sent: it was started anew, or emptied');
    }
    if (this.#isNew) this.#whenReady();
    this.#isNew = false;
  }

  /**
   * Acknowledges and removes entries, and reads further ones.
   * @param from `>`: undelivered entries; `0`: entries that this process received and did not
   * acknowledge
   * @returns none if no entry came, or if the group was gone. The group is then made again
   */
  async #read(redis: Redis, from: '>' | '0', done: readonly Buffer[]): Promise<readonly StreamEntry[]> {
    const { key, instance, settings } = this.#parts;
    const commands = redis.pipeline();
    if (done.length > 0) commands.xack(key, instance, ...done).xdel(key, ...done);
    const wait = from === '>' ? ['BLOCK', BLOCK_MS] : [];
    const place = ['STREAMS', key, from];
    commands.callBuffer('XREADGROUP', 'GROUP', instance, 'reader', 'COUNT', MOST_ENTRIES, ...wait, ...place);
    const replies = await inTime(commands.exec(), BLOCK_MS + settings.commandTimeoutMs);
    const [error, reply] = replies?.at(-1) ?? [new Error('no reply'), null];
    if (error !== null && !/^(NOGROUP|UNBLOCKED)/.test(error.message)) throw error;
    if (error !== null) await this.#claim(redis);
    const [stream] = (reply as readonly (readonly [Buffer, readonly StreamEntry[]])[] | null) ?? [];
    return stream?.[1] ?? [];
  }

  /** Handles an entry. @param fields one field: a name that is ignored, and its value */
  #open([_name, value]: readonly Buffer[]): void {
    const entry = readEntry(value, this.#parts.packer);
    if (entry === null) this.counts.foreign++;
    else this.#deliver(entry);
  }

  #deliver(entry: Entry): void {
    const { mailbox } = this.#parts;
    const arrival = this.#arrivals.receive(entry, entry.messages.length);
    if (arrival === null) {
      this.counts.stale += entry.messages.length;
      return;
    }
    const { numDoubled, numMissing } = arrival;
    this.counts.doubled += numDoubled;
    if (numMissing > 0) {
      this.counts.missing += numMissing;
      this.counts.losses++;
      mailbox.lost(entry.sender, `${numMissing} messages of ${entry.sender} did not come`);
    }
    this.counts.foreign += entry.numForeign;
    for (const message of entry.messages.slice(numDoubled)) {
      if (message === null) continue;
      this.counts.received++;
      mailbox.receive(message);
    }
  }
}
