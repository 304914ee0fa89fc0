import type { Rng } from '../rng.js';

/** How a borrowing adapter behaves. */
export interface BorrowerShape {
  /** Probability that it holds a request up in one step. */
  holds: number;
  /** Probability of each thing that it may do wrong. */
  errs: number;
}

/** @param share of the runs that have a borrowing adapter */
export function drawBorrower(rng: Rng, share: number): BorrowerShape | null {
  if (!rng.chance(share)) return null;
  return { holds: rng.pick([0.05, 0.2, 0.5]), errs: rng.pick([0, 0.01, 0.05]) };
}

/** The anomalies that a scheduler counts where a borrowing adapter errs. */
export const CAUSED_BY_BORROWERS: readonly string[] = [
  ...['borrower-failed', 'lost-request', 'misplaced-request', 'purged-untracked', 'realigned-status'],
  'swept-running',
];
