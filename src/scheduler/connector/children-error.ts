import { describeError } from '../../base/errors.js';

/** A child that failed, and what it threw. */
export interface ChildFailure {
  /** Index of the child, as in `SchedulerConnector.reporters`. */
  readonly child: number;
  /** What people call the child. */
  readonly name: string;
  /** What the child threw. */
  readonly error: unknown;
}

/**
 * Thrown by a connector made of several when some of its children failed and the others did not. Each side counts it as
 * a failure of the connector. Apart from that a method of the scheduler side that has an answer counts as having given
 * `answer`, and a worker's `startLoads` costs the loads of the failed children only; its `getFinished` counts as having
 * said `answer`.
 */
export class ChildrenError extends Error {
  /** The children that failed. */
  readonly failures: readonly ChildFailure[];
  /** What the other children answered together. */
  readonly answer: unknown;

  /** @param answer what the others answered together; undefined where there is no answer */
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

/** Names each child that failed, and says what it threw. */
export function describeFailures(failures: readonly ChildFailure[]): string {
  return failures
    .map(({ child, name, error }) => `child ${child} (${name}): ${describeError(error)}`)
    .join('; ');
}
