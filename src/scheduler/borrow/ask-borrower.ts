import type { Anomalies } from '../../base/anomalies.js';
import { badArg } from '../../base/checks.js';
import { describeError, show } from '../../base/errors.js';
import { type Bound, bindMethods } from '../../base/foreign/foreign-method.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { BorrowingAdapter, BorrowQueues } from './borrowing-adapter.js';

const REQUIRED = ['processPendingChunks', 'restoreQueues'] as const;
const OPTIONAL = ['postprocess', 'finishRequests', 'cleanupReceiver'] as const;
const NOTHING: readonly Request[][] = [];

/** A checked borrowing adapter. Its methods were looked up once, and are called on the adapter itself. */
export interface BorrowerMethods
  extends Record<(typeof REQUIRED)[number], Bound>,
    Partial<Record<(typeof OPTIONAL)[number], Bound>> {
  /** Reads `parked`, which may be a getter that throws. */
  readonly parked: () => unknown;
}

/**
 * Checks a borrowing adapter, and looks up its methods.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the method or property that is missing or wrong
 */
export function bindBorrower(borrower: BorrowingAdapter): BorrowerMethods {
  if (typeof borrower !== 'object' || borrower === null)
    throw badArg('borrower', borrower, 'an object with the methods of a BorrowingAdapter');
  const bound = bindMethods('borrower', borrower, REQUIRED, OPTIONAL);
  const { parked } = borrower;
  if (!isParked(parked)) throw badArg('borrower.parked', parked, 'a list of arrays');
  return { ...bound, parked: () => borrower.parked };
}

/**
 * The only place that calls a scheduler's borrowing adapter, inside an exception boundary: an error
 * of the adapter is counted as an anomaly.
 */
export class AskedBorrower {
  readonly #methods: BorrowerMethods;
  readonly #anomalies: Anomalies;
  /** Ended requests that were not yet reported to the adapter. */
  readonly #ended: Request[] = [];
  /** Requests that are in `#ended`, or have been. */
  readonly #known = new WeakSet<Request>();

  constructor(methods: BorrowerMethods, anomalies: Anomalies) {
    this.#methods = methods;
    this.#anomalies = anomalies;
  }

  /** The arrays in which the adapter keeps the requests that it took out; none if it gives none. */
  get parked(): readonly Request[][] {
    let parked: unknown = NOTHING;
    this.#try('parked', () => {
      parked = this.#methods.parked();
      if (!isParked(parked)) throw new TypeError(`it is ${show(parked)}, not a list of arrays`);
    });
    return isParked(parked) ? parked : NOTHING;
  }

  /**
   * Lets the adapter take requests out. @returns false if it threw, so that its further intentions
   * are unknown
   */
  askProcess(queues: BorrowQueues): boolean {
    return this.#try('processPendingChunks', () => this.#methods.processPendingChunks(queues));
  }

  /** Lets the adapter put requests back. */
  askRestore(queues: BorrowQueues): void {
    this.#try('restoreQueues', () => this.#methods.restoreQueues(queues));
  }

  /** Reports a plan to the adapter. */
  tellPlan(plan: Plan): void {
    const { postprocess } = this.#methods;
    if (postprocess !== undefined) this.#try('postprocess', () => postprocess(plan));
  }

  /** Reports to the adapter that requests are about to end. */
  tellFinish(requests: readonly Request[]): void {
    const { finishRequests } = this.#methods;
    if (finishRequests !== undefined) this.#try('finishRequests', () => finishRequests([...requests]));
  }

  /**
   * Notes that a request has ended, or was never known; `cleanUp` reports it to the adapter. A
   * second call does nothing.
   */
  noteEnded(request: Request): void {
    if (this.#known.has(request)) return;
    this.#known.add(request);
    this.#ended.push(request);
  }

  /**
   * Reports the requests that have ended since the last call to the adapter. Must not be called in
   * the middle of a change.
   */
  cleanUp(): void {
    if (this.#ended.length === 0) return;
    const { cleanupReceiver } = this.#methods;
    for (const request of this.#ended.splice(0))
      if (cleanupReceiver !== undefined)
        this.#try('cleanupReceiver', () => cleanupReceiver(request), request);
  }

  #try(what: string, call: () => unknown, about: Request | null = null): boolean {
    try {
      call();
      return true;
    } catch (error) {
      const detail = `the borrowing adapter threw at ${what}: ${describeError(error)}`;
      this.#anomalies.report('borrower-failed', detail, about);
      return false;
    }
  }
}

function isParked(parked: unknown): parked is readonly Request[][] {
  return Array.isArray(parked) && parked.every((queue) => Array.isArray(queue));
}
