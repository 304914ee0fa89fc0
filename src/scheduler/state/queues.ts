import type { Request } from '../request/request.js';
import type { Container } from '../request/status.js';
import { IdleHolders } from './idle-holders.js';
import { comesBefore, FcfsQueue, PriorityQueue, type RequestQueue } from './request-queue.js';

/**
 * The containers of unfinished requests, as in vLLM. Requests in `waiting` may be admitted.
 * Requests in `skipped` wait for other events, or were passed over. Requests in `running` are being
 * computed, in order of admission.
 *
 * Some requests count as skipped but are set apart, so that no step considers them. `idle` has
 * sessions that wait for input, and `loading` has requests whose KV is being loaded. `deferred` has
 * requests that wait until the connector wakes them.
 * `Request.order` keeps their place among the skipped requests.
 *
 * Invariant: `request.container` names the one container that holds the request. Only this class
 * writes it, except for two guards that repair it (`guards.ts`).
 */
export class Queues {
  readonly waiting: RequestQueue;
  readonly skipped: RequestQueue;
  /** In order of admission. Entries may be removed only through this class. */
  readonly running: Request[] = [];
  /** Requests at the head of `running` that decode steadily; see `Steady`, which writes it. */
  numSteady = 0;
  /** Whether one of these has left its place. */
  steadyMoved = false;
  /** Sessions that wait for input, the longest idle first. Their container is `skipped`. */
  readonly idle = new Set<Request>();
  /** Sessions of `idle` that may have blocks to give. */
  readonly idleHolders = new IdleHolders();
  /** Requests whose load is under way. Their container is `skipped`. */
  readonly loading = new Set<Request>();
  /** Requests that wait until the connector wakes them. Their container is `skipped`. */
  readonly deferred = new Set<Request>();
  /**
   * Requests that a borrowing adapter took out while a step is planned, with the containers that they came from; empty
   * between calls. Their container is `lent`.
   */
  readonly lent = new Map<Request, 'waiting' | 'skipped' | 'running'>();
  /**
   * Requests of `lent` that came from `running`. They keep their places there, so no other requests
   * are admitted for them.
   */
  numLentRunning = 0;
  /**
   * Requests that the present admission pass removed from their queues, in order; empty between
   * passes.
   */
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

  /** Puts a preempted request to the front, so that it is the next one to run again. */
  prependWaiting(request: Request): void {
    request.container = 'waiting';
    this.waiting.prepend(request);
  }

  /** Adds a new request that is blocked from the start. */
  pushSkipped(request: Request): void {
    request.container = 'skipped';
    request.order = ++this.#lastOrder;
    this.skipped.push(request);
  }

  /** Sets apart a session that has nothing to do until its next chunk comes. */
  park(request: Request): void {
    request.container = 'skipped';
    request.order = ++this.#lastOrder;
    this.idle.add(request);
    this.idleHolders.add(request);
  }

  /**
   * Notes that a parked session may have blocks to give again, because a use of them has ended. Nothing happens if it
   * is not parked.
   */
  offer(request: Request): void {
    if (this.idle.has(request)) this.idleHolders.add(request);
  }

  /** Lets a parked session be admitted again, from its place among the skipped requests. */
  unpark(request: Request): void {
    this.removeIdle(request);
    this.skipped.insert(request);
  }

  /** Sets the head of a queue apart until its load is done. */
  parkLoading(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.loading.add(request);
  }

  /**
   * Lets a request whose load is done be admitted again, from its place. Nothing happens if it is not in `loading`.
   */
  unparkLoading(request: Request): void {
    if (this.loading.delete(request)) this.skipped.insert(request);
  }

  /** Sets the head of a queue apart until the connector wakes it. */
  parkDeferred(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.deferred.add(request);
  }

  /** Lets a deferred request be asked about again, from its place. @returns false if it was not deferred */
  unparkDeferred(request: Request): boolean {
    const waited = this.deferred.delete(request);
    if (waited) this.skipped.insert(request);
    return waited;
  }

  /**
   * Removes the head of a queue from this admission pass. A skipped request keeps its place;
   * another request is placed after the skipped ones.
   */
  passOver(queue: RequestQueue, request: Request): void {
    this.#skip(queue, request);
    this.passedOver.push(request);
  }

  /**
   * Removes the head from its queue and makes it skipped. A request that was skipped already keeps
   * its place.
   */
  #skip(queue: RequestQueue, request: Request): void {
    queue.remove(request);
    if (request.container !== 'skipped') request.order = ++this.#lastOrder;
    request.container = 'skipped';
  }

  /**
   * Ends an admission pass: the requests that it passed over are placed before those that it did
   * not reach, in their former order.
   */
  endPass(): void {
    const passedOver = this.passedOver;
    if (passedOver.length === 0) return;
    for (let i = passedOver.length - 1; i >= 0; i--) this.skipped.prepend(passedOver[i]);
    passedOver.length = 0;
  }

  /** Takes a request out of its container until `putBack`. */
  lend(request: Request): void {
    const { container } = request;
    if (container === null || container === 'lent') return;
    this.remove(request);
    request.container = 'lent';
    this.lent.set(request, container);
    if (container === 'running') this.numLentRunning++;
  }

  /**
   * Puts a lent request back into the container that it came from: before or after the others, or,
   * if it was skipped, at its place. Nothing happens if it is not lent.
   */
  putBack(request: Request, atFront: boolean): void {
    const from = this.lent.get(request);
    if (from === undefined) return;
    this.removeLent(request);
    request.container = from;
    if (from === 'skipped') this.skipped.insert(request);
    else if (from === 'waiting') atFront ? this.waiting.prepend(request) : this.waiting.push(request);
    else atFront ? this.running.unshift(request) : this.running.push(request);
  }

  /** The container that holds a request; for a lent request, the one that it came from. */
  placeOf(request: Request): Container {
    return this.lent.get(request) ?? request.container;
  }

  /** All skipped requests in admission order, including those that are set apart; allocates. */
  allSkipped(): Request[] {
    const all = [...this.skipped.toArray(), ...this.idle, ...this.loading, ...this.deferred];
    return all.sort((a, b) => (this.#byPriority ? (comesBefore(a, b) ? -1 : 1) : a.order - b.order));
  }

  /** Skipped requests, including those that are set apart. */
  get numSkipped(): number {
    return this.skipped.length + this.idle.size + this.loading.size + this.deferred.size;
  }

  pushRunning(request: Request): void {
    request.container = 'running';
    this.running.push(request);
  }

  /**
   * The queue whose head is admitted next: with `fcfs` the skipped requests first, with `priority`
   * the better head.
   */
  nextQueue(): RequestQueue | null {
    const waiting = this.waiting.peek();
    const skipped = this.skipped.peek();
    if (skipped === null) return waiting === null ? null : this.waiting;
    if (waiting === null || !this.#byPriority) return this.skipped;
    return comesBefore(waiting, skipped) ? this.waiting : this.skipped;
  }

  /**
   * How many requests of `line` come before this one, which is in it too. Examines at most about
   * `most` requests in each queue.
   * @returns the number; a lower bound if `isExact` is false
   */
  countAhead(request: Request, most: number): { ahead: number; isExact: boolean } {
    const isFirst = request.container === 'skipped' && !this.#byPriority;
    const inWaiting = isFirst ? 0 : this.waiting.countAhead(request, most);
    const isBehind = request.container === 'waiting' && !this.#byPriority;
    const inSkipped = isBehind ? 0 : this.skipped.countAhead(request, most);
    const ahead = inWaiting + inSkipped + (isBehind ? this.skipped.length : 0);
    return { ahead, isExact: Math.max(inWaiting, inSkipped) < most };
  }

  /**
   * The requests that may be admitted, in the order in which `nextQueue` reaches them. With
   * `priority` all of them are sorted.
   */
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

  /** Removes a request from the container that holds it. Nothing happens if none does. */
  remove(request: Request): void {
    if (request.container === 'running') {
      const at = this.running.indexOf(request);
      if (at < this.numSteady) this.steadyMoved = true;
      this.running.splice(at, 1);
    } else this.removeWaiting(request);
    request.container = null;
  }

  /**
   * Like `remove`, but a running request only loses its `container`, so that many can leave `running` in one pass.
   * The caller ends with `dropDetached`.
   */
  detach(request: Request): void {
    if (request.container !== 'running') this.removeWaiting(request);
    request.container = null;
  }

  /**
   * Drops the requests from `running` whose `container` is not `running`; the others keep their order.
   * @param from none of those before this index is to be dropped
   */
  dropDetached(from = 0): void {
    const running = this.running;
    let kept = from;
    for (let i = from; i < running.length; i++) {
      const request = running[i];
      if (request.container === 'running') running[kept++] = request;
      else if (i < this.numSteady) this.steadyMoved = true;
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

  private removeLent(request: Request): void {
    if (this.lent.get(request) === 'running') this.numLentRunning--;
    this.lent.delete(request);
  }

  private removeWaiting(request: Request): void {
    if (request.container === 'waiting') this.waiting.remove(request);
    else if (request.container === 'lent') this.removeLent(request);
    else if (request.container !== 'skipped') return;
    else if (!this.removeApart(request)) this.skipped.remove(request);
  }
}
