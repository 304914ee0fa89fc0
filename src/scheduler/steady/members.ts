import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { RequestClock } from '../request/request-clock.js';

/** The requests that decode in step, as columns: what the rules would find out anew for each of them in each step. */
export class Members {
  readonly requests: Request[] = [];
  /** How many there are: what stands behind them in `requests` and `slots` is left from others. */
  size = 0;
  /** The slot of each. */
  readonly slots: Int32Array;
  /** By slot: the token that ends its text, and the tick in whose update a rule has to look at it. */
  ends: Int32Array;
  dueAt: Int32Array;
  /** Names the present list; a plan that has its columns remembers it. */
  layout = 1;
  readonly #clock: RequestClock;

  /** @param capacity most members. @param clock the clock of every member */
  constructor(capacity: number, clock: RequestClock) {
    this.slots = new Int32Array(capacity);
    this.ends = new Int32Array(capacity);
    this.dueAt = new Int32Array(capacity);
    this.#clock = clock;
  }

  /** Appends a request that has the clock. */
  add(request: Request, dueAt: number): void {
    const { slot } = request;
    if (slot >= this.ends.length) this.#grow(slot + 1);
    this.requests[this.size] = request;
    this.slots[this.size++] = slot;
    this.ends[slot] = request.eosTokenId;
    this.dueAt[slot] = dueAt;
    this.layout++;
  }

  /** Takes out everybody who has the clock no more. A rule looks at what steps in flight bring them. */
  takeOut(): void {
    const { requests, slots } = this;
    let kept = 0;
    for (let i = 0; i < this.size; i++) {
      const request = requests[i];
      if (request.clock !== this.#clock) this.dueAt[request.slot] = 0;
      else {
        if (kept < i) {
          requests[kept] = request;
          slots[kept] = slots[i];
        }
        kept++;
      }
    }
    this.size = kept;
    this.layout++;
  }

  /** Takes out all. */
  clear(): void {
    this.size = 0;
    this.layout++;
  }

  /** Fills the columns of a plan that `NativeCore.run` does not write. */
  fill(plan: Plan): void {
    const count = this.size;
    const { requests } = plan;
    for (let i = 0; i < count; i++) if (requests[i] !== this.requests[i]) requests[i] = this.requests[i];
    plan.slots.set(this.slots.subarray(0, count));
    plan.kinds.fill(EntryKind.running, 0, count);
    plan.numScheduledTokens.fill(1, 0, count);
    plan.maxOutputTokens.fill(1, 0, count);
    plan.needsAllTokens.fill(0, 0, count);
    plan.steadyLayout = this.layout;
  }

  /** The first tick in whose update a rule has to look at a member; `most` if that is earlier. */
  firstDue(most: number): number {
    const { slots, dueAt, size } = this;
    let first = most;
    for (let i = 0; i < size; i++) if (dueAt[slots[i]] < first) first = dueAt[slots[i]];
    return first;
  }

  #grow(length: number): void {
    const size = Math.max(length, 2 * this.ends.length);
    const { ends, dueAt } = this;
    this.ends = new Int32Array(size);
    this.dueAt = new Int32Array(size);
    this.ends.set(ends);
    this.dueAt.set(dueAt);
  }
}
