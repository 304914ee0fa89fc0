import type { Anomalies } from '../base/anomalies.js';
import { checkFinite, checkName } from '../base/checks.js';
import { IndexedHeap } from '../base/collections/indexed-heap.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';

/** The key of a lease: a request's handle, or a name. */
export type LeaseKey = number | string;

interface Lease<Key> {
  readonly key: Key;
  /** The lease is over from this time on: milliseconds on the granter's clock. */
  deadline: number;
  /** Place in the heap. */
  index: number;
}

/**
 * Leases by deadline. A lease can be removed from anywhere in the heap, so a lease that was renewed
 * never hides one that has ended.
 */
class LeaseHeap<Key> extends IndexedHeap<Lease<Key>> {
  get first(): Lease<Key> | undefined {
    return this.heap[0];
  }

  insert(lease: Lease<Key>): void {
    this.insertIntoHeap(lease);
  }

  remove(lease: Lease<Key>): void {
    this.removeFromHeap(lease);
  }

  protected comesBefore(a: Lease<Key>, b: Lease<Key>): boolean {
    return a.deadline < b.deadline;
  }

  protected indexOf(lease: Lease<Key>): number {
    return lease.index;
  }

  protected setIndex(lease: Lease<Key>, index: number): void {
    lease.index = index;
  }
}

/**
 * Leases: promises that blocks stay where they are for a while, so that a peer may read them. A
 * lease is over when its deadline passes, even if nobody asks. From then on it can be neither read
 * nor renewed, so a caller that gets its key from `expire` may reuse its blocks.
 *
 * A lease lasts for a duration in milliseconds, and `now` is an instant on the granter's own clock.
 * Give the same monotonic clock to every call. A peer is told a duration (`remaining`), never an
 * instant. The peer, perhaps another process, would compare an instant with its own clock. The
 * lease would seem shorter or longer by the difference of the two clocks (vLLM #50326). A message
 * takes time, so a peer that counts from its arrival may come too late; `mayRead` of the granter
 * decides.
 */
export class Leases<Key extends LeaseKey = number> {
  readonly #anomalies: Anomalies;
  readonly #leases = new Map<Key, Lease<Key>>();
  readonly #heap = new LeaseHeap<Key>();

  /** @param anomalies counts reads and renewals that are refused, as `expired-lease` */
  constructor(anomalies: Anomalies) {
    this.#anomalies = anomalies;
  }

  /** Number of leases that were neither released, replaced nor handed out by `expire`. */
  get size(): number {
    return this.#leases.size;
  }

  /** The earliest deadline, in milliseconds on the granter's clock; Infinity without a lease. */
  get nextDeadline(): number {
    return this.#heap.first?.deadline ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Begins a lease.
   * @param ms how long it lasts from `now` on, in milliseconds: more than 0
   * @returns true if it replaces a lease of this key that is over and was not handed out by
   * `expire`. The old lease is never handed out then, and data that the caller keeps for it now
   * belongs to the new lease
   * @throws ERR_BLOCKSTEP_BAD_ARG, also if the key has a lease that is not over
   */
  grant(key: Key, now: number, ms: number): boolean {
    checkKey(key);
    const deadline = deadlineOf(now, ms);
    const before = this.#leases.get(key);
    if (before !== undefined) {
      if (before.deadline > now) throw badArgument('key', show(key), 'one without a lease that is not over');
      this.#remove(before);
    }
    const lease = { key, deadline, index: -1 };
    this.#leases.set(key, lease);
    this.#heap.insert(lease);
    return before !== undefined;
  }

  /**
   * Extends a lease to `now + ms`, unless it lasts longer already.
   * @returns false, and counted, if the lease is over or there is none
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  renew(key: Key, now: number, ms: number): boolean {
    checkKey(key);
    const deadline = deadlineOf(now, ms);
    const lease = this.#living(key, now, 'renewed');
    if (lease === null) return false;
    if (deadline > lease.deadline) {
      this.#heap.remove(lease);
      lease.deadline = deadline;
      this.#heap.insert(lease);
    }
    return true;
  }

  /**
   * Ends a lease early.
   * @returns false if there is no such lease
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  release(key: Key): boolean {
    checkKey(key);
    const lease = this.#leases.get(key);
    if (lease === undefined) return false;
    this.#remove(lease);
    return true;
  }

  /**
   * Whether the leased blocks may be read now. False, and counted, if the lease is over or there is
   * none.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  mayRead(key: Key, now: number): boolean {
    checkKey(key);
    checkFinite('now', now);
    return this.#living(key, now, 'read') !== null;
  }

  /**
   * Milliseconds that a lease still lasts, to be told to a peer; 0 if it is over or there is none.
   * Never counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  remaining(key: Key, now: number): number {
    checkKey(key);
    checkFinite('now', now);
    return Math.max(0, (this.#leases.get(key)?.deadline ?? now) - now);
  }

  /**
   * Removes every lease that is over.
   * @returns their keys, the earliest deadline first
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  expire(now: number): Key[] {
    checkFinite('now', now);
    const keys: Key[] = [];
    for (
      let lease = this.#heap.first;
      lease !== undefined && lease.deadline <= now;
      lease = this.#heap.first
    ) {
      this.#remove(lease);
      keys.push(lease.key);
    }
    return keys;
  }

  /** For `util.inspect` and `console.log`: the number of leases, and the next deadline. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('Leases', depth, options, { leases: this.size, nextDeadline: this.nextDeadline });
  }

  #living(key: Key, now: number, what: string): Lease<Key> | null {
    const lease = this.#leases.get(key);
    if (lease !== undefined && lease.deadline > now) return lease;
    this.#anomalies.report('expired-lease', `${show(key)} cannot be ${what} any more`);
    return null;
  }

  #remove(lease: Lease<Key>): void {
    this.#leases.delete(lease.key);
    this.#heap.remove(lease);
  }
}

function checkKey(key: unknown): void {
  if (typeof key === 'string') checkName('key', key, 1);
  else checkInteger('key', key, 0, Number.MAX_SAFE_INTEGER);
}

function deadlineOf(now: number, ms: number): number {
  const deadline = checkFinite('now', now) + checkFinite('ms', ms);
  if (ms > 0 && Number.isFinite(deadline)) return deadline;
  throw badArgument('ms', show(ms), 'more than 0');
}
