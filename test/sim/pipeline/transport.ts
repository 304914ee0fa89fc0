// Messages that come late, never, twice, in any order, or long afterwards.
import type { PipelineMessage } from '../../../src/pipeline/transport/messages.js';
import type { Connection, Mailbox, Transport } from '../../../src/pipeline/transport/transport.js';
import { ChunkAudit } from './chunk-audit.js';
import type { World } from './world.js';

interface Letter {
  readonly from: string;
  readonly to: string;
  readonly message: PipelineMessage;
  /** When it arrives, in milliseconds. */
  readonly at: number;
  /** Breaks ties: the order in which letters were sent. */
  readonly order: number;
}

/** Letters from long ago that are kept, to come again. */
const KEPT_GHOSTS = 60;

/**
 * Carries messages late, never, twice, in the wrong order and long afterwards, by the seed. In a
 * quiet run it keeps its promise.
 */
export class HostileTransport implements Transport {
  readonly isLocal = false;
  readonly audit: ChunkAudit;
  readonly #world: World;
  readonly #parties = new Map<string, { readonly mailbox: Mailbox; isHere: boolean }>();
  /** In the order of their arrival. */
  readonly #letters: Letter[] = [];
  readonly #ghosts: Letter[] = [];
  /** When the last letter of each pair arrives: the next one comes behind it. */
  readonly #last = new Map<string, number>();
  /** Parties that read nothing now. */
  readonly deaf = new Set<string>();
  #order = 0;

  constructor(world: World) {
    this.#world = world;
    this.audit = new ChunkAudit(world);
  }

  join(name: string, mailbox: Mailbox): Connection {
    if (this.#parties.has(name)) throw new Error(`${name} has joined already`);
    const party = { mailbox, isHere: true };
    this.#parties.set(name, party);
    return {
      send: (to, message) => {
        if (party.isHere) this.#post(name, to, message);
        return null;
      },
      close: () => {
        if (party.isHere) this.cut(name);
        return Promise.resolve();
      },
    };
  }

  /** A party dies silently; its later messages are not delivered. */
  cut(name: string): void {
    const party = this.#parties.get(name);
    if (party !== undefined) party.isHere = false;
    this.#parties.delete(name);
  }

  /** The party that joined last. */
  get newest(): string {
    return [...this.#parties.keys()].at(-1) as string;
  }

  /** Hands over what has arrived. */
  deliver(): void {
    const { now } = this.#world;
    this.#haunt();
    for (let i = 0; i < this.#letters.length; ) {
      const letter = this.#letters[i];
      if (letter.at > now) return;
      if (this.deaf.has(letter.to)) i++;
      else {
        this.#letters.splice(i, 1);
        this.#hand(letter);
      }
    }
  }

  get numLetters(): number {
    return this.#letters.length;
  }

  #post(from: string, to: string, message: PipelineMessage): void {
    const world = this.#world;
    const rng = world.rng('transport');
    this.audit.sent(from, to, message);
    const copy = copyOf(message);
    const isHit = world.setup.mood !== 'chunks' || message.kind === 'chunk' || message.kind === 'taken';
    if (isHit && world.strikes('lost', rng)) return;
    const pair = `${from}>${to}`;
    const soon = Math.max(world.now + 1 + rng.below(world.setup.latency), this.#last.get(pair) ?? 0);
    if (isHit && world.strikes('late', rng)) this.#put(from, to, copy, world.now + rng.below(800));
    else {
      this.#last.set(pair, soon);
      this.#put(from, to, copy, soon);
    }
    if (isHit && world.strikes('doubled', rng)) this.#put(from, to, copyOf(message), soon + rng.below(300));
    if (world.setup.faults.ghost === 0 || !rng.chance(0.1)) return;
    if (this.#ghosts.length === KEPT_GHOSTS) this.#ghosts.shift();
    this.#ghosts.push({ from, to, message: copyOf(message), at: 0, order: 0 });
  }

  #put(from: string, to: string, message: PipelineMessage, at: number): void {
    const letter = { from, to, message, at, order: ++this.#order };
    let i = this.#letters.length;
    while (i > 0 && this.#letters[i - 1].at > at) i--;
    this.#letters.splice(i, 0, letter);
  }

  #haunt(): void {
    const rng = this.#world.rng('ghosts');
    if (this.#ghosts.length === 0 || !this.#world.strikes('ghost', rng)) return;
    const { from, to, message } = rng.pick(this.#ghosts);
    this.#put(from, to, copyOf(message), this.#world.now);
  }

  #hand({ from, to, message }: Letter): void {
    const party = this.#parties.get(to);
    if (party === undefined) return;
    this.audit.delivered(from, to, message);
    party.mailbox.receive(message);
  }
}

/** Messages are plain data, except the error itself that a failure may carry inside one process. */
function copyOf(message: PipelineMessage): PipelineMessage {
  if (message.kind !== 'failed') return structuredClone(message);
  const { code, message: text } = message.failure;
  return { ...message, failure: { code, message: text } };
}
