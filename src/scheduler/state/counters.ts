import { FinishCode } from '../request/status.js';

/** Counts of events that leave no trace in the state, since the start. `SchedulerStats` describes each. */
export class Counters {
  prefixCacheRequests = 0;
  prefixCacheQueries = 0;
  prefixCacheHits = 0;
  preemptedRequests = 0;
  preemptedQueries = 0;
  preemptedHits = 0;
  numPreemptions = 0;
  rowStalls = 0;
  promptTokens = 0;
  promptTokensCached = 0;
  promptTokensLoaded = 0;
  generationTokens = 0;
  droppedOutputs = 0;
  specDrafts = 0;
  specDraftTokens = 0;
  specAcceptedTokens = 0;
  sessionChunks = 0;
  sessionsReclaimed = 0;
  queueTimeouts = 0;
  requestTimeouts = 0;
  streamingInputTimeouts = 0;
  grammarTimeouts = 0;
  grammarRejections = 0;
  loadTimeouts = 0;
  failedLoads = 0;
  loadsReclaimed = 0;
  quarantines = 0;
  externalQueries = 0;
  externalHits = 0;
  refusedMatches = 0;
  finished: Float64Array = new Float64Array(Object.keys(FinishCode).length);
}
