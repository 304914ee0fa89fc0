/**
 * `blockstep/borrow`: the interface of an adapter that moves the requests of a scheduler between
 * queues of its own.
 *
 * @module
 */
export type { BorrowingAdapter, BorrowQueue, BorrowQueues } from './scheduler/borrow/borrowing-adapter.js';
export { purgeUntracked } from './scheduler/state/guards.js';
