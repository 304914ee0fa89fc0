import { describeError } from '../../base/errors.js';

/** A child that failed, and its error. */
export interface ChildFailure {
  /** Index of the child, as in `SchedulerConnector.reporters`. */
  readonly child: number;
  /** The name of the child, for people. */
  readonly name: string;
  /** The thrown error. */
  readonly error: unknown;
}

/**
 * Thrown by a composite connector when some of its children failed and the others did not. Each
 * side counts it as a failure of the connector. Apart from that, a method of the scheduler side
 * that has an answer counts as having returned `answer`. A worker's `startLoads` costs the loads of
 * the failed children only, and its `getFinished` counts as having returned `answer`.
 */
export class ChildrenError extends Error {
  /** The children that failed. */
  readonly failures: readonly ChildFailure[];
  /** The combined answer of the other children. */
  readonly answer: unknown;

  /** @param answer the combined answer of the others; undefined where there is no answer */
  constructor(failures: readonly ChildFailure[], answer?: unknown) {
    super(describeFailures(failures));
    this.name = 'ChildrenError';
    this.failures = failures;
    this.answer = answer;
  }

  /** Indexes of the children that failed. */
  get children(): readonly number[] {
    return this.failures.map(({ child }) => child);
  }
}

/** A text with each failed child and its error. */
export function describeFailures(failures: readonly ChildFailure[]): string {
  return failures
    .map(({ child, name, error }) => `child ${child} (${name}): ${describeError(error)}`)
    .join('; ');
}
