import type { TransferReport, WorkerStep } from '../../../scheduler/connector/connector.js';
import type { Answer, Envelope } from '../wire/messages.js';
import type { LoadOrder, WatchOrder } from '../wire/orders.js';
import type { Post } from '../wire/post.js';
import type { Staging } from '../wire/staging.js';
import { Peers, type PeersOptions } from './peers.js';
import { Reads } from './reads.js';
import { Watches } from './watches.js';

/** Settings of a `Consumer`. */
export interface ConsumerOptions extends PeersOptions {
  readonly post: Post;
  readonly staging: Staging;
  readonly now: () => number;
}

/**
 * The half of a worker that reads leases of peers. It handles the peers' answers and drives all
 * operations that wait for time or for a lane.
 */
export class Consumer {
  readonly peers: Peers;
  readonly watches: Watches;
  readonly reads: Reads;
  readonly #options: ConsumerOptions;
  #renewed: TransferReport[] = [];
  #lastTick = Number.NaN;

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.peers = new Peers(options, {
      lost: (peer, reason) => {
        peer.reason = reason;
        this.watches.losePeer(peer);
      },
      replaced: (peer, reason) => {
        peer.reason = reason;
        this.watches.loseReads(peer);
      },
      ready: (peer) => this.watches.greeted(peer, options.now()),
    });
    this.watches = new Watches(options, this.peers);
    this.reads = new Reads({ ...options, life: options.post.life }, this.peers, this.watches);
  }

  /** Whether nothing is left to wait for or to report. */
  get isIdle(): boolean {
    return this.watches.size + this.reads.size === 0 && !this.reads.hasReports && !this.watches.hasNews;
  }

  /** Number of places of the staging arena in use. */
  get staged(): number {
    return this.#options.staging.numUsed;
  }

  /** Begins to keep a lease alive. */
  watch(order: WatchOrder, now: number): void {
    this.watches.add(order, now);
  }

  /** A request no longer needs its lease. */
  forgo(handle: number, now: number): void {
    const watch = this.watches.get(handle);
    if (watch === undefined) return;
    if (watch.read === null) this.watches.leave(watch, now);
    else this.reads.fail(watch.read);
  }

  /** Begins a load. */
  load(order: LoadOrder, step: WorkerStep, now: number): void {
    this.reads.begin(order, step, now);
  }

  /** Handles an answer of a peer. */
  receive(address: string, envelope: Envelope & { readonly message: Answer }, payload?: Uint8Array): void {
    const { from, to, message } = envelope;
    const { post, now } = this.#options;
    const at = now();
    const peer = this.peers.hear(address, from, to === post.life, message, at);
    if (peer === null) return;
    switch (message.kind) {
      case 'beats':
        for (const { order, step } of this.watches.beaten(peer, message, at)) {
          this.#renewed.push({ handle: order.handle, step });
        }
        break;
      case 'opened':
        this.reads.opened(peer, message);
        break;
      case 'data':
        this.reads.arrived(peer, message.transfer, message.at, payload);
        break;
      case 'confirmed':
        this.reads.confirmed(peer, message.transfer);
        break;
      case 'closed':
        this.reads.closed(peer, message.transfer, message.reason);
        break;
      case 'cancel':
        this.watches.cancel(peer, message.key);
        break;
    }
  }

  /** All steps up to this one were executed. */
  settle(step: number): void {
    this.peers.settle(step);
    this.#options.staging.settle(step);
  }

  /** Drives all operations that wait for time or for a lane. */
  tick(now: number): void {
    const stood = now - this.#lastTick > this.#options.peerTimeoutMs / 2;
    this.#lastTick = now;
    this.peers.drain();
    this.#options.staging.drain();
    this.peers.tick(now, stood);
    this.watches.tick(now, stood);
    this.reads.tick(now);
  }

  /** Drains the loads whose peer gave a sign of life since the last call. */
  drainRenewed(): readonly TransferReport[] {
    const renewed = this.#renewed;
    if (renewed.length > 0) this.#renewed = [];
    return renewed;
  }

  /** Ends every read and every copy. Afterwards none of them touches the KV memory. */
  fence(): void {
    this.reads.failAll();
    this.peers.fence();
    this.#options.staging.fence();
  }

  /** Gives every lease back, and ends every copy. */
  leaveAll(): void {
    this.reads.failAll();
    this.watches.leaveAll(this.#options.now());
    this.peers.dispose();
  }
}
