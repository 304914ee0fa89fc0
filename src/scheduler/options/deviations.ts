import { knownNames } from '../../base/known-names.js';

/**
 * The places where vLLM's exact behaviour is itself a failure and blockstep differs, each by its name.
 * All are on by default; with all of them off the scheduler decides exactly what vLLM decides. Nothing else may
 * change a decision.
 */
export interface Deviations {
  /**
   * A victim of priority preemption that was already scheduled in this step loses the hashes that it published for
   * that chunk: nobody will compute them. vLLM leaves them findable, and a later request reads blocks never written.
   */
  evictUnscheduled: boolean;
  /**
   * A failed step, or a failed row of one, evicts the hashes that it published, and requests that already share
   * those blocks are computed again. vLLM has no answer to a failed step.
   */
  evictOnStepFailure: boolean;
  /**
   * A request that can never be scheduled again ends with `length`: one that needs more blocks than the pool has, or
   * that reached `maxModelLen` before `minTokens`. vLLM preempts and re-admits it for ever.
   */
  endOutgrown: boolean;
  /** A prompt that fits neither `maxModelLen` nor the pool is refused by `add`. vLLM's scheduler queues it for ever. */
  refuseUnfit: boolean;
  /**
   * When a session's next chunk begins, the token dropped from its last answer leaves no hash behind. In vLLM a block
   * that this token completed keeps its hash although another token stands there now, and a later request with the
   * dropped token reads the wrong text.
   */
  sessionHashes: boolean;
  /** An answer to a chunk that did not end by a stop token has no stop reason. In vLLM that of an earlier answer stays. */
  clearStopReason: boolean;
  /** A chunk's own `maxTokens` limits its answer. vLLM takes that of the first chunk, and ignores later ones. */
  chunkMaxTokens: boolean;
  /**
   * Blocks and rows of sessions that wait for input are taken back when something else needs them, the longest idle first
   * and before anything is preempted; and those of sessions that wait for admission when otherwise nothing could run. A
   * forced reset of the prefix cache takes them too. They are computed again, as far as they are not cached. In vLLM
   * idle sessions hold their blocks until somebody aborts them, and several of them can block one another for ever.
   */
  reclaimIdleSessions: boolean;
  /**
   * A synchronous load that failed leaves no hash on its blocks and those behind them, whatever the policy, until they were
   * computed. vLLM lets others find them meanwhile, and under `fail` forgets what a request computed on them that has left.
   */
  evictFailedLoads: boolean;
  /**
   * Requests that share blocks whose load failed for another one are computed again behind it, under `fail` too, also if
   * a load of their own failed with it. In vLLM they go on with what
   * is not there yet (#49250), or fail with it.
   */
  sharersWait: boolean;
  /**
   * When nothing runs and the first in line does not fit, or the only one that runs cannot grow, because others hold blocks
   * that were loaded for them, the last of those gives its blocks back. vLLM schedules nothing for ever (#27074, #29877), or
   * preempts that one for ever.
   */
  admitStuckLoads: boolean;
  /**
   * Under `recompute` a request three of whose loads have failed computes by itself from then on, and one of a single token
   * always does. vLLM asks the connector again each time, and one that always fails keeps the request for ever.
   */
  limitLoadRetries: boolean;
  /**
   * A request that has to deliver its KV and stops after it was preempted forgets its last tokens and is computed again.
   * vLLM ends it without blocks, and the consumer gets nothing (#50297).
   */
  finalTokenDelivery: boolean;
  /**
   * A connector is handed the blocks that cover a finished request's computed tokens. vLLM hands over those behind them too,
   * which were taken for drafts and hold nothing, so that producer and consumer disagree in their count (until #46694).
   */
  clipHandOver: boolean;
  /**
   * Adapters of running requests count against `maxLoras` also in a step that has no entry for them. vLLM counts those of the
   * step, and with speculative tokens in flight more may come to run at once, which fails its own assertion.
   */
  countIdleAdapters: boolean;
  /**
   * Drafts of a request with a grammar that the grammar was not shown, because the step before had no entry for the request,
   * count as refused (`Plan.numInvalidDraftTokens`): an executor that has drafts of its own for them must not accept one. vLLM
   * does not count them, and leaves it to its model runner what becomes of the -1 in their place.
   */
  refuseUnseenDrafts: boolean;
  /**
   * A request that has ended stands in no later bitmask (`Plan.bitmaskEntries`): what the step brings for it is dropped, and its
   * grammar need not be asked again. vLLM lists it while its blocks are still sent, because it still knows the request then,
   * and asks a grammar that may have ended for its mask.
   */
  skipEndedBitmasks: boolean;
  /**
   * Every running request has its turn in a step that preempts. In vLLM, with steps in flight, a victim that was passed over in
   * this step, because the steps in flight are sure to end it, shifts the list under the loop, so that the request behind the one
   * that needed room gets no token (until #49206).
   */
  priorityCursor: boolean;
  /**
   * With policy `priority` a tie of priority and arrival time among possible victims goes to the request whose id comes last, as in
   * the queue. vLLM takes the first that runs, also if it is the one that needs room: two of them can preempt each other for ever.
   */
  victimTies: boolean;
  /**
   * What a request has computed since it was admitted again stays computed when a step of before its preemption brings rejected
   * drafts (`pipelineDepth` 3). vLLM takes as many tokens back from it as were rejected: they are computed a second time, some into
   * blocks that other requests share, and from a short chunk more is taken than was computed. The count then falls below 0, and
   * with this deviation off to 0.
   */
  keepRecomputed: boolean;
}

const ALL_ON: Deviations = {
  evictUnscheduled: true,
  evictOnStepFailure: true,
  endOutgrown: true,
  refuseUnfit: true,
  sessionHashes: true,
  clearStopReason: true,
  chunkMaxTokens: true,
  reclaimIdleSessions: true,
  evictFailedLoads: true,
  sharersWait: true,
  admitStuckLoads: true,
  limitLoadRetries: true,
  finalTokenDelivery: true,
  clipHandOver: true,
  countIdleAdapters: true,
  refuseUnseenDrafts: true,
  skipEndedBitmasks: true,
  priorityCursor: true,
  victimTies: true,
  keepRecomputed: true,
};

export const DEVIATION_NAMES = knownNames<Deviations>('deviations', ALL_ON);

/** Names of all deviations. */
export const DEVIATIONS = Object.freeze(Object.keys(ALL_ON)) as readonly (keyof Deviations)[];

/** All on, overridden by `given`; `false` turns every deviation off. */
export function resolveDeviations(given: Partial<Deviations> | false | undefined): Readonly<Deviations> {
  const resolved = { ...ALL_ON };
  for (const name of DEVIATIONS) {
    if (given === false) resolved[name] = false;
    else if (given?.[name] !== undefined) resolved[name] = given[name];
  }
  return Object.freeze(resolved);
}
