import type { Answer } from '../wire/messages.js';
import type { LeaseSaid, WatchOrder } from '../wire/orders.js';
import type { Peer } from './peer.js';
import type { Peers } from './peers.js';
import type { Read, Watch } from './watch.js';

/** Maximum number of leases in one message. */
const MAX_KEYS = 1024;

/** Settings of `Watches`. */
export interface WatchesOptions {
  readonly rank: number;
  readonly retryMs: number;
  readonly peerTimeoutMs: number;
}

/**
 * The leases of peers that this worker keeps alive. A lease is watched from the addition of its
 * request until it was read or is no longer needed. The scheduler side is told once whether each
 * lease was found alive, and once if it is lost.
 *
 * Invariant: a watch is in `#watches` from its order on. It leaves when the lease was read, when
 * the peer was told of the release, or when the peer cannot be reached.
 */
export class Watches {
  /** Called when a lease is gone while it is being read. Set by the reader. */
  onGone: (read: Read) => void = () => {};
  readonly #options: WatchesOptions;
  readonly #peers: Peers;
  readonly #watches = new Map<number, Watch>();
  #settings = '';
  #alive: number[] = [];
  #doubted: number[] = [];
  #lost: number[] = [];

  constructor(options: WatchesOptions, peers: Peers) {
    this.#options = options;
    this.#peers = peers;
  }

  /** Number of watched leases. */
  get size(): number {
    return this.#watches.size;
  }

  /** Whether there is news for the scheduler side. */
  get hasNews(): boolean {
    return this.#alive.length + this.#doubted.length + this.#lost.length > 0;
  }

  get settings(): string {
    return this.#settings;
  }

  begin(settings: string): void {
    this.#settings = settings;
  }

  get(handle: number): Watch | undefined {
    return this.#watches.get(handle);
  }

  /** Begins to keep a lease alive. */
  add({ handle, key, addresses, leaseMs }: WatchOrder, now: number): void {
    const peer = this.#peers.use(addresses[this.#options.rank] ?? '', now);
    const times = { since: now, aliveAt: now };
    const watch: Watch = { handle, key, peer, leaseMs, state: 'asking', ...times, read: null };
    this.#watches.set(handle, watch);
    if (peer.state === 'refused') this.#lose(watch);
    else if (peer.state === 'ready') this.#ask(peer, [key], now);
  }

  /** Whether some peer must still be told that a lease is no longer needed. */
  get isLeaving(): boolean {
    for (const { state } of this.#watches.values()) if (state === 'leaving') return true;
    return false;
  }

  /**
   * A session with a peer begins. The peer is told at once which of its leases are watched and
   * which are no longer needed.
   */
  greeted(peer: Peer, now: number): void {
    for (const watch of [...this.#watches.values()]) {
      if (watch.peer === peer && watch.state === 'leaving') this.leave(watch, now);
    }
    this.beat(peer, now);
  }

  /** Tells a peer at once which of its leases are watched. */
  beat(peer: Peer, now: number): void {
    peer.beatAt = now;
    let keys: string[] = [];
    for (const watch of this.#watches.values()) {
      if (watch.peer !== peer || !isKept(watch)) continue;
      keys.push(watch.key);
      if (keys.length < MAX_KEYS) continue;
      this.#ask(peer, keys, now);
      keys = [];
    }
    if (keys.length > 0) this.#ask(peer, keys, now);
  }

  /**
   * Handles a peer's report about its leases.
   * @returns reads whose lease was renewed
   */
  beaten(peer: Peer, { alive, early, gone, reason }: Answer & { kind: 'beats' }, now: number): Read[] {
    const said = new Map<string, 'alive' | 'early' | 'gone'>();
    for (const key of alive) said.set(key, 'alive');
    for (const key of early) said.set(key, 'early');
    for (const key of gone) said.set(key, 'gone');
    if (gone.length > 0) peer.reason = reason;
    const renewed: Read[] = [];
    for (const watch of [...this.#watches.values()]) {
      const word = watch.peer === peer ? said.get(watch.key) : undefined;
      if (word === 'alive') {
        this.#find(watch, now);
        if (watch.read !== null && watch.read.phase !== 'failed') renewed.push(watch.read);
      }
      // A lease that was alive once cannot still be waiting for its grant.
      else if (word === 'gone' || (word === 'early' && watch.state !== 'asking')) this.#gone(watch);
    }
    return renewed;
  }

  /** Nothing can be read from a peer any more. */
  losePeer(peer: Peer): void {
    this.loseReads(peer);
    for (const watch of this.#watches.values()) if (watch.peer === peer) this.#lose(watch);
  }

  /** The reads in progress from a peer are lost. */
  loseReads(peer: Peer): void {
    for (const watch of [...this.#watches.values()]) {
      if (watch.peer === peer && watch.read !== null) this.onGone(watch.read);
    }
  }

  /** The peer asks this side to stop reading a lease. */
  cancel(peer: Peer, key: string): void {
    for (const watch of [...this.#watches.values()]) {
      if (watch.peer === peer && watch.key === key) this.#gone(watch);
    }
  }

  /**
   * Tells the peer that a lease is no longer needed, now or when the peer can be reached. If
   * another request of this engine watches the same lease, the last request tells the peer.
   */
  leave(watch: Watch, now: number): void {
    const { peer, key } = watch;
    if (this.#isShared(watch)) {
      this.drop(watch);
      return;
    }
    if (peer.state === 'calling' && watch.state !== 'leaving') {
      watch.state = 'leaving';
      watch.since = now;
      return;
    }
    if (peer.state === 'ready') this.#peers.send(peer, { kind: 'release', keys: [key] }, now, false);
    this.drop(watch);
  }

  /** Forgets a lease that was read, or whose peer knows of its release. */
  drop(watch: Watch): void {
    if (this.#watches.delete(watch.handle)) this.#peers.leave(watch.peer);
  }

  /**
   * Sends due messages, and gives up operations that have waited too long.
   * @param stood whether this process itself was suspended. If so, no peer has kept it waiting
   */
  tick(now: number, stood: boolean): void {
    const { retryMs, peerTimeoutMs } = this.#options;
    for (const watch of this.#watches.values()) {
      if (stood) watch.since = now;
      if (watch.state === 'alive' && now - watch.aliveAt > watch.leaseMs) this.#doubt(watch, now);
      const { peer, state, since } = watch;
      const waited = now - since;
      const patience = peer.state === 'dead' ? 2 * retryMs : peerTimeoutMs;
      if (state === 'asking' && waited > patience) this.#lose(watch);
      else if (state === 'leaving' && (peer.state === 'ready' || waited > patience)) this.leave(watch, now);
      else if (peer.state === 'ready' && isKept(watch) && this.#isDue(watch, now)) this.beat(peer, now);
    }
  }

  /** Gives up every lease that is not being read. */
  leaveAll(now: number): void {
    for (const watch of [...this.#watches.values()]) if (watch.read === null) this.leave(watch, now);
  }

  /**
   * Drains the news for the scheduler side: handles of requests whose leases were found alive, are
   * in doubt, or are lost.
   */
  drainNews(): Pick<LeaseSaid, 'alive' | 'doubted' | 'lost'> {
    const news = { alive: this.#alive, doubted: this.#doubted, lost: this.#lost };
    if (this.#alive.length > 0) this.#alive = [];
    if (this.#doubted.length > 0) this.#doubted = [];
    if (this.#lost.length > 0) this.#lost = [];
    return news;
  }

  #isDue({ peer, state, leaseMs }: Watch, now: number): boolean {
    return now - peer.beatAt >= (state === 'asking' ? this.#options.retryMs : leaseMs / 6);
  }

  #ask(peer: Peer, keys: readonly string[], now: number): void {
    this.#peers.send(peer, { kind: 'beat', settings: this.#settings, keys }, now, true);
  }

  /** Whether another request watches the same lease. */
  #isShared(watch: Watch): boolean {
    for (const other of this.#watches.values()) {
      if (other !== watch && other.key === watch.key && other.peer === watch.peer) return true;
    }
    return false;
  }

  /**
   * The lease was not confirmed for longer than its duration, so the worker asks about it again.
   */
  #doubt(watch: Watch, now: number): void {
    watch.state = 'asking';
    watch.since = now;
    this.#alive = this.#alive.filter((handle) => handle !== watch.handle);
    this.#doubted.push(watch.handle);
  }

  #find(watch: Watch, now: number): void {
    watch.aliveAt = now;
    if (watch.state !== 'asking') return;
    watch.state = 'alive';
    watch.since = now;
    this.#alive.push(watch.handle);
  }

  #gone(watch: Watch): void {
    // A read that is being confirmed may have ended the lease itself. The confirmation is under
    // way.
    if (watch.read?.phase === 'confirming') return;
    if (watch.read === null) this.#lose(watch);
    else this.onGone(watch.read);
  }

  #lose(watch: Watch): void {
    if (watch.state !== 'asking' && watch.state !== 'alive') return;
    watch.state = 'lost';
    this.#lost.push(watch.handle);
  }
}

/** Whether a watch keeps its lease alive. */
function isKept({ state, read }: Watch): boolean {
  return state !== 'lost' && state !== 'leaving' && read?.phase !== 'failed';
}
