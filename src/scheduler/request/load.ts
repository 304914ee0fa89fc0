import type { SchedulerState } from '../state/scheduler-state.js';
import type { Request } from './request.js';

/** External tokens of one admission that a connector brings. */
export interface Load {
  /** The child of the connector that brings them. */
  readonly child: number;
  /** The step whose metadata begins it. */
  readonly step: number;
  /** Tokens in front of it that were found in the local cache. */
  readonly localTokens: number;
  /** Ids of the blocks that it fills; the first one holds the token behind the local ones. */
  readonly blocks: Int32Array;
  /** Some of it did not come: `Request.numComputedTokens` says how far what stands there is good. */
  failed: boolean;
}

/** A load that the step itself reads: it has to be there when the step is executed. */
export interface SyncLoad extends Load {
  readonly request: Request;
  /** Generations of the blocks, so that one which belongs to somebody else by now is known. */
  readonly generations: readonly number[];
}

/** Ranks of the child whose reports are awaited. */
export function reportersOf(s: SchedulerState, child: number): readonly number[] {
  return s.connector?.reporters[child] ?? [];
}

/** Whether anything still writes the blocks of a request that waits for its load. */
export function isLoading(request: Request): boolean {
  return request.outstanding?.hasAny('load') === true;
}

/** Forgets a load, whatever became of it; what is outstanding stays so. */
export function leaveLoading(s: SchedulerState, request: Request): void {
  if (request.load === null) return;
  s.deadlines.stop(request);
  s.loading.delete(request);
  request.load = null;
}

/** Nothing of a load came, or nobody knows what: only what was found locally counts. */
export function loseLoad(s: SchedulerState, request: Request): void {
  const { load } = request;
  if (load === null) return;
  markFailed(s, request, load);
  request.numComputedTokens = Math.min(request.numComputedTokens, load.localTokens);
}

/** A load fails once, however many reports say so. */
export function markFailed(s: SchedulerState, request: Request, load: Load): void {
  if (load.failed) return;
  load.failed = true;
  request.numFailedLoads++;
  s.counters.failedLoads++;
}
