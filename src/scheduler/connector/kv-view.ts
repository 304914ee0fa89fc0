import { badArgument, checkInteger, show } from '../../base/errors.js';
import type { CallGate } from '../calls/call-gate.js';
import { takeBlockUse } from '../calls/validate.js';
import { wake } from '../life/wait-for-connector.js';
import { complete, hold } from '../loads/hold.js';
import type { BlockUse, LogWriter } from '../log/log.js';
import { EntryKind, type Plan } from '../plan/plan.js';
import { isPeer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { type KvExtent, kvExtent } from './kv-extent.js';

/**
 * Ids of blocks, one list for each KV cache group; a model whose layers are all alike has one group. A list is borrowed: it
 * is valid during the call that it is given in.
 */
export type BlockLists = readonly Int32Array[];

/** What a request that has ended leaves behind. `readableFrom` and the counts: see `KvExtent`. */
export interface HandOver extends KvExtent {
  /**
   * Its blocks, as many as its computed tokens fill or begin (`Request.numComputedTokens`, which counts what is still being
   * loaded or computed: `numTokens` does not count a load); an empty list if there are none. Without the deviation
   * `clipHandOver` all that it has, also those that nothing was computed in (vLLM before #46694).
   */
  readonly blocks: BlockLists;
}

/** What a `KvView` needs of the scheduler that it belongs to. */
export interface ViewOwner {
  readonly state: SchedulerState;
  readonly gate: CallGate;
  readonly log: LogWriter | null;
  flushLog(): void;
}

/**
 * What the scheduler side of a connector may know of requests and their blocks, and what it may do to them. Everything may be
 * called from inside the connector's methods, and between two calls of the scheduler; of anywhere else, for instance a
 * grammar, a log cannot tell the place.
 *
 * Requests are the objects that the connector's methods are given, or handles of them. Each is good until the connector was
 * told of its end (`requestFinished`), that call included.
 */
export class KvView {
  /** Tokens a block, in every group. */
  readonly blockSize: number;
  /** KV cache groups: lists in every `BlockLists`. */
  readonly numGroups = 1;
  readonly #owner: ViewOwner;

  /** @internal */
  constructor(owner: ViewOwner) {
    this.#owner = owner;
    this.blockSize = owner.state.config.blockSize;
  }

  /** The tokens of a request that are known: its prompt, and what was generated. A copy. @throws ERR_BLOCKSTEP_BAD_ARG */
  tokens(request: Request): Int32Array {
    return this.#core(request).tokens(request.slot);
  }

  /**
   * The hash of block `index` of a request's tokens, which it must fill: 128 bits, of all tokens up to the end of the block,
   * of the request's salt and of its adapter. Equal in every scheduler with the same `hashSeed` and block size.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the known tokens do not fill that block
   */
  blockHash(request: Request, index: number, group = 0): bigint {
    const core = this.#core(request);
    this.#checkGroup(group);
    checkInteger('index', index, 0, this.numFullBlocks(request) - 1);
    return core.native.blockHash(request.slot, index);
  }

  /** Blocks that the known tokens of a request fill, whether they are computed or not: those that have a hash. */
  numFullBlocks(request: Request, group = 0): number {
    this.#checkGroup(group);
    return Math.floor(request.numTokens / this.blockSize);
  }

  /** The blocks of a request, in the order of its tokens; empty lists if it holds none. @throws ERR_BLOCKSTEP_BAD_ARG */
  blocks(request: Request): BlockLists {
    return [this.#core(request).blocks(request.slot)];
  }

  /**
   * The blocks that entry `entry` of a plan took from the pool in this step, in the order of its tokens. `Plan.numNewBlocks`
   * of an entry that was admitted counts its cached prefix too, and what it held before; this does not.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  newBlocks(plan: Plan, entry: number): BlockLists {
    checkInteger('entry', entry, 0, plan.numRequests - 1);
    return [newBlocksOf(this.#owner.state, plan, entry)];
  }

  /** How much of a request's KV stands in its blocks now, and from which step on the rest does. */
  extent(request: Request): KvExtent {
    this.#core(request);
    return kvExtent(this.#owner.state, request);
  }

  /**
   * Registers that the connector reads or keeps a request's blocks: a store of one that still runs, a lease. Until `complete`
   * is called they go to nobody: the request is preempted only if there is no other, and its blocks stay pinned then; when
   * it has ended they stay until every use is over. A worker says that its part is over by its metadata.
   * @param kind `store` or `lease`
   * @param owner names the use among those of its kind, for instance a job; not `child C rank R`, which names what
   * `requestFinished` began
   * @returns false, and counted, if the handle is stale or the use is registered already
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  hold(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    const use = takeOwnUse(handle, kind, owner);
    return this.#act(
      () => hold(this.#owner.state, use),
      (log) => log.use(true, use),
    );
  }

  /** Ends a use that `hold` registered. @returns false, and counted, if there is none @throws ERR_BLOCKSTEP_BAD_ARG */
  complete(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    const use = takeOwnUse(handle, kind, owner);
    return this.#act(
      () => complete(this.#owner.state, use),
      (log) => log.use(false, use),
    );
  }

  /**
   * Has a request asked about again that waits for this connector (`Match.wakes`), in the next step that admits anything.
   * @returns false if it does not wait so: nothing is counted, since it may have ended, or been woken before
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  wake(handle: number): boolean {
    const key = checkInteger('handle', handle, 0, Number.MAX_SAFE_INTEGER);
    return this.#act(
      () => wake(this.#owner.state, key),
      (log) => log.wake(key),
    );
  }

  /** Changes something, and has the log know of it, also between two calls. */
  #act<T>(change: () => T, note: (log: LogWriter) => void): T {
    const { gate, log, state } = this.#owner;
    gate.checkUsable();
    gate.checkNotSuspended();
    if (log !== null) note(log);
    const answer = gate.change(change);
    state.blocksMoved = true;
    // Between calls nobody else hands the commands over.
    if (!gate.isBusy) gate.change(() => this.#owner.flushLog());
    return answer;
  }

  #core({ handle, id }: Request): SchedulerState['core'] {
    const { gate, state } = this.#owner;
    gate.checkUsable();
    if (state.incarnation(handle) !== undefined) return state.core;
    throw badArgument('request', show(id), 'one that has not ended, or whose blocks are still used');
  }

  #checkGroup(group: number): void {
    checkInteger('group', group, 0, this.numGroups - 1);
  }
}

/** The blocks that an entry took from the pool in the step of its plan. */
export function newBlocksOf({ core }: SchedulerState, plan: Plan, entry: number): Int32Array {
  const numBlocks = plan.numBlocks[entry];
  const isRunning = plan.kinds[entry] === EntryKind.running;
  const from = isRunning ? numBlocks - plan.numNewBlocks[entry] : plan.numHitBlocks[entry];
  if (from >= numBlocks) return new Int32Array(0);
  return core.blocks(plan.slots[entry]).subarray(from, numBlocks);
}

function takeOwnUse(handle: unknown, kind: unknown, owner: unknown): BlockUse {
  const use = takeBlockUse(handle, kind, owner);
  if (use.kind === 'load') throw badArgument('kind', show(kind), "'store' or 'lease'");
  if (isPeer(use.owner, undefined)) throw badArgument('owner', show(owner), "no name like 'child C rank R'");
  return use;
}
