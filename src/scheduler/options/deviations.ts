import { badArg, isObject } from '../../base/checks.js';

/**
 * The named deviations: places where vLLM's exact behaviour is itself a failure, so that blockstep differs. All are
 * on by default. With all of them off the scheduler decides exactly what vLLM decides. Nothing else may change a
 * decision.
 */
export interface Deviations {
  /**
   * A victim of priority preemption that had its turn in this step loses the hashes that it published for that chunk:
   * nobody will compute the chunk. vLLM leaves the hashes findable, and a later request reads blocks that were never
   * written.
   */
  evictUnscheduled: boolean;
  /**
   * A failed step, or a failed row of a step, evicts the hashes that it published, and requests that already share
   * those blocks are computed again. vLLM has no answer to a failed step.
   */
  evictOnStepFailure: boolean;
  /**
   * A request that can never be scheduled again ends with `length`: it needs more blocks than the pool has, or
   * reached `maxModelLen` before `minTokens`. vLLM preempts and re-admits such a request for ever.
   */
  endOutgrown: boolean;
  /**
   * `add` refuses a prompt that does not fit `maxModelLen` or the pool. vLLM's scheduler queues such a request for
   * ever.
   */
  refuseUnfit: boolean;
  /**
   * When a session's next chunk begins, the last token of the answer before is dropped, and it leaves no hash behind.
   * In vLLM a block that this token completed keeps its hash although another token stands there now, and a later
   * request that has the dropped token reads the wrong text.
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
   * Blocks and rows of sessions that wait for input are taken back when something else needs them: the longest idle
   * session first, and before anything is preempted. Blocks of sessions that wait for admission are taken back when
   * otherwise nothing could run, also for themselves. A forced reset of the prefix cache takes both. The tokens of these sessions are
   * computed again, as far as they are not cached. In vLLM idle sessions hold their blocks until somebody aborts
   * them, and several of them can block one another for ever.
   */
  reclaimIdleSessions: boolean;
  /**
   * A synchronous load that failed leaves no hash on its blocks and on the blocks behind them until they were
   * computed, whatever `loadFailurePolicy` is. vLLM lets others find these blocks meanwhile, and under `fail` it
   * forgets what a request that has left computed on them.
   */
  evictFailedLoads: boolean;
  /**
   * Requests that share blocks which failed to load for another request are computed again behind that request, under
   * `fail` too, also if a load of their own failed with it. In vLLM they go on with KV that is not there yet
   * (#49250), or fail with it.
   */
  sharersWait: boolean;
  /**
   * Requests that wait may hold so many blocks that were loaded for them that nothing runs and the first request in
   * line does not fit, or that the only running request cannot grow. Then the last of the waiting requests gives its
   * blocks back. vLLM schedules nothing for ever (#27074, #29877), or preempts the running request for ever.
   */
  admitStuckLoads: boolean;
  /**
   * Under `recompute` a request of which three loads have failed computes by itself from then on; a request of a
   * single token always does. vLLM asks the connector again each time, and a connector that always fails keeps the
   * request for ever.
   */
  limitLoadRetries: boolean;
  /**
   * A request that has to deliver its KV and stops after it was preempted drops its last tokens and is computed
   * again. vLLM ends it without blocks, and the consumer gets nothing (#50297).
   */
  finalTokenDelivery: boolean;
  /**
   * A connector is handed the blocks that cover a finished request's computed tokens. vLLM also hands over the blocks
   * behind these, which were taken for drafts and hold nothing, so that producer and consumer disagree in the number
   * of blocks (until #46694). Of groups of states all is handed over: behind an accepted draft the state stands in a block for drafts.
   */
  clipHandOver: boolean;
  /**
   * A hand-over ends with the request's known tokens. vLLM also hands over the block of a token that a step in flight is to bring, when the
   * request ends before that step does: the block holds nothing of the request yet.
   */
  settleHandOver: boolean;
  /**
   * With the rule `padDecode` a request is not padded where `longPrefillTokenThreshold`, or a block's end in mode `align`, would then cut
   * its tokens. vLLM cuts the tokens and keeps the drafts: it takes back more tokens than were computed, down to -1, and the text goes wrong (#54028).
   */
  padWholeRows: boolean;
  /**
   * With the rule `loadReservation` blocks are kept only for requests that hold some. vLLM keeps them also for a request whose load failed wholly,
   * so that its next load must fit beside itself: with less than twice its size free it waits for ever, and everybody behind it.
   */
  reserveForHolders: boolean;
  /**
   * Adapters of running requests count against `maxLoras` also in a step that has no entry for these requests. vLLM
   * counts the adapters of the step's entries. With speculative tokens in flight more adapters may come to run at
   * once, which fails vLLM's own assertion.
   */
  countIdleAdapters: boolean;
  /**
   * Drafts that the grammar of their request was not shown, because the step before had no entry for the request,
   * count as refused (`Plan.numInvalidDraftTokens`): an executor that has drafts of its own for them must not accept
   * one. So do the drafts of `padDecode`, which nobody made. vLLM does not count them, and leaves it to its model runner what becomes of the -1 in their place.
   */
  refuseUnseenDrafts: boolean;
  /**
   * A request that has ended is in no later bitmask (`Plan.bitmaskEntries`): the tokens that the step brings for it
   * are dropped, and its grammar need not be asked again. vLLM lists the request while its blocks are still sent,
   * because it still knows the request then, and asks a grammar that may have ended for its mask.
   */
  skipEndedBitmasks: boolean;
  /**
   * Every running request has its turn in a step that preempts. In vLLM, with steps in flight, a request is passed
   * over if the steps in flight are sure to end it. If such a request becomes a victim in the same step, it shifts
   * the list under the loop, and the request behind the one that needed room gets no token (until #49206).
   */
  priorityCursor: boolean;
  /**
   * With policy `priority`, a tie of priority and arrival time among possible victims goes to the request whose id
   * comes last, as in the queue. vLLM takes the first running one, even if it is the request that needs room: two
   * such requests can preempt each other for ever.
   */
  victimTies: boolean;
  /**
   * What a request has computed since it was admitted again stays computed when a step from before its preemption
   * brings rejected drafts (`pipelineDepth` 3). vLLM takes as many tokens back from the request as were rejected.
   * They are computed a second time, some of them into blocks that other requests share. From a short chunk vLLM
   * takes more tokens than were computed, and the count falls below 0; with this deviation off the count falls to 0.
   */
  keepRecomputed: boolean;
  /**
   * With several groups of full attention of different kinds, the prefix hit of each is cut to the hit of all. vLLM cuts the first kind alone: the
   * others hold more blocks than the request needs, and with external tokens the pool's count goes wrong.
   */
  cutAllHits: boolean;
  /**
   * With a drafter, the blocks of a sliding window that are published are those that a lookup can accept, which is one further than without.
   * vLLM publishes the others, and nothing is ever found.
   */
  publishMatchable: boolean;
  /**
   * A prefix hit that ends inside a chunk (groups of type `chunked`) has the blocks of that chunk. Where a chunk begins inside a block and that
   * block is not cached, vLLM lets the hit end in front of the block, and so in the chunk before, of which it has no block.
   */
  chunkHits: boolean;
  /**
   * In mode `align` a step that stays in the prompt ends where a block ends, wherever it began, and also where the prompt parts from one before it: that
   * state is then there to be found. With a drafter of type eagle vLLM's steps (until August 2026) end anywhere in the last two blocks of a prompt.
   * Where one begins inside a block and goes past its end, what the step before it left there is published for the end.
   */
  wholeStates: boolean;
  /**
   * Where a group of states lies beside attention, the blocks that any kind of attention takes are named to be zeroed
   * (`Plan.blocksToZero`). vLLM names those of plain full attention alone: windows, chunks, sinks and MLA read what a state left.
   */
  zeroAttention: boolean;
  /**
   * Blocks that an asynchronous load of the same step fills are not named to be zeroed. vLLM names them (until August 2026), and the zeroes may
   * come after what was loaded.
   */
  zeroUnloaded: boolean;
  /**
   * A KV cache group takes no blocks to load into where no later token reads any of the external ones: a window of one token, or a chunk that ends with
   * them. vLLM takes one where these are fewer than a block (until August 2026).
   */
  loadNeeded: boolean;
  /**
   * A request whose load failed where the window in front was never loaded computes again from its first token. vLLM goes on from the failed
   * block, with a window of nothing.
   */
  recomputeWindows: boolean;
  /**
   * Blocks for draft tokens count where the blocks of a sliding window or of a chunk are limited at an admission. vLLM forgets them: in a pool
   * of just that size a long prompt preempts itself for ever.
   */
  capDrafts: boolean;
  /**
   * With drafts in several steps in flight, a window or chunk lets blocks go only when no rejected draft can take the request back to them.
   * vLLM counts drafts in flight as computed there: where they are rejected, the next tokens read blocks that were let go. A state cannot be kept
   * so: drafts beside `mamba` are refused at `pipelineDepth` 3, and in mode `align` as many drafts as a block has tokens.
   */
  keepDraftWindows: boolean;
  /**
   * An admission with states in every block (Mamba `all`, and `none` with small blocks) is tested for those that are held at most, since a step lets
   * go what it went on from. vLLM tests for one in each block of the prompt: a long prompt waits for ever in a pool that could compute it.
   */
  capStates: boolean;
  /**
   * With the rule `windowBasis` processed, a group of mode `align` lets go of every state in front of the one that is needed. vLLM looks at the last
   * one alone, which a step in flight may still read, and then forgets it: with steps in flight a long prompt keeps a state for each of its steps.
   */
  dropStates: boolean;
  /**
   * A reset of the prefix cache succeeds where only the blocks of sinks are in use, which no request holds. In vLLM it never succeeds with sinks.
   */
  resetBesideSinks: boolean;
  /**
   * With KV cache groups a request that ends leaves to a connector what a request with the same tokens needs, which computes the last of them
   * again. vLLM lets go what only that last token needs: now and then a block of a window, which the other engine then goes on without.
   */
  handOverWindows: boolean;
  /**
   * What a connector can load is refused where it is all tokens of a request, and the last one, which is computed again, needs more in front of it
   * than the token behind it: the first block of a window, or the state before it. vLLM lets it read what nobody loaded.
   */
  refuseWholeMatches: boolean;
  /**
   * KV cache events tell a hash when its first block is stored, and when its last one is gone. vLLM tells of each block: a reader hears that a hash
   * is gone while another block still has it.
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
 * @param mended those that stay on where all are off: the chosen version of vLLM has them too
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
 * The option `deviations` of which these came, each on or off. What is wrong stays in it, so that it is refused: unknown names, and whatever is no
 * object, as a damaged log may have it.
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
