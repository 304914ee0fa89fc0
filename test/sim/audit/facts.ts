// The input of the auditor, as plain data; a violation.
import type { GroupRule } from './group-rules.js';

/**
 * The auditor's input is plain data, copied from its source. Nothing here, and nothing in this
 * folder, imports from src; a test checks that.
 */

/** The limits and rules that follow from the configuration. */
export interface Rules {
  numBlocks: number;
  /** Tokens of a block of the first group. */
  blockSize: number;
  /** KV cache groups; one group of full attention if the configuration has none. */
  groups: readonly GroupRule[];
  /** Tokens beside those of a step for which a group with a window keeps places. */
  drafts: number;
  /** Steps whose tokens let nothing go of a window yet: the one that is planned, or as many as may be in flight. */
  stepsKept: number;
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  maxModelLen: number;
  numRows: number;
  pipelineDepth: number;
  maxDrafts: number;
  /** Adapters that may run in one step, 0 = any number. */
  maxAdapters: number;
  /** Ranks that report, by child; null without a connector. */
  reporters: readonly (readonly number[])[] | null;
  loadFailurePolicy: 'fail' | 'recompute';
  /** Milliseconds, 0 = none. */
  loadDeadline: number;
  inputDeadline: number;
  grammarDeadline: number;
  queueDeadline: number;
  reclaimDeadline: number;
  /** An abort of a finished request whose blocks are in use asks the connector to stop. */
  cancels: boolean;
  version: VersionFacts;
}

/** The rules in which versions of vLLM differ, as far as they can be seen. */
export interface VersionFacts {
  /** Blocks that carry no hash when they come back are the next to be taken. */
  unhashedFirst: boolean;
  /**
   * Slots for drafts beyond the tokens of an entry, and whether an admitted request gets them at
   * once.
   */
  lookahead: number;
  admissionLookahead: boolean;
  /** Blocks that stay free when somebody comes in while others run. */
  spare: number;
  /** Loads leave room for the prompts under way. */
  loadReservation: boolean;
  /** Tokens of the budget that each entry costs beside its own. */
  draftSlots: number;
  /**
   * A request that is admitted with one token among decodes gets drafts; not where no row of drafts
   * is whole.
   */
  padDecode: boolean;
  padsNobody: boolean;
  /** Blocks come back when no step in flight can write them. */
  fencesFrees: boolean;
  /** Sessions that wait for input take seats. */
  seatsIdle: boolean;
  /** Where steps end at the end of a block, none that begins inside a block goes past its end. */
  wholeStates: boolean;
  preemptedOutputs: 'deliver' | 'await' | 'discard';
  /** Plans name those that a reset preempted. */
  sinceLast: boolean;
  /** A grammar that fails ends its request with the next update. */
  failsWithUpdate: boolean;
}

export type Reason = 'stop' | 'length' | 'abort' | 'error';

/** When an answer ends. */
export interface Stops {
  maxTokens: number;
  minTokens: number;
  eosTokenId: number;
  stopTokenIds: readonly number[];
}

/** A request as its client asked for it. */
export interface Asked extends Stops {
  id: string;
  prompt: Int32Array;
  /** Keeps prefixes apart. */
  salt: number;
  /** Name of its adapter, '' = none. */
  adapter: string;
  /** A grammar sees what is generated. */
  hasGrammar: boolean;
  /** When its answer has ended it waits for the next chunk. */
  isSession: boolean;
  /** Milliseconds that it may take, of a session each answer; absent = any. */
  timeoutMs?: number;
}

export interface EntryFacts {
  handle: number;
  kind: 'running' | 'new' | 'resumed';
  scheduled: number;
  computed: number;
  /** Tokens of a prefix that was cached or loaded, as they are reported to its client. */
  cached: number;
  drafts: number;
  /** Most tokens that it may bring. */
  samples: number;
  numBlocks: number;
  numNewBlocks: number;
  /** By group: the places of its row whose blocks were taken in this step, and the leading ones that it had or found. */
  taken: readonly { from: number; until: number; found: number }[];
}

export interface PlanFacts {
  step: number;
  totalTokens: number;
  entries: EntryFacts[];
  preempted: readonly string[];
  finished: readonly string[];
  finishedHandles: readonly number[];
  /** Blocks that are to be zeroed before the step runs. */
  zeroed: readonly number[];
}

/** The executor's answer for one entry. */
export interface EntryResult {
  tokens: readonly number[];
  failed: boolean;
  /** Its first computed position that did not hold its text when it ran, -1 = it read what it should. */
  wrongAt: number;
}

export interface RowFacts {
  handle: number;
  tokens: readonly number[];
  reason: Reason | null;
  /** The reason ended the answer to a chunk, and the session goes on. */
  continues: boolean;
}

export interface ReportFacts {
  handle: number;
  child: number;
  rank: number;
  /** The step that began the load, if the worker names it. */
  step?: number;
  /** The sender has declined: the request is computed, whatever the policy. */
  declined?: true;
}

/**
 * A block that did not arrive; its request, if the worker names it; the child that was to fill it.
 */
export interface InvalidFacts {
  block: number;
  handle: number | undefined;
  child: number;
}

export interface TransferFacts {
  /** Blocks whose KV the device has lost. */
  lost: readonly number[];
  received: readonly ReportFacts[];
  sent: readonly ReportFacts[];
  failed: readonly ReportFacts[];
  invalid: readonly InvalidFacts[];
}

export interface MatchFacts {
  numTokens: number | null;
  async: boolean;
  child: number;
}

/** One request as the scheduler shows it. */
export interface Seen {
  handle: number;
  id: string;
  status: string;
  container: string | null;
  finished: boolean;
  numTokens: number;
  numComputed: number;
  placeholders: number;
  /** The stop token that ended it, or null. */
  stopReason: number | null;
  /** By group; a place that holds nothing is 0. */
  rows: readonly (readonly number[])[];
  /** The blocks in the rows, group after group. */
  blocks: number[];
  /** Blocks that it had before a preemption and that something still uses. */
  kept: readonly number[];
}

/** All that can be seen of the scheduler between two calls. */
export interface Sight {
  now: number;
  /** External ids in their order. */
  running: readonly string[];
  waiting: readonly string[];
  skipped: readonly string[];
  /** Unfinished. */
  requests: Seen[];
  /** Finished, and their blocks are in use. */
  draining: Seen[];
  /**
   * Finished, and their blocks stay out of use because nobody reported in time that they are not in
   * use.
   */
  quarantined: Seen[];
  free: readonly number[];
  /** Blocks that carry a hash. */
  published: ReadonlySet<number>;
  /** Blocks that were given back and wait for a step in flight. */
  fenced: readonly number[];
  /** References of each block. */
  refs: readonly number[];
  /** Pins of each block that the connector has; absent = 0. */
  pins: ReadonlyMap<number, number>;
  rowsInUse: number;
  hasWork: boolean;
  /** The connector reports that it has work of its own. */
  connectorWorks: boolean;
  anomalies: Readonly<Record<string, number>>;
  gauges: Readonly<Record<string, number>>;
}

/** Something that must not happen did. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, message: string) {
    super(`${invariant}: ${message}`);
    this.name = 'Violation';
    this.invariant = invariant;
  }
}
