import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import type { Queues } from '../state/queues.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { blocksOf, holdersOf, readBlockStates } from './block-map.js';
import { type GroupHolding, readHoldings } from './group-stats.js';

/** The lists of an inspection, by name. */
const LISTS = {
  running: ({ queues }: SchedulerState) => idsOf(queues.running),
  waiting: ({ queues }: SchedulerState) => idsOf(queues.waiting.toArray()),
  skipped: ({ queues }: SchedulerState) => idsOf(queues.allSkipped()),
  requests: ({ requests }: SchedulerState) => [...requests.values()],
  draining: ({ draining }: SchedulerState) => [...draining],
  quarantined: ({ quarantined }: SchedulerState) => [...quarantined],
};

/**
 * A view of a scheduler: its requests, listed by state, and the blocks that they hold. A list is
 * made when it is read for the first time, and then kept. The methods read the scheduler at each
 * call. Strings are external ids. The view is for people, pages and tests, and changes no decision.
 */
export class Inspection {
  /** The ids of requests that are part of steps, in the order of their admission. */
  declare readonly running: string[];
  /** The ids of waiting requests, in admission order. */
  declare readonly waiting: string[];
  /**
   * The ids of requests that wait for an event other than a place, or that a step passed over, in
   * admission order. Idle sessions, loading requests and requests that their connector will wake
   * are included.
   */
  declare readonly skipped: string[];
  /** All unfinished requests, in the order in which they were added. */
  declare readonly requests: Request[];
  /** Finished requests whose blocks are still used by something whose end is awaited. */
  declare readonly draining: Request[];
  /** Finished requests whose blocks are in use without an awaited end. */
  declare readonly quarantined: Request[];
  readonly #s: SchedulerState;
  readonly #checkUsable: () => void;

  /** @internal @param checkUsable throws where native code cannot be asked */
  constructor(s: SchedulerState, checkUsable: () => void) {
    // A list has all requests, which may be very many, and most callers need no list.
    for (const [name, list] of Object.entries(LISTS)) {
      let made: unknown[] | undefined;
      Object.defineProperty(this, name, { enumerable: true, get: () => (made ??= list(s)) });
    }
    this.#s = s;
    this.#checkUsable = checkUsable;
  }

  /**
   * The finished request with this id whose blocks something still uses. If there are several, the
   * request that finished last. A quarantined request is returned only if there is no other.
   */
  findFinished(id: string): Request | undefined {
    let found: Request | undefined;
    for (const requests of [this.#s.quarantined, this.#s.draining])
      for (const request of requests) if (request.id === id) found = request;
    return found;
  }

  /**
   * The blocks that a request holds, counted for each KV cache group. Blocks that it only keeps for
   * a transfer, after it lost its rows, are not counted.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  holdingsOf(request: Request): GroupHolding[] {
    this.#checkUsable();
    return readHoldings(this.#s, request);
  }

  /**
   * The ids of the blocks that a request holds, in a new array. The blocks that it keeps for a
   * transfer are included.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  blocksOf(request: Request): Int32Array {
    this.#checkUsable();
    return blocksOf(this.#s, request);
  }

  /**
   * The requests that hold a block, finished requests included. The cost grows with the number of
   * requests.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  holdersOf(block: number): Request[] {
    this.#checkUsable();
    return holdersOf(this.#s, block);
  }

  /**
   * The state of every block as one byte, by the id of the block, in a new array. 0: free. 1: free
   * and still found by its hash. 2: held by a request. 3: used by a transfer. 4: quarantined. 5:
   * never given out. The cost grows with the pool.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  blockStates(): Uint8Array {
    this.#checkUsable();
    const states = new Uint8Array(this.#s.config.numBlocks);
    readBlockStates(this.#s, states);
    return states;
  }

  /**
   * The KV cache group of every block, by its id. The group's row holds the block, or the block
   * carries a hash for it; 255 = none. Null without `kvGroups`. The cost grows with the pool, and
   * with the rows of all requests.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  blockGroups(): Uint8Array | null {
    this.#checkUsable();
    return this.#s.config.kvGroups === null ? null : this.#s.core.native.groupsOfBlocks();
  }
}

function idsOf(requests: readonly Request[]): string[] {
  return requests.map((request) => request.id);
}

/**
 * Requests of one queue that `placeInLine` examines: enough to say who is next, and quick however
 * long the queue is.
 */
const MOST_LOOKS = 1000;

/** The place of a request that waits to be admitted. */
export interface PlaceInLine {
  /**
   * Requests in front of it; a lower bound if `isExact` is false, because there are 1,000 or more
   * in one queue.
   */
  ahead: number;
  isExact: boolean;
  /**
   * Requests in line, itself included. Requests that wait for a load, for input, or to be woken by their connector
   * are not in line.
   */
  length: number;
  /** The first request in line that does not wait for an external event. */
  head: Request;
}

/** The place of a request that is in line. Examines 1,000 requests per queue at most. */
export function placeInLine({ queues }: SchedulerState, request: Request): PlaceInLine {
  const length = queues.waiting.length + queues.skipped.length;
  return { ...queues.countAhead(request, MOST_LOOKS), length, head: headOfLine(queues) ?? request };
}

function headOfLine(queues: Queues): Request | null {
  const next = queues.nextQueue()?.peek() ?? null;
  if (next === null || !isHeld(next)) return next;
  let first = queues.skipped.peek();
  for (let looks = 0; first !== null && isHeld(first) && looks < MOST_LOOKS; looks++) first = first.next;
  return first === null || isHeld(first) ? queues.waiting.peek() : first;
}

/** Whether the next step will pass over the request, as far as is known before the step. */
function isHeld({ status, asksLater, waitsForAdapter }: Request): boolean {
  return isBlocked(status) || asksLater || waitsForAdapter;
}

/** Requests that a step could advance, see `Scheduler.numUnfinished`. */
export function numUnfinished({ pauseMode, queues }: SchedulerState): number {
  if (pauseMode === 'all') return 0;
  if (pauseMode === 'new') return queues.running.length;
  // Sessions that wait for input are in `idle`, and do not count.
  const apart = queues.loading.size + queues.deferred.size;
  return queues.running.length + queues.waiting.length + queues.skipped.length + apart;
}

/**
 * Whether some request could be scheduled: it runs, or it waits only for room and for no external
 * event. If there is such a request and step after step schedules nothing, something is wrong.
 */
export function hasRunnable({ pauseMode, queues, borrower }: SchedulerState): boolean {
  if (pauseMode === 'all') return false;
  // A request that waits for a chunk of a borrowing adapter waits for an external event.
  const isReady = ({ status }: Request) => borrower === null || status !== 'WAITING_FOR_CHUNK';
  if (queues.running.some(isReady)) return true;
  if (pauseMode === 'new') return false;
  if (borrower === null ? queues.waiting.length > 0 : queues.waiting.toArray().some(isReady)) return true;
  return queues.skipped
    .toArray()
    .some((request) => isReady(request) && !isBlocked(request.status) && !request.asksLater);
}

/** Whether further steps can still change or report anything, see `Scheduler.hasWork`. */
export function hasWork(s: SchedulerState): boolean {
  const unreported = s.finishedIds.length + s.unreported.length;
  if (numUnfinished(s) + s.inFlight.length + unreported + s.draining.size > 0) return true;
  return s.connector?.askPendingWork() === true;
}
