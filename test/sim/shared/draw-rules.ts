import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import type { Rng } from './rng.js';

/** The options in which versions of vLLM differ. */
export type DrawnRules = Pick<
  WithRules<SchedulerOptions>,
  | 'like'
  | 'freeOrder'
  | 'admissionLookahead'
  | 'watermark'
  | 'loadReservation'
  | 'draftSlots'
  | 'padDecode'
  | 'fenceFrees'
  | 'sessionSeats'
  | 'preemptedOutputs'
  | 'preemptedIds'
  | 'grammarFailures'
  | 'windowBasis'
  | 'retention'
  | 'promptTails'
  | 'stateLoads'
  | 'speculativeMethod'
  | 'kvGroups'
>;

/** One run in three has the defaults, one the rules of a version, and one single rules; each may have more. */
export function drawRules(options: DrawnRules, rng: Rng): void {
  const mayBeEagle = options.kvGroups?.some(({ type }) => type === 'chunked') !== true;
  options.speculativeMethod = rng.pick(['ngram', mayBeEagle ? 'eagle' : 'ngram', 'draft_model'] as const);
  const kind = rng.below(3);
  if (kind === 0) return;
  if (kind === 1) options.like = rng.pick(['28be48fa', '017e9f444', '017e9f444'] as const);
  const isDrawn = () => rng.chance(kind === 1 ? 0.1 : 0.5);
  if (isDrawn()) options.freeOrder = rng.pick(['tail', 'unhashedFirst'] as const);
  if (isDrawn()) options.admissionLookahead = rng.chance(0.7);
  if (isDrawn()) options.watermark = rng.pick([0.05, 0.1, 0.3]);
  if (isDrawn()) options.loadReservation = rng.chance(0.7);
  if (isDrawn()) options.draftSlots = rng.below(3);
  if (isDrawn()) options.padDecode = rng.chance(0.7);
  if (isDrawn()) options.fenceFrees = rng.chance(0.7);
  if (isDrawn()) options.sessionSeats = rng.pick(['running', 'withIdle'] as const);
  if (isDrawn()) options.preemptedOutputs = rng.pick(['deliver', 'await', 'discard'] as const);
  if (isDrawn()) options.preemptedIds = rng.pick(['step', 'sinceLast'] as const);
  if (isDrawn()) options.grammarFailures = rng.pick(['schedule', 'update'] as const);
  if (isDrawn()) options.retention = rng.pick(['all', 'reachable', 0] as const);
  if (isDrawn()) options.windowBasis = rng.pick(['scheduled', 'processed'] as const);
  if (isDrawn()) options.promptTails = rng.chance(0.7);
}
