import type { KvExtent } from '../../scheduler/connector/kv-extent.js';
import type { BlockLists, ConnectorPlan, KvView } from '../../scheduler/connector/kv-view.js';
import type { KvViewGroup, PlaceRange } from '../../scheduler/connector/view-group.js';
import type { TierMedium } from '../../scheduler/events/kv-event.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';

/**
 * Makes a stand-in that equals a request except for `transferParams`, which are null. Children that
 * do not own the load of a request get the stand-in. The client's transfer parameters are for the
 * child that loads. (vLLM #42831: NIXL took its own parameters for an order, although another
 * connector loaded.)
 */
export function withoutParams(request: ConnectorRequest): ConnectorRequest {
  return Object.create(request, { transferParams: { value: null, enumerable: true } }) as ConnectorRequest;
}

/**
 * The `KvView` of one child. It prefixes the names of the child's uses with the child's name, so
 * two children may choose the same name.
 */
export class ChildView implements KvView {
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
  readonly #name: string;
  readonly #view: KvView;

  constructor(name: string, view: KvView) {
    this.#name = name;
    this.#view = view;
    this.blockSize = view.blockSize;
    this.numBlocks = view.numBlocks;
    this.hasHashes = view.hasHashes;
    this.hashSpace = view.hashSpace;
    this.numGroups = view.numGroups;
    this.groups = view.groups;
    this.alignment = view.alignment;
    this.layout = view.layout;
    this.acceptsLoads = view.acceptsLoads;
    this.reclaimMs = view.reclaimMs;
  }

  neededPlaces(group: number, numTokens: number): PlaceRange {
    return this.#view.neededPlaces(group, numTokens);
  }

  tokens(request: ConnectorRequest): Int32Array {
    return this.#view.tokens(request);
  }

  blockHash(request: ConnectorRequest, index: number, group?: number): bigint {
    return this.#view.blockHash(request, index, group);
  }

  numFullBlocks(request: ConnectorRequest, group?: number): number {
    return this.#view.numFullBlocks(request, group);
  }

  blocks(request: ConnectorRequest): BlockLists {
    return this.#view.blocks(request);
  }

  readBlocks(request: ConnectorRequest, from: number, out: Int32Array, group?: number): number {
    return this.#view.readBlocks(request, from, out, group);
  }

  newBlocks(plan: ConnectorPlan, entry: number): BlockLists {
    return this.#view.newBlocks(plan, entry);
  }

  extent(request: ConnectorRequest): KvExtent {
    return this.#view.extent(request);
  }

  hold(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    return this.#view.hold(handle, kind, this.#own(owner));
  }

  complete(handle: number, kind: 'store' | 'lease', owner: string): boolean {
    return this.#view.complete(handle, kind, this.#own(owner));
  }

  tellTier(
    change: 'stored' | 'removed',
    medium: TierMedium,
    hashes: readonly bigint[],
    group?: number,
  ): void {
    this.#view.tellTier(change, medium, hashes, group);
  }

  wake(handle: number): boolean {
    return this.#view.wake(handle);
  }

  /** Invalid names stay as they are, so that the scheduler refuses them. */
  #own(owner: string): string {
    return typeof owner === 'string' && owner !== '' ? `${this.#name}: ${owner}` : owner;
  }
}
