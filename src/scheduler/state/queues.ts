import type { Request } from '../request/request.js';
import { IdleHolders } from './idle-holders.js';
import { comesBefore, FcfsQueue, PriorityQueue, type RequestQueue } from './request-queue.js';

/**
 * The containers of unfinished requests, as in vLLM: `waiting` may be admitted, `skipped` waits for something else or
 * was passed over, `running` holds those that are computed, in order of admission.
 *
 * Sessions that wait for input, requests whose KV is being loaded and those that wait until the connector wakes them are
 * among the skipped, but stand apart in `idle`, `loading` and `deferred`, so that no step ever looks at them. Their place among
 * the others is kept in `order`.
 *
 * Invariant: `request.container` names the one container that holds it, and only this class writes it.
 */
export class Queues {
  readonly waiting: RequestQueue;
  readonly skipped: RequestQueue;
  /** In order of admission. Entries may be removed only through this class. */
  readonly running: Request[] = [];
  /** Sessions that wait for input, the longest idle first. Their container is `skipped`. */
  readonly idle = new Set<Request>();
  /** Those of `idle` that may have blocks to give. */
  readonly idleHolders = new IdleHolders();
  /** Requests whose load is under way. Their container is `skipped`. */
  readonly loading = new Set<Request>();
  /** Requests that the connector will wake. Their container is `skipped`. */
  readonly deferred = new Set<Request>();
  /** Those that the present pass took out of their queues, in order; empty between passes. */
  readonly passedOver: Request[] = [];
  #lastOrder = 0;
  readonly #byPriority: boolean;

  constructor(policy: 'fcfs' | 'priority') {
    this.#byPriority = policy === 'priority';
    this.waiting = this.#byPriority ? new PriorityQueue() : new FcfsQueue();
    this.skipped = this.#byPriority ? new PriorityQueue() : new FcfsQueue();
  }

  pushWaiting(request: Request): void {
    request.container = 'waiting';
    this.waiting.push(request);
  }

  /** A preempted request goes to the front, so that it is the next to run again. */
  prependWaiting(request: Request): void {
    request.container = 'waiting';
    this.waiting.prepend(request);
  }

  /** A new request that is blocked from the start. */
  pushSkipped(request: Request): void {
    request.container = 'skipped';
    request.order = ++this.#lastOrder;
    this.skipped.push(request);
  }

  /** A session has nothing to do until its next chunk comes. */
  park(request: Request): void {
    request.container = 'skipped';
    request.order = ++this.#lastOrder;
    this.idle.add(request);
    this.idleHolders.add(request);
  }

  /** A parked session may have blocks to give again, because what used them has ended. Nothing if it is not parked. */
  offer(request: Request): void {
    if (this.idle.has(request)) this.idleHolders.add(request);
  }

  /** A parked session may be admitted again, from its place. */
  unpark(request: Request): void {
    this.removeIdle(request);
    this.skipped.insert(request);
  }

  /** The head of a queue has nothing to do until its load is done. */
  parkLoading(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.loading.add(request);
  }

  /** A load is done: its request may be admitted again, from its place. Nothing if it is not among the loading. */
  unparkLoading(request: Request): void {
    if (this.loading.delete(request)) this.skipped.insert(request);
  }

  /** The head of a queue has nothing to do until the connector wakes it. */
  parkDeferred(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.deferred.add(request);
  }

  /** A request may be asked about again, from its place. @returns false if it did not wait for that */
  unparkDeferred(request: Request): boolean {
    const waited = this.deferred.delete(request);
    if (waited) this.skipped.insert(request);
    return waited;
  }

  /** Takes the head of a queue out of this admission pass. It stays among the skipped, or comes behind them. */
  passOver(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.passedOver.push(request);
  }

  /** Whoever is among the skipped already keeps its place there. */
  #skip(queue: RequestQueue, request: Request): void {
    queue.remove(request);
    if (request.container !== 'skipped') request.order = ++this.#lastOrder;
    request.container = 'skipped';
  }

  /** Ends an admission pass: what it passed over stands ahead of what it did not reach, in the order of before. */
  endPass(): void {
    const passedOver = this.passedOver;
    if (passedOver.length === 0) return;
    for (let i = passedOver.length - 1; i >= 0; i--) this.skipped.prepend(passedOver[i]);
    passedOver.length = 0;
  }

  /** All skipped requests, those that stand apart included, in admission order; allocates. */
  allSkipped(): Request[] {
    const all = [...this.skipped.toArray(), ...this.idle, ...this.loading, ...this.deferred];
    return all.sort((a, b) => (this.#byPriority ? (comesBefore(a, b) ? -1 : 1) : a.order - b.order));
  }

  get numSkipped(): number {
    return this.skipped.length + this.idle.size + this.loading.size + this.deferred.size;
  }

  pushRunning(request: Request): void {
    request.container = 'running';
    this.running.push(request);
  }

  /** The queue whose head is to be admitted next: skipped requests first (fcfs), the better head (priority). */
  nextQueue(): RequestQueue | null {
    const waiting = this.waiting.peek();
    const skipped = this.skipped.peek();
    if (skipped === null) return waiting === null ? null : this.waiting;
    if (waiting === null || !this.#byPriority) return this.skipped;
    return comesBefore(waiting, skipped) ? this.waiting : this.skipped;
  }

  /**
   * How many of those in `line` come before this one, which is in it: looks at no more than about `most` in either queue.
   * @returns the number, a lower bound if it is not `isExact`
   */
  countAhead(request: Request, most: number): { ahead: number; isExact: boolean } {
    const isFirst = request.container === 'skipped' && !this.#byPriority;
    const inWaiting = isFirst ? 0 : this.waiting.countAhead(request, most);
    const isBehind = request.container === 'waiting' && !this.#byPriority;
    const inSkipped = isBehind ? 0 : this.skipped.countAhead(request, most);
    const ahead = inWaiting + inSkipped + (isBehind ? this.skipped.length : 0);
    return { ahead, isExact: Math.max(inWaiting, inSkipped) < most };
  }

  /** Those that may be admitted, in the order in which `nextQueue` comes to them. By priority all of them are sorted. */
  *line(): Generator<Request, void> {
    if (this.#byPriority) {
      yield* [...this.waiting.toArray(), ...this.skipped.toArray()].sort((a, b) =>
        comesBefore(a, b) ? -1 : 1,
      );
      return;
    }
    for (const queue of [this.skipped, this.waiting]) {
      for (let request = queue.peek(); request !== null; request = request.next) yield request;
    }
  }

  /** Takes a request out of whichever container holds it. Finding none is not an error. */
  remove(request: Request): void {
    if (request.container === 'running') this.running.splice(this.running.indexOf(request), 1);
    else this.removeWaiting(request);
    request.container = null;
  }

  /**
   * As `remove`, but a running request only loses its mark, so that many can leave `running` in one pass.
   * The caller ends with `dropDetached`.
   */
  detach(request: Request): void {
    if (request.container !== 'running') this.removeWaiting(request);
    request.container = null;
  }

  /** Drops everything that is not marked as running from `running`, order kept. */
  dropDetached(): void {
    const running = this.running;
    let kept = 0;
    for (let i = 0; i < running.length; i++) {
      const request = running[i];
      if (request.container === 'running') running[kept++] = request;
    }
    running.length = kept;
  }

  private removeIdle(request: Request): boolean {
    if (!this.idle.delete(request)) return false;
    this.idleHolders.drop(request);
    return true;
  }

  private removeApart(request: Request): boolean {
    return this.removeIdle(request) || this.loading.delete(request) || this.deferred.delete(request);
  }

  private removeWaiting(request: Request): void {
    if (request.container === 'waiting') this.waiting.remove(request);
    else if (request.container !== 'skipped') return;
    else if (!this.removeApart(request)) this.skipped.remove(request);
  }
}
