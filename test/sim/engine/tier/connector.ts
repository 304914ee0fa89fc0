// The scheduler side.
import type {
  BlockPins,
  Finished,
  Match,
  Protection,
  SchedulerConnector,
} from '../../../../src/scheduler/connector/connector.js';
import type { BlockLists, HandOver, KvView } from '../../../../src/scheduler/connector/kv-view.js';
import type { Plan } from '../../../../src/scheduler/plan/plan.js';
import type { Request } from '../../../../src/scheduler/request/request.js';
import type { FinishReason } from '../../../../src/scheduler/request/status.js';
import { Pins } from '../../shared/kv/pins.js';
import { mix } from '../../shared/text.js';
import type { TierShape } from '../setup.js';
import type { Stage } from '../stage.js';
import { isKept, longestMatch, type Place, toLoad } from './places.js';
import { checkSettled } from './settled.js';
import { type LoadPlan, RecentLoads, type StorePlan, type TierMetadata } from './transfer-plans.js';

/** The blocks that one child keeps, by the hash of a block and of all before it, and its group. */
interface Tier {
  readonly entries: Map<bigint, readonly Int32Array[]>;
  readonly reserved: Set<bigint>;
}

/** The connector's record of an unfinished request. */
interface Known {
  /** By group: places from the front that need not be stored any more. */
  readonly stored: number[];
  readonly stores: boolean;
  readonly handsOver: boolean;
  /** Only what is settled is stored, at once. */
  readonly settles: boolean;
  /** Children to which something of it was to be stored. */
  readonly children: Set<number>;
  match: { child: number; async: boolean; local: number } | null;
}

/**
 * The scheduler side of a store that keeps blocks by content: the smallest honest user of the
 * contract. Every full block that a step computes goes there, or all of a request when it ends. A
 * request with the same prefix loads it from there.
 */
export class SimConnector implements SchedulerConnector<TierMetadata> {
  readonly protection: Protection;
  /** Absent: one child, which reports on every rank. */
  readonly reporters?: number[][];
  readonly #stage: Stage;
  readonly #shape: TierShape;
  readonly #tiers: Tier[];
  readonly #known = new Map<number, Known>();
  /** The requests that have not ended. */
  readonly #requests = new Map<number, Request>();
  readonly #ended = new Set<number>();
  /** Stores that some rank has not ended. */
  readonly open = new Set<StorePlan>();
  readonly pins = new Pins();
  /** Times that a request was given blocks, by handle. */
  readonly allocations = new Map<number, number>();
  numAllocations = 0;
  /** Requests for which it could not answer yet what it can load, and since when. */
  readonly asking = new Map<number, number>();
  #view!: KvView;
  #loads: Omit<LoadPlan, 'step'>[] = [];
  readonly #recent = new RecentLoads();
  /** Making the metadata of the last plan failed: the orders of that plan must still be sent. */
  owesMetadata = false;
  #handOvers: StorePlan[] = [];

  constructor(stage: Stage, shape: TierShape) {
    this.#stage = stage;
    this.#shape = shape;
    this.protection = shape.protection;
    const ranks = Array.from({ length: shape.numRanks }, (_, rank) => rank);
    const children = Array.from({ length: shape.numChildren }, () => ranks);
    if (shape.numChildren > 1 || shape.declares) this.reporters = children;
    this.#tiers = children.map(() => ({ entries: new Map(), reserved: new Set() }));
  }

  get numChildren(): number {
    return this.#tiers.length;
  }

  bind(view: KvView): void {
    this.#view = view;
  }

  bindPins(pins: BlockPins): void {
    this.pins.bind(pins);
  }

  onNewRequest(request: Request): void {
    const { handle } = request;
    const chance = (what: number, probability: number) => mix(handle, what) % 1000 < 1000 * probability;
    const handsOver = this.protection !== 'fence' && chance(2, this.#shape.handsOver);
    const stores = chance(1, this.#shape.stores);
    const stored = this.#stage.kv.groups.map(() => 0);
    const settles = chance(4, this.#shape.settles);
    this.#known.set(handle, { stored, match: null, children: new Set(), stores, handsOver, settles });
    this.#requests.set(handle, request);
    this.#fault('onNewRequest', handle);
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    this.#fault('getNumNewMatchedTokens', request.handle);
    this.#checkSettled();
    const rng = this.#stage.rng('connector');
    if (this.#stage.strikes('connectorNonsense', rng)) {
      this.#failed(request.handle);
      return { numTokens: rng.pick([-1, request.numTokens + 1, 1.5]), async: true };
    }
    const known = this.#of(request);
    known.match = null;
    if (!this.#stage.isCalm && rng.chance(this.#shape.asksLater)) {
      if (!this.asking.has(request.handle)) this.asking.set(request.handle, this.#stage.now);
      return { numTokens: null, async: false };
    }
    this.asking.delete(request.handle);
    if (!rng.chance(this.#shape.loads)) return { numTokens: 0, async: false };
    const found = this.#tiers.map((_, child) => this.#lookUp(request, child, numLocalTokens));
    const child = found.indexOf(Math.max(...found));
    const units = (found[child] - numLocalTokens) / this.#view.alignment;
    const count = rng.chance(0.8) ? units : rng.below(units + 1);
    const most = numLocalTokens + count * this.#view.alignment;
    const end = count === units ? most : this.#lookUp(request, child, numLocalTokens, most);
    if (end === numLocalTokens) return { numTokens: 0, async: false };
    const isAsync = !rng.chance(this.#shape.syncLoads);
    known.match = { child, async: isAsync, local: numLocalTokens };
    return { numTokens: end - numLocalTokens, async: isAsync, child };
  }

  updateStateAfterAlloc(request: Request, rows: BlockLists, numExternalTokens: number): void {
    const { handle } = request;
    this.allocations.set(handle, (this.allocations.get(handle) ?? 0) + 1);
    this.numAllocations++;
    this.#fault('updateStateAfterAlloc', handle);
    const { match } = this.#of(request);
    if (numExternalTokens === 0) return;
    if (match === null) {
      this.#stage.broke(
        'I8',
        `${this.#stage.name(handle)} loads ${numExternalTokens} tokens, none were offered`,
      );
      return;
    }
    const { local, child, async } = match;
    const { entries } = this.#tiers[child];
    const places = toLoad(this.#view, local, local + numExternalTokens);
    const blocks = places.map(({ group, index }) => rows[group][index] ?? 0);
    const sources = places.map((place) => entries.get(this.#key(request, place)));
    if (sources.includes(undefined) || blocks.includes(0)) {
      this.#stage.broke(
        'I8',
        `${this.#stage.name(handle)} loads a block that the tier has not, or has no block for it`,
      );
      return;
    }
    this.#stage.count(async ? 'loads' : 'synchronous loads');
    const load = { handle, child, async, blocks };
    this.#loads.push({ ...load, sources: sources as (readonly Int32Array[])[] });
  }

  buildMetadata(plan: Plan): TierMetadata {
    const { step } = plan;
    const loads = this.#loads;
    this.#loads = [];
    this.pins.sweep();
    this.#checkSettled();
    try {
      this.#fault('buildMetadata', 0);
      this.owesMetadata = false;
    } catch (error) {
      this.owesMetadata = true;
      for (const { handle } of loads) this.#stage.blame(handle, 'load');
      throw error;
    }
    const stores: StorePlan[] = [];
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      const rows = this.#view.blocks(request);
      if (this.#known.get(request.handle)?.settles === true)
        this.#storeSettled(request, rows, this.#view.extent(request).numSettledTokens);
      else stores.push(...this.#storesOf(plan, i, rows));
    }
    const handOvers = this.#handOvers;
    this.#handOvers = [];
    const begun = loads.map((load) => ({ ...load, step }));
    this.#recent.add(step, begun);
    return { step, loads: begun, stores, handOvers };
  }

  /** Handles of the requests whose recent loads fill this block. */
  loadersOf(block: number, child: number): number[] {
    const those = [...this.#recent].filter((load) => load.child === child && load.blocks.includes(block));
    return those.map(({ handle }) => handle);
  }

  updateConnectorOutput(): void {
    this.#fault('updateConnectorOutput', 0);
  }

  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    const { handle } = request;
    const name = this.#stage.name(handle);
    if (this.#ended.has(handle)) this.#stage.broke('I5', `${name} is finished for the second time`);
    this.#ended.add(handle);
    if (!request.isFinished) this.#stage.broke('I5', `${name} is finished, and lives`);
    const known = this.#known.get(handle);
    this.#requests.delete(handle);
    checkSettled(this.#stage, this.#view, request, handOver.blocks, handOver);
    this.#checkSettled();
    if (known?.settles && this.protection !== 'fence')
      this.#storeSettled(request, handOver.blocks, handOver.numSettledTokens);
    this.#known.delete(handle);
    this.#fault('requestFinished', 0);
    if (this.#stage.strikes('connectorNonsense', this.#stage.rng('connector'))) {
      this.#stage.excused.add('connector-failed');
      return { delayFree: true, children: [7] };
    }
    this.#stage.finished(handle, reason === 'abort' || reason === 'error');
    const isAnswered = reason === 'stop' || reason === 'length';
    if (known?.handsOver && !known.settles && isAnswered) this.#handOver(request, known, handOver);
    const children = [...(known?.children ?? [])];
    if (this.protection !== 'own' || children.length === 0) return { delayFree: false };
    return { delayFree: true, children };
  }

  requiresKvDelivery(request: Request): boolean {
    this.#fault('requiresKvDelivery', 0);
    return mix(request.handle, 3) % 1000 < 1000 * this.#shape.delivers;
  }

  cancelSending(request: Request): void {
    this.#stage.count('cancelled');
    for (const store of this.open) if (store.handle === request.handle) this.drop(store);
    this.#fault('cancelSending', 0);
  }

  resetCache(): boolean {
    this.#fault('resetCache', 0);
    if (this.open.size > 0) return false;
    for (const { entries } of this.#tiers) entries.clear();
    return true;
  }

  hasPendingWork(): boolean {
    return this.open.size > 0;
  }

  /** Drops a store: nothing of it comes into the tier. */
  drop(store: StorePlan): void {
    store.isDropped = true;
  }

  /** A rank has ended its part of a store. When all ranks have, the blocks can be found in the tier. */
  ended(store: StorePlan): void {
    if (--store.ranksLeft > 0) return;
    this.open.delete(store);
    if (this.protection === 'pin') this.pins.release(store.blocks);
    const { entries, reserved } = this.#tiers[store.child];
    store.keys.forEach((key, i) => {
      reserved.delete(key);
      if (!store.isDropped) entries.set(key, store.read[i]);
    });
    this.#stage.count(store.isDropped ? 'stores dropped' : 'stores');
  }

  /** Whether nothing is left of any transfer. */
  get isIdle(): boolean {
    const reserved = this.#tiers.reduce((sum, tier) => sum + tier.reserved.size, 0);
    const next = this.#loads.length + this.#handOvers.length + this.#known.size;
    return this.open.size + reserved + this.pins.counts.size + next === 0;
  }

  /** The blocks of an entry that are full of known tokens when the step was executed, and were not stored before. */
  #storesOf(plan: Plan, i: number, rows: BlockLists): StorePlan[] {
    const request = plan.requests[i];
    const known = this.#known.get(request.handle);
    if (known === undefined) return [];
    const computed = plan.numComputedTokens[i];
    const end = Math.min(computed + plan.numScheduledTokens[i], request.numTokens);
    const places: Place[] = [];
    for (const [group, { blockSize }] of this.#view.groups.entries()) {
      const from = Math.floor(computed / blockSize);
      if (plan.kinds[i] !== 0 || from < known.stored[group]) known.stored[group] = from;
      if (!known.stores) continue;
      const to = Math.floor(end / blockSize);
      for (let index = known.stored[group]; index < to; index++)
        if (isKept(rows, { group, index })) places.push({ group, index });
      known.stored[group] = Math.max(known.stored[group], to);
    }
    return this.#split(plan.step, request, known, places, rows, -1);
  }

  /** Checks the settled part of every request that has not ended. */
  #checkSettled(): void {
    for (const request of this.#requests.values()) {
      const extent = this.#view.extent(request);
      if (extent.numTokens > 0)
        checkSettled(this.#stage, this.#view, request, this.#view.blocks(request), extent);
    }
  }

  /** Orders the stores of the full blocks of a request that are settled and were not stored before. */
  #storeSettled(request: Request, rows: BlockLists, numSettledTokens: number): void {
    const known = this.#of(request);
    const places: Place[] = [];
    for (const [group, { blockSize }] of this.#view.groups.entries()) {
      const to = Math.floor(numSettledTokens / blockSize);
      for (let index = known.stored[group]; index < to; index++)
        if (isKept(rows, { group, index })) places.push({ group, index });
      known.stored[group] = Math.max(known.stored[group], to);
    }
    const stores = this.#split(-1, request, known, places, rows, -1, true);
    if (stores.length > 0) this.#stage.count('settled stores');
    this.#handOvers.push(...stores);
  }

  #handOver(request: Request, known: Known, { blocks, numTokens, readableFrom }: HandOver): void {
    const places = this.#view.groups.flatMap(({ blockSize }, group) =>
      Array.from({ length: Math.floor(numTokens / blockSize) }, (_, index) => ({ group, index })),
    );
    const kept = places.filter((place) => isKept(blocks, place));
    const stores = this.#split(-1, request, known, kept, blocks, readableFrom);
    if (stores.length > 0) this.#stage.count('hand-overs');
    this.#handOvers.push(...stores);
  }

  /** One store for each child, of the blocks that it lacks. */
  #split(
    step: number,
    request: Request,
    known: Known,
    places: readonly Place[],
    held: BlockLists,
    readableFrom: number,
    isSettled = false,
  ): StorePlan[] {
    const { handle } = request;
    return this.#tiers.flatMap(({ entries, reserved }, child) => {
      const mine = places.filter((place) => {
        const key = this.#key(request, place);
        return !entries.has(key) && !reserved.has(key) && (child === 0 || mix(handle, place.index) % 3 === 0);
      });
      if (mine.length === 0) return [];
      const keys = mine.map((place) => this.#key(request, place));
      const blocks = mine.map(({ group, index }) => held[group][index]);
      const right = mine.map((place) => this.#stage.contentsOf(request, place));
      const read: Int32Array[][] = mine.map(() => []);
      const store = {
        ...{ step, readableFrom, isSettled, handle, child, blocks, keys },
        right,
        read,
        ranksLeft: this.#shape.numRanks,
        isDropped: false,
      };
      for (const key of keys) reserved.add(key);
      known.children.add(child);
      this.open.add(store);
      if (this.protection === 'pin') this.pins.pin(blocks);
      return [store];
    });
  }

  /** The tokens up to which a request can go on with its local blocks and the blocks of a child. */
  #lookUp(request: Request, child: number, local: number, most = request.numTokens): number {
    return longestMatch(this.#view, local, most, (place) => this.#has(request, child, place));
  }

  /** Whether a child has a block. Some it was given by another engine before. */
  #has(request: Request, child: number, place: Place): boolean {
    const { entries, reserved } = this.#tiers[child];
    const key = this.#key(request, place);
    if (entries.has(key)) return true;
    const isRemote = mix(Number(key & 0x7fffffffn), child) % 1000 < 1000 * this.#shape.remote;
    if (!isRemote || reserved.has(key)) return false;
    const contents = this.#stage.contentsOf(request, place);
    entries.set(
      key,
      Array.from({ length: this.#shape.numRanks }, () => contents),
    );
    return true;
  }

  /** Blocks of two groups that end at the same token have one hash. */
  #key(request: Request, { group, index }: Place): bigint {
    return this.#view.blockHash(request, index, group) | (BigInt(group) << 128n);
  }

  #of({ handle }: Request): Known {
    const known = this.#known.get(handle);
    if (known !== undefined) return known;
    this.#stage.broke(
      'I5',
      `the connector is asked about ${this.#stage.name(handle)}, which is over or never began`,
    );
    return {
      ...{ stored: [], stores: false, handsOver: false, settles: false },
      ...{ children: new Set(), match: null },
    };
  }

  /** Aborts somebody, or throws. */
  #fault(method: string, handle: number): void {
    const stage = this.#stage;
    const rng = stage.rng('connector');
    if (stage.strikes('abortInside', rng)) this.inside();
    if (!stage.strikes('connectorThrows', rng)) return;
    this.#failed(handle);
    stage.note(`the connector throws at ${method}`);
    throw new Error(`planted in ${method}`);
  }

  #failed(handle: number): void {
    this.#stage.excused.add('connector-failed');
    if (handle > 0) this.#stage.blame(handle, 'connector');
  }

  /** The actions of clients while the connector is asked. */
  inside: () => void = () => {};
}
