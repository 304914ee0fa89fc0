import type { LeaseOrders, LoadOrder, Order } from './orders.js';

const NONE: readonly never[] = Object.freeze([]);

/** What stands in the metadata of every plan. */
export type Heading = Pick<LeaseOrders, 'settings' | 'life' | 'leaseMs' | 'maxQueueMs'>;

/**
 * The orders that some rank has not acknowledged. Each is part of every plan's metadata until then, so none is lost with a
 * plan that never reached the workers; a worker takes each once, by its number.
 */
export class OrderLog {
  /** Orders that each rank has taken. */
  readonly #taken: number[];
  #orders: Order[] = [];
  /** Number of the first of `#orders`. */
  #first = 0;
  /** The metadata of a plan without orders, made once: most plans have none. */
  #empty: LeaseOrders | null = null;

  constructor(numRanks: number) {
    this.#taken = Array.from({ length: numRanks }, () => 0);
  }

  /** Orders that some rank has not acknowledged. */
  get size(): number {
    return this.#orders.length;
  }

  /** Adds an order. It stands in the metadata from the next plan on. */
  add(order: Order): void {
    this.#orders.push(order);
    this.#empty = null;
  }

  /** Takes that a rank has taken all orders below a number. */
  acknowledge(rank: number, taken: number): void {
    if (!(taken > (this.#taken[rank] ?? Number.POSITIVE_INFINITY))) return;
    this.#taken[rank] = taken;
    const all = Math.min(...this.#taken) - this.#first;
    if (all <= 0) return;
    this.#orders.splice(0, all);
    this.#first += all;
  }

  /** The metadata of a plan. */
  metadata(heading: Heading, loads: readonly LoadOrder[]): LeaseOrders {
    if (this.#orders.length === 0 && loads.length === 0) {
      this.#empty ??= { ...heading, first: this.#first, orders: NONE, loads: NONE };
      return this.#empty;
    }
    return { ...heading, first: this.#first, orders: [...this.#orders], loads };
  }
}
