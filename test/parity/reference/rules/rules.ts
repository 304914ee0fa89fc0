// Every rule of the reference scheduler, and those of each version.
import type { SubjectOptions, SubjectRules } from '../../subject.js';

/** Every rule in which versions of vLLM differ, as a reference follows it. */
export interface ReferenceRules extends Required<SubjectRules> {
  /** A victim in front of the request that needs room never makes another one miss its turn (#49206). */
  movesCursor: boolean;
  /** A connector gets no blocks behind the computed tokens (#46694). */
  clipsHandOver: boolean;
  /** Where there are states, blocks of every kind of attention are zeroed. */
  zeroesAll: boolean;
  /** But not the blocks that an asynchronous load of the batch fills. */
  zeroesUnloaded: boolean;
  /** Nothing is loaded into a group that needs none of the loaded tokens, be they less than a block. */
  loadsNeeded: boolean;
  /** The hits of all groups are held before blocks are taken to load into, so that no hit is among these (#33775). */
  holdsAllHits: boolean;
  /** Chunks of a prompt end where blocks do, wherever they begin, and where the prompt parts from another one. */
  alignsEnds: boolean;
  /**
   * The outputs that a forced reset drops are counted in tokens, not in batches: drafts make too
   * many batches (#46066).
   */
  resetsByTokens: boolean;
}

const MAY: ReferenceRules = {
  freeOrder: 'tail',
  admissionLookahead: false,
  watermark: 0,
  loadReservation: false,
  draftSlots: 0,
  padDecode: false,
  fenceFrees: false,
  sessionSeats: 'running',
  preemptedOutputs: 'deliver',
  preemptedIds: 'step',
  windowBasis: 'scheduled',
  retention: 'all',
  stateLoads: false,
  promptTails: false,
  grammarFailures: 'schedule',
  movesCursor: false,
  clipsHandOver: false,
  zeroesAll: false,
  zeroesUnloaded: false,
  loadsNeeded: false,
  holdsAllHits: false,
  alignsEnds: false,
  resetsByTokens: false,
};

const AUGUST: ReferenceRules = {
  freeOrder: 'unhashedFirst',
  admissionLookahead: true,
  watermark: 0,
  loadReservation: true,
  draftSlots: 0,
  padDecode: true,
  fenceFrees: true,
  sessionSeats: 'withIdle',
  preemptedOutputs: 'await',
  preemptedIds: 'sinceLast',
  windowBasis: 'processed',
  retention: 0,
  stateLoads: true,
  promptTails: true,
  grammarFailures: 'update',
  movesCursor: true,
  clipsHandOver: true,
  zeroesAll: true,
  zeroesUnloaded: true,
  loadsNeeded: true,
  holdsAllHits: true,
  alignsEnds: true,
  resetsByTokens: true,
};

/**
 * The rules of the version that the options name, and the rules that the options name themselves.
 */
export function rulesOf(options: SubjectOptions): ReferenceRules {
  const { like, connector, pipelineDepth, numSpeculativeTokens, speculativeMethod } = options;
  const rules = { ...(like === '017e9f444' ? AUGUST : MAY) };
  if (numSpeculativeTokens === 0) rules.padDecode = false;
  if (!connector || pipelineDepth === 1) rules.fenceFrees = false;
  if (like === '017e9f444' && numSpeculativeTokens > 0 && speculativeMethod === 'draft_model')
    rules.draftSlots = 1;
  for (const name of Object.keys(MAY) as (keyof SubjectRules)[]) {
    if (options[name] !== undefined) Object.assign(rules, { [name]: options[name] });
  }
  return rules;
}
