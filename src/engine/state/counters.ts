/** Events counted since the start of the engine. */
export class EngineCounters {
  /** Steps whose answers or failures were processed. */
  steps = 0;
  /** Of these, steps that failed as a whole. */
  failedSteps = 0;
  /** Requests that the executor failed, by row or by step. */
  failedRequests = 0;
  /** Requests stopped by their clients (`RequestStream.stop`); the scheduler counts them as aborted. */
  stopped = 0;
  /** Errors in answers of the executor: unreadable answers, wrong rows, wrong extras or drafts, errors of `requestsFinished`. */
  wrongAnswers = 0;
  /** Answers that came after the engine had abandoned the step. */
  lateAnswers = 0;
  /** Calls of the connector's workers that threw, or returned reports that cannot be read. */
  workerFailures = 0;
  /** Times that a row of outputs came for a stream with a waiting reader. */
  wakes = 0;
  /** Submissions that were refused with ERR_BLOCKSTEP_OVERLOADED. */
  overloads = 0;
}
