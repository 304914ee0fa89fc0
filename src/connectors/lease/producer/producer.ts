import type { KvMemory } from '../../base/kv-memory.js';
import type { Envelope, Question } from '../wire/messages.js';
import { PROTOCOL } from '../wire/messages.js';
import type { Post } from '../wire/post.js';
import type { Staging } from '../wire/staging.js';
import type { Reading } from './grant.js';
import { Granter, type LeaseTimes } from './granter.js';
import { Pieces } from './pieces.js';

/** A peer that has sent its hello. */
interface Session {
  /** Life of the peer. */
  readonly life: string;
  heardAt: number;
}

/** Maximum number of sessions. Beyond it, the session that was silent longest is forgotten. */
const MAX_SESSIONS = 4096;

/** Settings of a `Producer`. */
export interface ProducerOptions {
  readonly memory: KvMemory;
  readonly post: Post;
  readonly staging: Staging;
  readonly rank: number;
  /** Describes the KV memory to readers that may be able to map it; null = no reader can. */
  readonly describe: () => unknown;
  readonly now: () => number;
}

/**
 * The half of a worker that grants leases and answers the questions of peers. Every question gets
 * an answer or is counted. No message of a peer throws.
 */
export class Producer {
  readonly counts = { sessions: 0, refusedPeers: 0, strangers: 0 };
  readonly grants: Granter;
  readonly pieces: Pieces;
  readonly #options: ProducerOptions;
  readonly #sessions = new Map<string, Session>();
  #settings = '';
  /** When the worker next looks for silent peers. */
  #reapAt = Number.NEGATIVE_INFINITY;

  constructor(options: ProducerOptions) {
    this.#options = options;
    this.grants = new Granter({
      opened: (reading, { blocks, fewest, most }) => {
        const { transfer } = reading;
        this.#tell(reading, {
          kind: 'opened',
          transfer,
          blocks: blocks.map((list) => [...list]),
          fewest,
          most,
        });
      },
      closed: (reading, reason) =>
        this.#tell(reading, { kind: 'closed', transfer: reading.transfer, reason }),
      cancelled: (reading, { key }) => this.#tell(reading, { kind: 'cancel', key }),
      unwanted: (grant) => this.pieces.stop(grant),
    });
    this.pieces = new Pieces({
      staging: options.staging,
      grantOf: (asked) => {
        const grant = this.grants.reading(asked.transfer, options.now());
        if (grant === null) this.#tell(asked, closed(asked, 'its lease is over'));
        return grant;
      },
      begun: (grant) => this.grants.beginCopy(grant),
      ended: (grant) => this.grants.endCopy(grant),
      send: ({ peer, life, transfer, at, count }, bytes) =>
        options.post.send(peer, life, { kind: 'data', transfer, at, count }, bytes),
    });
  }

  /** Peers that have a session. */
  get numSessions(): number {
    return this.#sessions.size;
  }

  /** Number of places of the staging arena in use. */
  get staged(): number {
    return this.#options.staging.numUsed;
  }

  /** Takes the settings that the scheduler side sends with every plan. */
  begin(settings: string, leases: LeaseTimes): void {
    this.#settings = settings;
    this.grants.begin(leases);
  }

  /** Handles a question. */
  receive(peer: string, { from, to, message }: Envelope & { readonly message: Question }): void {
    const now = this.#options.now();
    if (message.kind === 'hello') {
      this.#greet(peer, from, message, now);
      return;
    }
    const session = this.#sessions.get(peer);
    if (session?.life !== from || to !== this.#options.post.life) {
      this.counts.strangers++;
      this.#options.post.send(peer, from, { kind: 'stale' });
      return;
    }
    session.heardAt = now;
    switch (message.kind) {
      case 'beat':
        this.#beat(peer, from, message, now);
        break;
      case 'open':
        this.#open({ peer, life: from, transfer: message.transfer }, message, now);
        break;
      case 'fetch':
        this.pieces.receive({ peer, life: from, ...message });
        break;
      case 'confirm':
        this.#confirm({ peer, life: from, transfer: message.transfer }, now);
        break;
      case 'release':
        for (const key of message.keys) this.grants.release(key, from);
        break;
    }
  }

  /** Ends expired leases, and starts pieces that waited for a place. */
  tick(now: number, reapMs: number): void {
    this.grants.expire(now);
    this.#options.staging.drain();
    this.pieces.tick();
    if (now < this.#reapAt) return;
    this.#reapAt = now + reapMs / 4;
    for (const [peer, { heardAt }] of this.#sessions) if (now - heardAt > reapMs) this.#reap(peer);
  }

  /** Tells every peer that this side ends. */
  leave(): void {
    this.grants.endAll('the engine ends');
    for (const [peer, { life }] of this.#sessions) this.#options.post.send(peer, life, { kind: 'bye' });
    this.#sessions.clear();
    this.pieces.clear();
  }

  #greet(peer: string, life: string, hello: Question & { kind: 'hello' }, now: number): void {
    const { post, rank, memory, describe } = this.#options;
    const { number } = hello;
    const reason = differs(hello, { protocol: PROTOCOL, rank, bytesPerBlock: memory.kv.bytesPerBlock });
    if (reason !== null) {
      this.counts.refusedPeers++;
      post.send(peer, life, { kind: 'unwelcome', number, reason });
      return;
    }
    if (this.#sessions.get(peer)?.life !== life) this.counts.sessions++;
    this.#sessions.delete(peer);
    this.#sessions.set(peer, { life, heardAt: now });
    if (this.#sessions.size > MAX_SESSIONS) {
      const [oldest] = this.#sessions.keys();
      this.#reap(oldest);
    }
    post.send(peer, life, { kind: 'welcome', number, arena: describe() });
  }

  #beat(peer: string, life: string, { settings, keys }: Question & { kind: 'beat' }, now: number): void {
    const found = { alive: [] as string[], early: [] as string[], gone: [] as string[] };
    const isOther = this.#isOther(settings);
    for (const key of keys) found[isOther ? 'gone' : this.grants.beat(key, now)].push(key);
    const reason = isOther ? 'the engines have different settings' : 'its lease is over';
    this.#options.post.send(peer, life, { kind: 'beats', ...found, reason });
  }

  #open(reading: Reading, { settings, key }: Question & { kind: 'open' }, now: number): void {
    const isOther = this.#isOther(settings);
    if (isOther) this.#tell(reading, closed(reading, 'the engines have different settings'));
    else this.grants.open(key, reading, now);
  }

  #confirm(reading: Reading, now: number): void {
    const { transfer } = reading;
    const isGood = this.grants.confirm(transfer, now);
    this.#tell(reading, isGood ? { kind: 'confirmed', transfer } : closed(reading, 'its lease is over'));
  }

  #isOther(settings: string): boolean {
    return this.#settings !== '' && settings !== this.#settings;
  }

  #tell({ peer, life }: Reading, message: Parameters<Post['send']>[2]): void {
    this.#options.post.send(peer, life, message);
  }

  #reap(peer: string): void {
    this.#sessions.delete(peer);
    this.#options.post.forget(peer);
  }
}

function closed({ transfer }: Reading, reason: string) {
  return { kind: 'closed', transfer, reason } as const;
}

/** Describes how a peer's hello differs from this side's settings; null = no difference. */
function differs(hello: object, own: Readonly<Record<string, number>>): string | null {
  for (const [name, value] of Object.entries(own)) {
    const theirs = (hello as Record<string, unknown>)[name];
    if (theirs !== value) return `${name} is ${value} here and ${String(theirs)} there`;
  }
  return null;
}
