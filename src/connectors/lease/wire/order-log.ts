import type { LeaseOrders, LoadOrder, Order } from './orders.js';

const NONE: readonly never[] = Object.freeze([]);

/** The constant fields of every plan's metadata. */
export type Heading = Pick<LeaseOrders, 'settings' | 'life' | 'leaseMs' | 'maxQueueMs'>;

/**
 * The orders that some rank has not acknowledged. Each order is part of every plan's metadata until
 * then, so a plan that never reached the workers loses no order. The number of an order ensures
 * that a worker takes it once.
 */
export class OrderLog {
  /** Number of orders that each rank has taken. */
  readonly #taken: number[];
  #orders: Order[] = [];
  /** Number of the first of `#orders`. */
  #first = 0;
  /** The metadata of a plan without orders, made once, because most plans have none. */
  #empty: LeaseOrders | null = null;

  constructor(numRanks: number) {
    this.#taken = Array.from({ length: numRanks }, () => 0);
  }

  /** Number of orders that some rank has not acknowledged. */
  get size(): number {
    return this.#orders.length;
  }

  /** Adds an order. The metadata contains it from the next plan on. */
  add(order: Order): void {
    this.#orders.push(order);
    this.#empty = null;
  }

  /** A rank has taken all orders below a number. */
  acknowledge(rank: number, taken: number): void {
    if (!(taken > (this.#taken[rank] ?? Number.POSITIVE_INFINITY))) return;
    this.#taken[rank] = taken;
    const all = Math.min(...this.#taken) - this.#first;
    if (all <= 0) return;
    this.#orders.splice(0, all);
    this.#first += all;
  }

  /** Returns the metadata of a plan. */
  metadata(heading: Heading, loads: readonly LoadOrder[]): LeaseOrders {
    if (this.#orders.length === 0 && loads.length === 0) {
      this.#empty ??= { ...heading, first: this.#first, orders: NONE, loads: NONE };
      return this.#empty;
    }
    return { ...heading, first: this.#first, orders: [...this.#orders], loads };
  }
}
