import type { LaneFactory } from '../../base/kv-lanes.js';
import type { KvMemory } from '../../base/kv-memory.js';
import { type Answer, type Message, PROTOCOL } from '../wire/messages.js';
import type { Post } from '../wire/post.js';
import { mapSource } from './mapped-source.js';
import { newPeer, type Peer } from './peer.js';

/** Settings of `Peers`. */
export interface PeersOptions {
  readonly memory: KvMemory;
  readonly post: Post;
  readonly rank: number;
  readonly makeLane: LaneFactory | undefined;
  /** Whether the memory of peers may be mapped. */
  readonly maps: boolean;
  readonly retryMs: number;
  readonly peerTimeoutMs: number;
  readonly reapMs: number;
}

/** Called when the state of a peer changes. */
export interface PeerEvents {
  /** Nothing can be read from the peer: it is dead or refused. */
  lost(peer: Peer, reason: string): void;
  /**
   * Another life of the peer answers. Reads in progress are lost, and the peer will say which
   * leases it knows.
   */
  replaced(peer: Peer, reason: string): void;
  /** A session begins. */
  ready(peer: Peer): void;
}

/**
 * The peers whose leases this worker reads, by address. The class greets them, and notices when a
 * peer dies, returns or restarts.
 */
export class Peers {
  readonly counts = { deaths: 0, returns: 0, refused: 0, reaped: 0, unknown: 0 };
  readonly #options: PeersOptions;
  readonly #events: PeerEvents;
  readonly #peers = new Map<string, Peer>();
  #settled = -1;
  /** Number of greetings so far, to all peers. */
  #numGreetings = 0;

  constructor(options: PeersOptions, events: PeerEvents) {
    this.#options = options;
    this.#events = events;
  }

  /** Lists the known peers. */
  list(): readonly Peer[] {
    return [...this.#peers.values()];
  }

  /** Returns the peer at an address. One more watch refers to it from now on. */
  use(address: string, now: number): Peer {
    const known = this.#peers.get(address);
    const peer = known ?? newPeer(address, now);
    this.#peers.set(address, peer);
    peer.numUses++;
    // A refused peer may have been replaced by now.
    const isOld = now - peer.helloAt >= this.#options.peerTimeoutMs;
    if (peer.state === 'refused' && isOld) peer.state = 'calling';
    if (peer.state !== 'ready' && peer.state !== 'refused') this.#greet(peer, now);
    return peer;
  }

  /** One watch less refers to the peer. */
  leave(peer: Peer): void {
    peer.numUses--;
  }

  /** Sends a message. @param isAnswered whether the peer must answer it */
  send(peer: Peer, message: Message, now: number, isAnswered: boolean): void {
    if (isAnswered && peer.askedAt === Number.POSITIVE_INFINITY) peer.askedAt = now;
    this.#options.post.send(peer.address, peer.life, message);
  }

  /**
   * Notes that a message arrived from an address.
   * @param isForMe whether the message names this life of the worker as its receiver
   * @returns the peer, if the message belongs to its session and is not about the session itself;
   * else null
   */
  hear(address: string, life: string, isForMe: boolean, message: Answer, now: number): Peer | null {
    const peer = this.#peers.get(address);
    if (peer === undefined || !isForMe) {
      this.counts.unknown++;
      return null;
    }
    const { kind } = message;
    if (kind === 'welcome' || kind === 'unwelcome') {
      if (message.number <= peer.greeted || message.number > this.#numGreetings) {
        this.counts.unknown++;
        return null;
      }
      peer.greeted = message.number;
    }
    if (kind === 'welcome') this.#welcome(peer, life, message.arena, now);
    else if (kind === 'unwelcome') this.#refuse(peer, life, message.reason, now);
    else if (kind === 'stale') this.#again(peer, life, now);
    else if (life !== peer.life || peer.state === 'refused') this.counts.unknown++;
    else if (kind === 'bye') this.#die(peer, 'it has ended');
    else {
      this.#heard(peer, now);
      if (peer.state === 'dead') this.#return(peer);
      return peer.state === 'ready' ? peer : null;
    }
    return null;
  }

  /** All steps up to this one were executed. */
  settle(step: number): void {
    this.#settled = step;
    if (this.#peers.size === 0) return;
    for (const { source } of this.#peers.values()) source?.settle(step);
  }

  /** Calls the callbacks of the copies that ended. */
  drain(): void {
    for (const { source } of this.#peers.values()) source?.drain();
  }

  /**
   * Greets the peers that have not answered, and gives up the peers that are silent for too long.
   * @param stood whether this process itself was suspended. If so, no peer counts as silent
   */
  tick(now: number, stood: boolean): void {
    const { retryMs, peerTimeoutMs, reapMs } = this.#options;
    for (const peer of this.#peers.values()) {
      if (stood && peer.askedAt < now) peer.askedAt = now;
      if (peer.numUses === 0) {
        if (now - Math.max(peer.heardAt, peer.helloAt) > reapMs) this.#reap(peer);
        continue;
      }
      const isWaiting = peer.state === 'calling' || peer.state === 'dead';
      if (isWaiting && now - peer.helloAt >= retryMs) this.#greet(peer, now);
      if (peer.state !== 'dead' && now - peer.askedAt > peerTimeoutMs) this.#die(peer, 'it does not answer');
    }
  }

  /** Ends every copy and calls its callback. */
  fence(): void {
    for (const { source } of this.#peers.values()) source?.fence();
  }

  /** Ends every copy and unmaps all memory. */
  dispose(): void {
    for (const peer of this.#peers.values()) this.#unmap(peer);
    this.#peers.clear();
  }

  #greet(peer: Peer, now: number): void {
    peer.helloAt = now;
    const { rank, memory } = this.#options;
    const { bytesPerBlock } = memory.kv;
    const number = ++this.#numGreetings;
    const hello = { kind: 'hello', number, protocol: PROTOCOL, rank, bytesPerBlock } as const;
    this.send(peer, hello, now, peer.state === 'calling');
  }

  #welcome(peer: Peer, life: string, arena: unknown, now: number): void {
    this.#heard(peer, now);
    if (peer.life !== life) {
      const wasKnown = peer.life !== '';
      this.#unmap(peer);
      peer.life = life;
      if (wasKnown) this.#events.replaced(peer, 'it was restarted');
      const { memory, makeLane, maps } = this.#options;
      peer.source = maps ? mapSource(arena, memory, makeLane) : null;
      if (this.#settled >= 0) peer.source?.settle(this.#settled);
    } else if (peer.state === 'ready') return;
    if (peer.state === 'dead') this.counts.returns++;
    peer.state = 'ready';
    peer.reason = '';
    this.#events.ready(peer);
  }

  #refuse(peer: Peer, life: string, reason: string, now: number): void {
    this.#heard(peer, now);
    this.#unmap(peer);
    peer.life = life;
    peer.state = 'refused';
    this.counts.refused++;
    this.#events.lost(peer, reason);
  }

  /** The peer does not know this worker, or no longer knows it. */
  #again(peer: Peer, life: string, now: number): void {
    this.#heard(peer, now);
    const isNew = peer.state === 'ready';
    if (isNew) peer.state = 'calling';
    // Nothing can be read from another life of the peer, whatever it answers.
    if (life !== peer.life && peer.life !== '') this.#events.replaced(peer, 'it was restarted');
    // Known peers were greeted already, and get their next greeting in time.
    if (isNew) this.#greet(peer, now);
  }

  #heard(peer: Peer, now: number): void {
    peer.heardAt = now;
    peer.askedAt = Number.POSITIVE_INFINITY;
  }

  #return(peer: Peer): void {
    this.counts.returns++;
    peer.state = 'ready';
    peer.reason = '';
    this.#events.ready(peer);
  }

  #die(peer: Peer, reason: string): void {
    if (peer.state === 'dead') return;
    this.counts.deaths++;
    peer.state = 'dead';
    peer.askedAt = Number.POSITIVE_INFINITY;
    this.#events.lost(peer, reason);
  }

  #reap(peer: Peer): void {
    this.counts.reaped++;
    this.#unmap(peer);
    this.#peers.delete(peer.address);
    this.#options.post.forget(peer.address);
  }

  #unmap(peer: Peer): void {
    peer.source?.dispose();
    peer.source = null;
  }
}
