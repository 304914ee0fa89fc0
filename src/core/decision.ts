/**
 * A step that the GPU decides: the request that `NativeCore.submitDecision` is given, and the answer that `pollDecision` brings.
 * Both are Int32Arrays with a head and one record for each admission. native/host/decided/decided.h has the same names.
 */

/** Number of words in the head of a request and of an answer. Words without a name are 0. */
export const DECISION_HEAD = 8;

/** The head of a request. */
export const Ask = {
  /** Tokens that the admissions may be given together: what the running entries leave. */
  tokenBudget: 0,
  /** How many of them may enter `running`. */
  requestBudget: 1,
  /** Bits of `AskFlag`. */
  flags: 2,
  /** longPrefillTokenThreshold; 0: no such limit. */
  prefillLimit: 3,
  /** Tokens of one request that can ever have room, running or admitted; 1 to maxModelLen. */
  slotLimit: 4,
  numAdmissions: 5,
} as const;

export const AskFlag = {
  /** An admission that is larger than the budget gets what is left of it. */
  chunkedPrefill: 1,
  /** An admission needs free blocks for all its tokens, not only for its first chunk (reserveFullIsl). */
  reserveAll: 2,
  /** The last block of every hit is computed again. Not of hits that the admission names itself. */
  dropLastHit: 4,
} as const;

/** Words of an admission of a request, the best one first. */
export const ADMISSION_WORDS = 5;

/** Indexes into an admission of a request. */
export const Admission = {
  slot: 0,
  /** 0: nothing is computed, and the prefix cache is asked. */
  numComputedTokens: 1,
  /** Tokens that come from elsewhere, behind the named hits. */
  numExternalTokens: 2,
  /** -1: as many cached blocks as there are. Otherwise exactly the first so many; stop `hits` if they are fewer. */
  numHits: 3,
  /** Bits of `AdmissionFlag`. */
  flags: 4,
} as const;

export const AdmissionFlag = {
  /**
   * The external tokens are still to be loaded: it gets blocks for them, computes and publishes nothing now, and counts
   * neither as a request nor in tokens.
   */
  loadsFirst: 1,
} as const;

/** The head of an answer. */
export const Answer = {
  /** A `DecisionStop`. */
  stop: 0,
  /** Entries of the frame that were done, from `from` on. */
  numRun: 1,
  /** Admissions that were looked at. The last of them may not have been admitted. */
  numAnswers: 2,
  numAdmitted: 3,
} as const;

/** Words of what became of an admission, in the order of the request. */
export const ANSWER_WORDS = 6;

/** Indexes into what became of an admission. */
export const Admitted = {
  /** -1: it was not admitted, and all but numHits is 0. */
  row: 0,
  /** Cached blocks that it has got, or that were found. */
  numHits: 1,
  /** Tokens to compute in this step. */
  numTokens: 2,
  /** Blocks of its row. */
  numBlocks: 3,
  /** How many of these were taken from the queue; they are the last ones. */
  numNewBlocks: 4,
  /** Tokens that are computed before this step: cached, external, or computed earlier. */
  numComputedTokens: 5,
} as const;

/** Why a decision ends before all that was asked for is decided. What was decided before that stands. */
export const DecisionStop = {
  none: 0,
  /** The free blocks do not suffice for the next entry of the frame; no admission was looked at. */
  running: 1,
  /** No token is left, or too few for an admission while prefills are not chunked. */
  budget: 2,
  /** As many were admitted as may enter `running`. */
  requests: 3,
  /** The free blocks do not suffice for the admission. */
  blocks: 4,
  /** The free blocks suffice for the admission, and no row is free. */
  rows: 5,
  /** Fewer blocks are cached than the admission names. */
  hits: 6,
  /** More was asked for than fits into one batch: ask for the rest in another. There is always progress. */
  batch: 7,
} as const;
