/**
 * The words of a step that the GPU decides. `NativeCore.submitDecision` takes a request,
 * `NativeCore.pollDecision` returns the answer. Both are Int32Arrays: a head, then one record for
 * each admission. native/host/decided/decided.h has the same names.
 */

/** Words in the head of a request. Words without a name are 0. */
export const ASK_HEAD = 12;

/** Words in the head of an answer. Words without a name are 0. */
export const ANSWER_HEAD = 8;

/** Indexes into the head of a request. */
export const Ask = {
  /**
   * Tokens that all admissions together may get: the rest of the step's budget after the running
   * entries.
   */
  tokenBudget: 0,
  /** Admissions that may enter `running`. */
  requestBudget: 1,
  /** Bits of `AskFlag`. */
  flags: 2,
  /** longPrefillTokenThreshold: most tokens that one admission gets in this step; 0 = no limit. */
  prefillLimit: 3,
  /**
   * Most tokens that one request, running or admitted, can ever have KV slots for; 1 to
   * maxModelLen.
   */
  slotLimit: 4,
  numAdmissions: 5,
  /**
   * Tokens of the budget that each admission costs on top of its own, unless it loads first
   * (`draftSlots`).
   */
  draftSlots: 6,
  /**
   * Tokens that an admission of one token gets on top, if it has `AdmissionFlag.pads`: placeholders
   * for drafts (`padDecode`).
   */
  padding: 7,
  /** Blocks that every admission leaves free while other requests run (`watermark`). */
  spareBlocks: 8,
  /** Blocks that must be free beside those of an admission that loads first (`loadReservation`). */
  keptBlocks: 9,
} as const;

/** Bits of `Ask.flags`. */
export const AskFlag = {
  /** An admission with more tokens than the rest of the budget gets this rest. */
  chunkedPrefill: 1,
  /**
   * An admission needs free blocks for all its tokens, and not only for its first chunk
   * (reserveFullIsl).
   */
  reserveAll: 2,
  /**
   * The last block of every hit is computed again. This does not apply to hits that the admission
   * names itself (`Admission.numHits`).
   */
  dropLastHit: 4,
  /**
   * Every admission gets slots for drafts, unless it loads first (`admissionLookahead`). Otherwise
   * only admissions with computed tokens do.
   */
  aheadAlways: 8,
  /**
   * Requests run before anything is admitted, so that `Ask.spareBlocks` stay free from the first
   * admission on.
   */
  othersRun: 16,
} as const;

/**
 * Words of the record of one admission in a request. Admissions are in order, the best one first.
 */
export const ADMISSION_WORDS = 5;

/** Indexes into the record of an admission in a request. */
export const Admission = {
  slot: 0,
  /** Tokens that are computed already. 0: none, so the prefix cache is asked. */
  numComputedTokens: 1,
  /** Tokens that come from elsewhere, behind the named hits. */
  numExternalTokens: 2,
  /**
   * Cached blocks that the admission names: -1 = as many as the prefix cache has. Otherwise exactly
   * the first so many; if fewer are cached, the decision stops with `hits`.
   */
  numHits: 3,
  /** Bits of `AdmissionFlag`. */
  flags: 4,
} as const;

/** Bits of `Admission.flags`. */
export const AdmissionFlag = {
  /**
   * The external tokens are still to be loaded. The admission gets blocks for them, computes and
   * publishes nothing in this step, and counts against neither the request budget nor the token
   * budget.
   */
  loadsFirst: 1,
  /**
   * If one token is left to compute, the admission gets `Ask.padding` tokens on top. It stops with
   * `budget` if they do not fit.
   */
  pads: 2,
} as const;

/** Indexes into the head of an answer. */
export const Answer = {
  /** A `DecisionStop`. */
  stop: 0,
  /** Entries of the frame that were decided, from `from` on. */
  numRun: 1,
  /** Admissions that were looked at. The last one of them may not have been admitted. */
  numAnswers: 2,
  /** Admissions that were admitted. */
  numAdmitted: 3,
} as const;

/** Words of the record of one admission in an answer. Records are in the order of the request. */
export const ANSWER_WORDS = 6;

/** Indexes into the record of an admission in an answer. */
export const Admitted = {
  /**
   * The row that the admission got. -1: the request was not admitted, and every other word but
   * numHits is 0.
   */
  row: 0,
  /** Cached blocks that the admission got, or, if it was not admitted, that were found for it. */
  numHits: 1,
  /** Tokens to compute in this step, padding included. */
  numTokens: 2,
  /** Blocks in its row. */
  numBlocks: 3,
  /**
   * How many of the blocks in its row were taken from the free queue. They are the last blocks of
   * the row.
   */
  numNewBlocks: 4,
  /** Tokens that are computed before this step: cached, external, or computed earlier. */
  numComputedTokens: 5,
} as const;

/** Why a decision ended early. Its results up to that point are valid. */
export const DecisionStop = {
  /** The whole request was decided. */
  none: 0,
  /** The free blocks do not suffice for the next entry of the frame. No admission was looked at. */
  running: 1,
  /**
   * No token of the budget is left, or too few for the next admission, which is padded or cannot be
   * chunked.
   */
  budget: 2,
  /** The limit of admissions that may enter `running` is reached. */
  requests: 3,
  /** The free blocks do not suffice for the next admission. */
  blocks: 4,
  /** The free blocks suffice for the next admission, but no row is free. */
  rows: 5,
  /** Fewer blocks are cached than the next admission names. */
  hits: 6,
  /**
   * The request does not fit into one batch. Request the rest in another batch. Each batch makes
   * progress.
   */
  batch: 7,
} as const;
