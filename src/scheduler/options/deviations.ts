import { badArg, isObject } from '../../base/checks.js';

/**
 * The named deviations: places where vLLM's exact behaviour is itself a failure, so that blockstep differs. All are
 * on by default. With all of them off the scheduler decides exactly what vLLM decides. Nothing else may change a
 * decision.
 */
export interface Deviations {
  /**
   * A victim of priority preemption that was already scheduled in this step loses the hashes that
   * it published for that chunk. The chunk will never be computed. vLLM leaves the hashes findable,
   * and a later request reads blocks that were never written.
   */
  evictUnscheduled: boolean;
  /**
   * A failed step, or a failed row of a step, evicts the hashes that it published. Requests that
   * already share those blocks are computed again. vLLM does not handle a failed step.
   */
  evictOnStepFailure: boolean;
  /**
   * A request that can never be scheduled again ends with `length`. It needs more blocks than the
   * pool has, or more tokens than a step that may not divide them. Or it reached `maxModelLen`
   * before `minTokens`. vLLM preempts and re-admits such a request for ever.
   */
  endOutgrown: boolean;
  /**
   * `add` refuses a prompt that does not fit `maxModelLen`, the pool, or a step that may not divide it. vLLM's scheduler queues such a request
   * for ever.
   */
  refuseUnfit: boolean;
  /**
   * When a session's next chunk begins, the last token of the previous answer is dropped, together
   * with its hash. In vLLM a block that this token completed keeps its hash although the block now
   * has another token there. A later request with the dropped token reads the wrong text.
   */
  sessionHashes: boolean;
  /**
   * An answer to a chunk that did not end by a stop token has no stop reason. In vLLM the stop reason of an earlier
   * answer stays.
   */
  clearStopReason: boolean;
  /**
   * A chunk's own `maxTokens` limits its answer. vLLM uses the `maxTokens` of the first chunk, and ignores those of
   * later chunks.
   */
  chunkMaxTokens: boolean;
  /**
   * Blocks and rows of sessions that wait for input are reclaimed when something else needs them.
   * The longest idle session comes first, and before anything is preempted. Blocks of sessions that
   * wait for admission are reclaimed when otherwise nothing could run, also for these sessions
   * themselves. A forced reset of the prefix cache reclaims both. The tokens of these sessions are
   * computed again, as far as they are not cached. In vLLM idle sessions hold their blocks until
   * they are aborted, and several of them can block one another for ever.
   */
  reclaimIdleSessions: boolean;
  /**
   * A failed synchronous load leaves no hash on its blocks and on later blocks until they were
   * computed, whatever `loadFailurePolicy` is. vLLM lets others find these blocks meanwhile. Under
   * `fail` it ignores blocks that a request which has left computed from them.
   */
  evictFailedLoads: boolean;
  /**
   * Requests that share blocks which failed to load for another request are computed again after
   * that request. This holds under `fail` too, even if their own load failed with it. In vLLM they
   * continue with KV that is not there yet (#49250), or fail with it.
   */
  sharersWait: boolean;
  /**
   * Waiting requests may hold so many loaded blocks that nothing runs and the first request in line
   * does not fit. They may also keep the only running request from growing. Then the last of the
   * waiting requests frees its blocks. vLLM schedules nothing for ever (#27074, #29877), or
   * preempts the running request for ever.
   */
  admitStuckLoads: boolean;
  /**
   * Under `recompute` a request with three failed loads computes by itself from then on; a request
   * of a single token always does. vLLM asks the connector again each time, and a connector that
   * always fails keeps the request for ever.
   */
  limitLoadRetries: boolean;
  /**
   * A request that has to deliver its KV and stops after it was preempted drops its last tokens and is computed
   * again. vLLM ends it without blocks, and the consumer gets nothing (#50297).
   */
  finalTokenDelivery: boolean;
  /**
   * A connector receives the blocks that cover a finished request's computed tokens. vLLM also
   * hands over later blocks, which were taken for drafts and hold nothing. Producer and consumer
   * then disagree in the number of blocks (until #46694). Groups of states are handed over
   * completely: after an accepted draft the state is in a block for drafts.
   */
  clipHandOver: boolean;
  /**
   * A hand-over ends with the request's known tokens. If the request ends before a step in flight
   * does, vLLM also hands over the block for that step's token. The block holds nothing of the
   * request yet.
   */
  settleHandOver: boolean;
  /**
   * With the rule `padDecode` a request is not padded if `longPrefillTokenThreshold`, or a block's
   * end in mode `align`, would then cut its tokens. vLLM cuts the tokens and keeps the drafts. It
   * takes back more tokens than were computed, down to -1, and the text goes wrong (#54028).
   */
  padWholeRows: boolean;
  /**
   * With the rule `loadReservation` blocks are reserved only for requests that hold some. vLLM
   * reserves them also for a request whose load failed completely, so that its next load must fit
   * beside itself. With less than twice its size free it waits for ever, and so do all requests
   * behind it.
   */
  reserveForHolders: boolean;
  /**
   * Adapters of running requests count against `maxLoras` also in a step that has no entry for
   * these requests. vLLM counts the adapters of the step's entries. With speculative tokens in
   * flight more adapters may run at once than vLLM's own assertion allows.
   */
  countIdleAdapters: boolean;
  /**
   * Drafts that were not shown to the grammar of their request, because the previous step had no
   * entry for the request, count as refused (`Plan.numInvalidDraftTokens`). An executor with its
   * own drafts for them must not accept one. The padding drafts of `padDecode` count as refused
   * too. vLLM does not count them, and leaves the handling of the -1 in their place to its model
   * runner.
   */
  refuseUnseenDrafts: boolean;
  /**
   * A request that has ended is in no later bitmask (`Plan.bitmaskEntries`). The tokens of the step
   * for it are dropped, and its grammar need not be asked again. vLLM lists the request while its
   * blocks are still sent, because it still knows the request then. It asks a grammar that may have
   * ended for its mask.
   */
  skipEndedBitmasks: boolean;
  /**
   * Every running request is considered in a step that preempts. In vLLM, with steps in flight, a
   * request is passed over if the steps in flight are sure to end it. If such a request becomes a
   * victim in the same step, it shifts the list under the loop. The request after the needy one
   * then gets no token (until #49206).
   */
  priorityCursor: boolean;
  /**
   * With policy `priority`, a tie of priority and arrival time among possible victims goes to the request whose id
   * comes last, as in the queue. vLLM takes the first running one, even if it is the request that needs room: two
   * such requests can preempt each other for ever.
   */
  victimTies: boolean;
  /**
   * Tokens that a request has computed since its new admission stay computed when a step from
   * before its preemption brings rejected drafts (`pipelineDepth` 3). vLLM takes back as many
   * tokens as were rejected. They are computed a second time, some of them into blocks that other
   * requests share. From a short chunk vLLM takes back more tokens than were computed, and the
   * count falls below 0. With this deviation off the count falls to 0.
   */
  keepRecomputed: boolean;
  /**
   * With several groups of full attention of different kinds, the prefix hit of each is cut to the hit of all. vLLM cuts the first kind alone: the
   * others hold more blocks than the request needs, and with external tokens the pool's count goes wrong.
   */
  cutAllHits: boolean;
  /**
   * With a drafter, the published blocks of a sliding window are those that a lookup can accept,
   * which is one further than without a drafter. vLLM publishes the others, and nothing is ever
   * found.
   */
  publishMatchable: boolean;
  /**
   * A prefix hit that ends inside a chunk (groups of type `chunked`) has the blocks of that chunk.
   * If a chunk begins inside a block and that block is not cached, vLLM lets the hit end before the
   * block. The hit then ends in the previous chunk, of which it has no block.
   */
  chunkHits: boolean;
  /**
   * In mode `align` a step that stays in the prompt ends where a block ends, wherever it began. It
   * also ends where the prompt diverges from an earlier one, so that the state there can be found.
   * With a drafter of type eagle vLLM's steps (until August 2026) end anywhere in the last two
   * blocks of a prompt. If a step begins inside a block and passes its end, the state that the
   * previous step left there is published for the end.
   */
  wholeStates: boolean;
  /**
   * If a group of states exists beside attention, the blocks that any kind of attention takes are
   * listed to be zeroed (`Plan.blocksToZero`). vLLM lists only those of plain full attention, so
   * windows, chunks, sinks and MLA read the remains of a state.
   */
  zeroAttention: boolean;
  /**
   * Blocks that an asynchronous load of the same step fills are not listed to be zeroed. vLLM lists
   * them (until August 2026), and the zeroing may overwrite loaded KV.
   */
  zeroUnloaded: boolean;
  /**
   * A KV cache group takes no blocks for a load if no later token reads any of the external tokens.
   * Examples are a window of one token, or a chunk that ends with them. vLLM takes one if there are
   * fewer tokens than a block has (until August 2026).
   */
  loadNeeded: boolean;
  /**
   * Blocks to load into are taken only when the hits of all KV cache groups are held. vLLM settles
   * group by group (until August 2026, #33775). The blocks that it takes for one group may be the
   * hits of the next group, and the load overwrites these hits.
   */
  holdAllHits: boolean;
  /**
   * A request whose load failed, and whose window before the failed block was never loaded,
   * computes again from its first token. vLLM continues from the failed block, with an empty
   * window.
   */
  recomputeWindows: boolean;
  /**
   * Blocks for draft tokens count where the blocks of a sliding window or of a chunk are limited at
   * an admission. vLLM omits them: in a pool of just that size a long prompt preempts itself for
   * ever.
   */
  capDrafts: boolean;
  /**
   * With drafts in several steps in flight, a window or chunk drops blocks only when no rejected
   * draft can take the request back to them. vLLM counts drafts in flight as computed there. If
   * they are rejected, the next tokens read blocks that were dropped. A state cannot be kept this
   * way. So drafts beside `mamba` are refused at `pipelineDepth` 3, and in mode `align` as many
   * drafts as a block has tokens are refused.
   */
  keepDraftWindows: boolean;
  /**
   * An admission with states in every block (Mamba `all`, and `none` with small blocks) is tested
   * for the maximum number of states held at once. A step drops the state that it continued from.
   * vLLM tests for one state in each block of the prompt, so a long prompt waits for ever in a pool
   * that could compute it.
   */
  capStates: boolean;
  /**
   * With the rule `windowBasis` processed, a group of mode `align` drops every state before the
   * needed one. vLLM considers only the last one, which a step in flight may still read, and then
   * forgets it. With steps in flight a long prompt keeps a state for each of its steps.
   */
  dropStates: boolean;
  /**
   * A reset of the prefix cache succeeds if only the blocks of sinks are in use, which no request
   * holds. In vLLM it never succeeds with sinks.
   */
  resetBesideSinks: boolean;
  /**
   * With KV cache groups a finished request hands over the blocks that a request with the same
   * tokens needs, which computes the last token again. vLLM drops blocks that only that last token
   * needs. Sometimes this is a block of a window, which the other engine then lacks.
   */
  handOverWindows: boolean;
  /**
   * A connector's match may cover all tokens of a request. It is refused if the last token needs
   * more before it than the next token does. The last token is computed again, and may need the
   * first block of a window, or the previous state. vLLM lets the token read KV that was never
   * loaded.
   */
  refuseWholeMatches: boolean;
  /**
   * KV cache events report a hash when its first block is stored, and when its last block is gone.
   * vLLM reports each block, so a reader learns that a hash is gone while another block still has
   * it.
   */
  eventsByHash: boolean;
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
  settleHandOver: true,
  padWholeRows: true,
  reserveForHolders: true,
  countIdleAdapters: true,
  refuseUnseenDrafts: true,
  skipEndedBitmasks: true,
  priorityCursor: true,
  victimTies: true,
  keepRecomputed: true,
  cutAllHits: true,
  publishMatchable: true,
  chunkHits: true,
  wholeStates: true,
  zeroAttention: true,
  zeroUnloaded: true,
  loadNeeded: true,
  holdAllHits: true,
  recomputeWindows: true,
  capDrafts: true,
  keepDraftWindows: true,
  capStates: true,
  dropStates: true,
  resetBesideSinks: true,
  handOverWindows: true,
  refuseWholeMatches: true,
  eventsByHash: true,
};

/** Names of all deviations. */
export const DEVIATIONS = Object.freeze(Object.keys(ALL_ON)) as readonly (keyof Deviations)[];

/**
 * The deviations of a scheduler.
 * @param given the option: all on, all off, or the names of those that are off
 * @param mended the deviations that stay on even if all are off, because the chosen version of vLLM
 * has them too
 * @throws ERR_BLOCKSTEP_BAD_ARG with the unknown name and all that are known
 */
export function parseDeviations(given: unknown, mended: readonly (keyof Deviations)[]): Readonly<Deviations> {
  const resolved = { ...ALL_ON };
  if (given === false) for (const name of DEVIATIONS) resolved[name] = mended.includes(name);
  else if (Array.isArray(given)) for (const name of namesIn(given)) resolved[name] = false;
  else if (given !== undefined && given !== true)
    throw badArg('deviations', given, 'true, false, or a list of the deviations that are off');
  return Object.freeze(resolved);
}

/**
 * The option `deviations` that gives these settings. Invalid content stays in it, so that it is
 * refused: unknown names, and a value that is not an object, as in a damaged log.
 */
export function deviationsOff(given: Readonly<Record<string, boolean>>): string[] {
  if (!isObject(given)) return given;
  return Object.keys(given).filter(
    (name) => given[name] !== true || !DEVIATIONS.includes(name as keyof Deviations),
  );
}

function namesIn(given: readonly unknown[]): (keyof Deviations)[] {
  return Array.from(given, (name, index) => {
    if (DEVIATIONS.includes(name as keyof Deviations)) return name as keyof Deviations;
    throw badArg(`deviations[${index}]`, name, `one of ${DEVIATIONS.join(', ')}`);
  });
}
