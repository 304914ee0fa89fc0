import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';

/**
 * The requests that decode in step, as columns. The columns hold the values that the rules would
 * otherwise compute again for each request in each step.
 */
export class Members {
  readonly requests: Request[] = [];
  /**
   * The number of members. Content after it in `requests` and `slots` is left from earlier members.
   */
  size = 0;
  /** The slot of each, and the token that ends its text. */
  readonly slots: Int32Array;
  readonly ends: Int32Array;
  /** By slot: the tick in whose update a rule must examine it. */
  dueAt: Int32Array;
  /** Names the present list; a plan with its columns remembers it. */
  layout = 1;

  /** @param capacity the maximum number of members */
  constructor(capacity: number) {
    this.slots = new Int32Array(capacity);
    this.ends = new Int32Array(capacity);
    this.dueAt = new Int32Array(capacity);
  }

  /** Appends a request. @param dueAt the tick in whose update a rule examines it first */
  add(request: Request, dueAt: number): void {
    const { slot } = request;
    if (slot >= this.dueAt.length) this.#grow(slot + 1);
    this.requests[this.size] = request;
    this.slots[this.size] = slot;
    this.ends[this.size++] = request.eosTokenId;
    this.dueAt[slot] = dueAt;
    this.layout++;
  }

  /**
   * Removes requests, in their order here; others than members are passed over. A rule looks at what steps in flight
   * bring them.
   */
  remove(leavers: readonly Request[]): void {
    const { requests } = this;
    let kept = -1;
    let from = 0;
    for (const request of leavers) {
      this.dueAt[request.slot] = 0;
      const at = requests.indexOf(request, from);
      if (at < 0 || at >= this.size) continue;
      kept = kept < 0 ? at : this.#move(from, at, kept);
      from = at + 1;
    }
    if (kept < 0) return;
    this.size = this.#move(from, this.size, kept);
    this.layout++;
  }

  /** Removes all members. */
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
    plan.ends.set(this.ends.subarray(0, count));
    plan.kinds.fill(EntryKind.running, 0, count);
    plan.numScheduledTokens.fill(1, 0, count);
    plan.maxOutputTokens.fill(1, 0, count);
    plan.needsAllTokens.fill(0, 0, count);
    plan.steadyLayout = this.layout;
  }

  /** The first tick in whose update a rule must examine a member; `most` if that is earlier. */
  firstDue(most: number): number {
    const { slots, dueAt, size } = this;
    let first = most;
    for (let i = 0; i < size; i++) if (dueAt[slots[i]] < first) first = dueAt[slots[i]];
    return first;
  }

  /** Moves members to the front. @returns index after the last one */
  #move(from: number, until: number, to: number): number {
    const { requests, slots, ends } = this;
    slots.copyWithin(to, from, until);
    ends.copyWithin(to, from, until);
    let at = to;
    for (let i = from; i < until; i++) requests[at++] = requests[i];
    return at;
  }

  #grow(length: number): void {
    const { dueAt } = this;
    this.dueAt = new Int32Array(Math.max(length, 2 * dueAt.length));
    this.dueAt.set(dueAt);
  }
}
