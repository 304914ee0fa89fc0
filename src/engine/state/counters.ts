/** Events that leave no trace in the state, counted since the start. */
export class EngineCounters {
  /** Steps that were executed and taken. */
  steps = 0;
  /** Of these, those that failed as a whole. */
  failedSteps = 0;
  /** Requests that the executor failed, by row or by step. */
  failedRequests = 0;
  /** Requests that their clients stopped; the scheduler counts them as aborted. */
  stopped = 0;
  /** Answers of the executor that were no answers, or wrong for some rows. */
  wrongAnswers = 0;
  /** Answers that came after the engine had given the step up. */
  lateAnswers = 0;
  /** Calls of the connector's workers that threw, or answered what cannot be read. */
  workerFailures = 0;
  /** Times that a reader was woken by a step. */
  wakes = 0;
  /** Submissions that were refused with ERR_BLOCKSTEP_OVERLOADED. */
  overloads = 0;
}
