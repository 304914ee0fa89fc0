import { BlockstepError, show } from '../../base/errors.js';
import type { RequestKey } from '../transport/messages.js';
import type { PipelineRequest } from './pipeline-request.js';

/**
 * The unfinished requests of an orchestrator, by key and by id.
 *
 * Invariant: `#byKey` and `#byId` have the same requests; `#timed` has the requests with a time
 * limit.
 */
export class Roster {
  readonly #byKey = new Map<RequestKey, PipelineRequest>();
  readonly #byId = new Map<string, PipelineRequest>();
  readonly #timed = new Set<PipelineRequest>();

  get size(): number {
    return this.#byKey.size;
  }

  /** Returns a copy of all requests, in the order of submission. */
  all(): PipelineRequest[] {
    return [...this.#byKey.values()];
  }

  byKey(key: RequestKey): PipelineRequest | undefined {
    return this.#byKey.get(key);
  }

  byId(id: string): PipelineRequest | undefined {
    return this.#byId.get(id);
  }

  /**
   * Checks that another request may be added.
   * @throws ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_OVERLOADED
   */
  checkRoom(id: string, maxRequests: number): void {
    if (this.#byId.has(id))
      throw new BlockstepError(
        'ERR_BLOCKSTEP_DUPLICATE_ID',
        `id ${show(id)} belongs to an unfinished request`,
      );
    if (this.size < maxRequests) return;
    const why = `${this.size} requests are unfinished, the most that maxRequests allows`;
    throw new BlockstepError('ERR_BLOCKSTEP_OVERLOADED', why, { retryAfterMs: null });
  }

  add(request: PipelineRequest): void {
    this.#byKey.set(request.key, request);
    this.#byId.set(request.id, request);
    if (request.dueAt !== Number.POSITIVE_INFINITY) this.#timed.add(request);
  }

  remove(request: PipelineRequest): void {
    this.#byKey.delete(request.key);
    this.#byId.delete(request.id);
    this.#timed.delete(request);
  }

  /** Returns the requests whose time is over. */
  overdue(now: number): PipelineRequest[] {
    return this.#timed.size === 0 ? [] : [...this.#timed].filter(({ dueAt }) => dueAt <= now);
  }

  /** When the first request must end, in milliseconds; Infinity: none has a limit. */
  get nextDue(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#timed) if (dueAt < next) next = dueAt;
    return next;
  }

  /** Returns an id that no unfinished request has. @param number the first number to try */
  newId(number: number): string {
    let n = number;
    while (this.#byId.has(`request-${n}`)) n++;
    return `request-${n}`;
  }
}
