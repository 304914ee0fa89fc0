import { Anomalies } from '../../../base/anomalies.js';
import { BoundedSet } from '../../../base/collections/bounded-set.js';
import { Leases } from '../../../transfer/leases.js';
import type { GrantOrder, LeaseOrders } from '../wire/orders.js';
import { leaseNumber } from '../wire/orders.js';
import { EarlyWords } from './early-words.js';
import type { Grant, GrantEvents, LeaseEnd, Reading } from './grant.js';

/** Number of ended reads that are remembered, so that a repeated question gets the same answer. */
const MAX_DONE = 4096;
/**
 * Number of failed requests that are remembered. The plan that grants their leases may still come.
 */
const MAX_FAILED = 4096;

/** The life of the scheduler side whose leases a rank grants, and their durations. */
export type LeaseTimes = Pick<LeaseOrders, 'life' | 'leaseMs' | 'maxQueueMs'>;

/**
 * The leases of one rank. A lease keeps the blocks of a finished request for a peer. It ends when
 * the peer has read the blocks, gives them back, or is silent for too long. No block is released
 * while a copy of this side reads it.
 *
 * A reader copies at its own risk, and then asks whether the lease was valid until now (`confirm`).
 * Only a yes counts, and it ends the lease. A lease can therefore end at any time, and even a peer
 * that was stopped for an hour reads nothing wrong.
 *
 * Invariants: a grant is in `#byKey` and `#byHandle` until its handle is in `#sent`. A grant is in
 * `#leases` exactly while its state is `leased`. `#byTransfer` has exactly the reading of each
 * grant.
 */
export class Granter {
  readonly counts: Record<'granted' | LeaseEnd, number> = {
    granted: 0,
    read: 0,
    released: 0,
    expired: 0,
    cancelled: 0,
    failed: 0,
  };
  readonly #events: GrantEvents;
  readonly #leases = new Leases<string>(new Anomalies(false));
  readonly #byKey = new Map<string, Grant>();
  readonly #byHandle = new Map<number, Grant>();
  readonly #byTransfer = new Map<string, Grant>();
  readonly #pending = new Set<Grant>();
  readonly #early = new EarlyWords<Reading>();
  /** Transfers that were confirmed. */
  readonly #done = new BoundedSet<string>(MAX_DONE);
  /** Requests whose KV was reported as failed. */
  readonly #failed = new BoundedSet<number>(MAX_FAILED);
  /** The last step that was settled, and the last one whose failures are known. */
  #settled = -1;
  #judged = -1;
  #life = '';
  #leaseMs = 1;
  #maxQueueMs = 1;
  #lastNumber = 0;
  #sent: number[] = [];
  readonly #renewed = new Set<number>();

  constructor(events: GrantEvents) {
    this.#events = events;
  }

  /** Number of grants that are not over. */
  get size(): number {
    return this.#byKey.size;
  }

  /** Whether nothing is left to wait for or to report. */
  get isIdle(): boolean {
    return this.#byKey.size + this.#sent.length === 0;
  }

  /** Number of open reads. */
  get numReadings(): number {
    return this.#byTransfer.size;
  }

  /** Number of leases with early messages. */
  get numEarly(): number {
    return this.#early.size;
  }

  /** Sets the life of the scheduler side and the durations of its leases. */
  begin({ life, leaseMs, maxQueueMs }: LeaseTimes): void {
    this.#life = life;
    this.#leaseMs = leaseMs;
    this.#maxQueueMs = maxQueueMs;
  }

  /** Takes the order to grant a lease when the KV is complete. */
  grant(order: GrantOrder, now: number): void {
    const { key, handle, blocks, fewest, most, readableFrom } = order;
    this.#lastNumber = leaseNumber(this.#life, key) ?? this.#lastNumber;
    const grant: Grant = {
      ...{ key, handle, blocks, fewest, most, readableFrom, orderedAt: now, reading: null },
      ...{ state: 'pending', numCopies: 0, isCancelled: false },
    };
    this.#byKey.set(key, grant);
    this.#byHandle.set(handle, grant);
    this.#pending.add(grant);
    const word = this.#early.remove(key);
    if (word !== undefined && word.reading !== null) this.#read(grant, word.reading);
    if (word?.isReleased) this.#end(grant, 'released', 'released');
    else if (this.#failed.delete(handle) && readableFrom >= 0)
      this.#end(grant, 'failed', 'its KV was not computed');
    else if (readableFrom <= this.#judged) this.#lease(grant, now);
  }

  /** All steps up to this one were executed. */
  settle(step: number): void {
    this.#settled = step;
  }

  /** Whether grants wait for a step. */
  get isWaiting(): boolean {
    return this.#pending.size > 0;
  }

  /**
   * A step was updated, and the requests in `failed` have no valid KV. Grants that waited for this
   * step are leased now.
   */
  judge(failed: readonly number[], now: number): void {
    for (const handle of failed) {
      const grant = this.#byHandle.get(handle);
      if (grant === undefined) this.#failed.add(handle);
      else if (grant.state === 'pending') this.#end(grant, 'failed', 'its KV was not computed');
    }
    this.#judged = this.#settled;
    for (const grant of this.#pending) if (grant.readableFrom <= this.#judged) this.#lease(grant, now);
  }

  /** The request's client has gone (`atOnce` false), or its KV is lost (`atOnce` true). */
  revoke(handle: number, atOnce: boolean): void {
    const grant = this.#byHandle.get(handle);
    if (grant === undefined || grant.state === 'over') return;
    if (atOnce) this.#end(grant, 'failed', 'its KV was lost');
    else if (grant.reading === null) this.#end(grant, 'cancelled', 'cancelled');
    else {
      grant.isCancelled = true;
      this.#events.cancelled(grant.reading, grant);
    }
  }

  /**
   * Renews a lease. @returns `alive`: the blocks are there or will be; `early`: the lease may still
   * be granted; `gone`: neither
   */
  beat(key: string, now: number): 'alive' | 'early' | 'gone' {
    const grant = this.#byKey.get(key);
    if (grant === undefined) return this.#isEarly(key) ? 'early' : 'gone';
    if (grant.state === 'over' || grant.isCancelled) return 'gone';
    if (grant.reading === null && now - grant.orderedAt > this.#maxQueueMs) {
      this.#end(grant, 'expired', 'its reader has queued for too long');
      return 'gone';
    }
    return grant.state === 'pending' || this.#renew(grant, now) ? 'alive' : 'gone';
  }

  /**
   * A peer announces a read. The peer learns now or later whether it may begin. There is one reader
   * at a time. The first reader ends the lease with its confirmation, so a second reader would copy
   * in vain.
   */
  open(key: string, reading: Reading, now: number): void {
    const grant = this.#byKey.get(key);
    if (grant === undefined) {
      const isEarly = this.#isEarly(key);
      if (isEarly && this.#early.read(key, reading)) return;
      this.#events.closed(reading, isEarly ? 'another one reads it' : 'its lease is over');
      return;
    }
    if (grant.reading !== null && grant.reading.transfer !== reading.transfer) {
      this.#events.closed(reading, 'another one reads it');
      return;
    }
    const isOver = grant.state === 'over' || grant.isCancelled;
    if (isOver || (grant.state === 'leased' && !this.#renew(grant, now))) {
      this.#events.closed(reading, 'its lease is over');
      return;
    }
    this.#read(grant, reading);
    if (grant.state === 'leased') this.#events.opened(reading, grant);
  }

  /**
   * Returns the grant whose blocks a transfer reads, and renews its lease. Null: the read is not
   * open.
   */
  reading(transfer: string, now: number): Grant | null {
    const grant = this.#byTransfer.get(transfer);
    if (grant?.state !== 'leased' || !this.#leases.mayRead(grant.key, now)) return null;
    if (!grant.isCancelled) this.#renew(grant, now);
    return grant;
  }

  /** Whether the lease of a read was valid until now. A yes ends the lease. */
  confirm(transfer: string, now: number): boolean {
    if (this.#done.has(transfer)) return true;
    const grant = this.#byTransfer.get(transfer);
    if (grant?.state !== 'leased' || !this.#leases.mayRead(grant.key, now)) return false;
    grant.reading = null;
    this.#byTransfer.delete(transfer);
    this.#done.add(transfer);
    this.#end(grant, 'read', 'it was read');
    return true;
  }

  /**
   * A peer of this life no longer needs the blocks of a lease. The call is ignored while another
   * peer reads them.
   * @returns false if there is no such lease
   */
  release(key: string, life: string): boolean {
    const grant = this.#byKey.get(key);
    if (grant === undefined) return this.#isEarly(key) && this.#early.release(key, life);
    const isOurs = grant.reading === null || grant.reading.life === life;
    if (grant.state !== 'over' && isOurs)
      this.#end(grant, grant.isCancelled ? 'cancelled' : 'released', 'released');
    return true;
  }

  /** A copy of this side begins to read the blocks. */
  beginCopy(grant: Grant): void {
    grant.numCopies++;
  }

  /** A copy of this side is over. */
  endCopy(grant: Grant): void {
    grant.numCopies--;
    if (grant.state === 'over' && grant.numCopies === 0) this.#finish(grant);
  }

  /** Ends the leases whose time is over. */
  expire(now: number): void {
    if (this.#leases.nextDeadline > now) return;
    for (const key of this.#leases.expire(now)) {
      const grant = this.#byKey.get(key);
      if (grant !== undefined)
        this.#end(grant, grant.isCancelled ? 'cancelled' : 'expired', 'its lease is over');
    }
  }

  /** Ends every lease of a worker that is shut down or fenced. */
  endAll(reason: string): void {
    for (const grant of [...this.#byKey.values()])
      if (grant.state !== 'over') this.#end(grant, 'failed', reason);
  }

  /** Drains the handles of requests whose blocks nobody reads any more, since the last call. */
  drainSent(): readonly number[] {
    const sent = this.#sent;
    if (sent.length > 0) this.#sent = [];
    return sent;
  }

  /** Drains the handles of requests whose leases were renewed since the last call. */
  drainRenewed(): readonly number[] {
    if (this.#renewed.size === 0) return [];
    const renewed = [...this.#renewed];
    this.#renewed.clear();
    return renewed;
  }

  #isEarly(key: string): boolean {
    if (this.#life === '') return true;
    const number = leaseNumber(this.#life, key);
    return number !== null && number > this.#lastNumber;
  }

  #read(grant: Grant, reading: Reading): void {
    grant.reading = reading;
    this.#byTransfer.set(reading.transfer, grant);
  }

  #lease(grant: Grant, now: number): void {
    this.#pending.delete(grant);
    this.#leases.grant(grant.key, now, this.#leaseMs);
    grant.state = 'leased';
    this.counts.granted++;
    if (grant.reading !== null) this.#events.opened(grant.reading, grant);
  }

  #renew(grant: Grant, now: number): boolean {
    if (!this.#leases.renew(grant.key, now, (2 / 3) * this.#leaseMs)) return false;
    this.#renewed.add(grant.handle);
    return true;
  }

  #end(grant: Grant, how: LeaseEnd, reason: string): void {
    this.counts[how]++;
    this.#pending.delete(grant);
    if (grant.state === 'leased') this.#leases.release(grant.key);
    grant.state = 'over';
    const { reading } = grant;
    grant.reading = null;
    if (reading !== null) {
      this.#byTransfer.delete(reading.transfer);
      this.#events.closed(reading, reason);
    }
    if (grant.numCopies === 0) this.#finish(grant);
    else this.#events.unwanted(grant);
  }

  #finish(grant: Grant): void {
    this.#byKey.delete(grant.key);
    this.#byHandle.delete(grant.handle);
    this.#renewed.delete(grant.handle);
    this.#sent.push(grant.handle);
  }
}
