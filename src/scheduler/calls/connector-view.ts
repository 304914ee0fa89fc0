import { createHash } from 'node:crypto';
import { parseInt32Array } from '../../base/arrays.js';
import { badArg } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { BLOCK_HASH } from '../../core/native/block-hash.js';
import { rowsOf } from '../../core/rows.js';
import type { BlockPins } from '../connector/connector.js';
import { type KvExtent, kvExtent } from '../connector/kv-extent.js';
import type { BlockLists, ConnectorPlan, KvView } from '../connector/kv-view.js';
import {
  type KvViewGroup,
  layoutOf,
  neededPlaces,
  type PlaceRange,
  viewGroups,
} from '../connector/view-group.js';
import type { TierMedium } from '../events/kv-event.js';
import { wake } from '../life/wait-for-connector.js';
import { complete, hold } from '../loads/hold.js';
import type { LogWriter } from '../log/log.js';
import { isMadeUp } from '../options/hash-seed.js';
import { newBlocksOf } from '../plan/new-blocks.js';
import type { ConnectorRequest } from '../request/connector-request.js';
import { type BlockUse, isPeer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import type { CallGate } from './call-gate.js';
import { parseBlockUse } from './validate.js';

/** The parts of a scheduler that the view and the pins of its connector need. */
export interface ViewOwner {
  readonly state: SchedulerState;
  readonly gate: CallGate;
  readonly log: LogWriter | null;
  flushLog(): void;
}

/**
 * The `KvView` of a scheduler's connector. Every change that the connector makes through the view is written to the
 * log.
 */
export class ConnectorView implements KvView {
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly hasHashes: boolean;
  readonly hashSpace: string | null;
  readonly numGroups: number;
  readonly groups: readonly KvViewGroup[];
  readonly alignment: number;
  readonly layout: string;
  readonly acceptsLoads: boolean;
  readonly reclaimMs: number;
  readonly #owner: ViewOwner;
  /** By group: the number of block hashes per block. */
  readonly #hashesPerBlock: readonly number[];

  constructor(owner: ViewOwner) {
    this.#owner = owner;
    const { config, groups } = owner.state;
    const { numBlocks, enablePrefixCaching, hashSeed, deadlines } = config;
    this.groups = viewGroups(groups.list);
    this.numGroups = this.groups.length;
    this.blockSize = this.groups[0].blockSize;
    this.alignment = groups.alignment;
    this.layout = layoutOf(config);
    this.acceptsLoads = !groups.alignsSteps || config.stateLoads;
    this.#hashesPerBlock = this.groups.map((group) => group.blockSize / groups.hashBlockSize);
    this.reclaimMs = deadlines.reclaim;
    this.numBlocks = numBlocks;
    this.hasHashes = enablePrefixCaching;
    this.hashSpace = isMadeUp(hashSeed) ? null : hashSpaceOf(hashSeed);
  }

  tokens(request: ConnectorRequest): Int32Array {
    return this.#owner.state.core.tokens(this.#known(request).slot);
  }

  blockHash(request: ConnectorRequest, index: number, group = 0): bigint {
    const { slot } = this.#known(request);
    checkInteger('index', index, 0, this.numFullBlocks(request, group) - 1);
    const { native } = this.#owner.state.core;
    return native.blockHash(slot, (index + 1) * this.#hashesPerBlock[group] - 1);
  }

  numFullBlocks(request: ConnectorRequest, group = 0): number {
    this.#checkGroup(group);
    return Math.floor(request.numTokens / this.groups[group].blockSize);
  }

  neededPlaces(group: number, numTokens: number): PlaceRange {
    this.#checkGroup(group);
    return neededPlaces(this.groups[group], checkInteger('numTokens', numTokens, 0, 2 ** 31 - 1));
  }

  blocks(request: ConnectorRequest): BlockLists {
    return rowsOf(this.#owner.state.core, this.#known(request).slot);
  }

  readBlocks(request: ConnectorRequest, from: number, out: Int32Array, group = 0): number {
    const { slot } = this.#known(request);
    this.#checkGroup(group);
    const { core } = this.#owner.state;
    core.flush();
    return core.native.readBlocks(slot, from, out, group);
  }

  newBlocks(plan: ConnectorPlan, entry: number): BlockLists {
    checkInteger('entry', entry, 0, plan.numRequests - 1);
    return this.groups.map((_, group) => newBlocksOf(this.#owner.state.core, plan, entry, group));
  }

  extent(request: ConnectorRequest): KvExtent {
    return kvExtent(this.#owner.state, this.#known(request));
  }

  hold(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    const use = parseOwnUse(handle, kind, owner);
    return this.#act(
      () => hold(this.#owner.state, use),
      (log) => log.use(true, use),
    );
  }

  complete(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    const use = parseOwnUse(handle, kind, owner);
    return this.#act(
      () => complete(this.#owner.state, use),
      (log) => log.use(false, use),
    );
  }

  tellTier(change: 'stored' | 'removed', medium: TierMedium, hashes: readonly bigint[], group = 0): void {
    this.#checkGroup(group);
    if (change !== 'stored' && change !== 'removed') throw badArg('change', change, 'stored or removed');
    if (medium !== 'CPU' && medium !== 'STORAGE') throw badArg('medium', medium, 'CPU or STORAGE');
    this.#owner.state.kvEvents?.tier(change, medium, hashes, group);
  }

  wake(handle: number): boolean {
    const key = checkInteger('handle', handle, 0, Number.MAX_SAFE_INTEGER);
    return this.#act(
      () => wake(this.#owner.state, key),
      (log) => log.wake(key),
    );
  }

  /**
   * Carries out a change of the connector and writes it to the log, also between two public calls.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT, ERR_BLOCKSTEP_DECISION_PENDING
   */
  #act<T>(change: () => T, note: (log: LogWriter) => void): T {
    const { gate, log, state } = this.#owner;
    gate.checkUsable();
    gate.checkNotSuspended();
    if (log !== null) note(log);
    const answer = gate.change(change);
    state.blocksMoved = true;
    // Between two public calls nothing else writes the commands to the log.
    if (!gate.isBusy) gate.change(() => this.#owner.flushLog());
    return answer;
  }

  /**
   * The request itself, while it has its slot. A connector may name it by another object with its handle.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the request has ended and gave its blocks back
   */
  #known({ handle, id }: ConnectorRequest): Request {
    const { gate, state } = this.#owner;
    gate.checkUsable();
    const request = state.incarnation(handle);
    if (request !== undefined) return request;
    throw badArgument('request', show(id), 'one that has not ended, or whose blocks are still used');
  }

  #checkGroup(group: number): void {
    checkInteger('group', group, 0, this.numGroups - 1);
  }
}

/** A name for the hashes of a seed. It does not reveal the seed. */
function hashSpaceOf(seed: Uint8Array): string {
  return createHash('sha256')
    .update(`blockstep hash space ${BLOCK_HASH}\0`)
    .update(seed)
    .digest('hex')
    .slice(0, 32);
}

/**
 * Checks a use that a connector names itself. Its kind must be `store` or `lease`, and its owner
 * must not look like a rank of a child.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
function parseOwnUse(handle: unknown, kind: unknown, owner: unknown): BlockUse {
  const use = parseBlockUse(handle, kind, owner);
  if (use.kind === 'load') throw badArgument('kind', show(kind), "'store' or 'lease'");
  if (isPeer(use.owner, undefined)) throw badArgument('owner', show(owner), "no name like 'child C rank R'");
  return use;
}

/**
 * The `BlockPins` of a connector that protects blocks by pins.
 * @param owner the scheduler that the pins belong to
 */
export function makePins(owner: ViewOwner): BlockPins {
  const { state, gate, log } = owner;
  const { native } = state.core;
  const change = (blocks: unknown, by: 1 | -1): void => {
    gate.checkUsable();
    const ids = parseInt32Array('blocks', blocks);
    if (by > 0) native.pin(ids);
    else native.unpin(ids);
    state.pins.change(ids, by);
    state.blocksMoved = true;
    log?.pins(by > 0, ids);
    // Between two public calls nothing else writes the command to the log.
    if (!gate.isBusy) gate.change(() => owner.flushLog());
  };
  return { pin: (ids) => change(ids, 1), unpin: (ids) => change(ids, -1) };
}
