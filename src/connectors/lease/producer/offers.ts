import type { HandOver, KvView } from '../../../scheduler/connector/kv-view.js';
import type { KvViewGroup } from '../../../scheduler/connector/view-group.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';
import { digestOf, type Extent } from '../wire/hand-over.js';
import type { OrderLog } from '../wire/order-log.js';
import { leaseKey } from '../wire/orders.js';

/** A finished request whose blocks some rank keeps under a lease. */
interface Offer {
  readonly blocks: ReadonlySet<number>;
  /** Ranks that reported that nobody reads the blocks any more. */
  readonly sent: Set<number>;
}

/** The lease that is offered to the engine that continues a request. */
export interface Offered {
  /** Name of the lease. */
  readonly key: string;
  readonly extents: readonly Extent[];
}

/** The finished requests whose KV this engine offers to other engines: the scheduler side. */
export class Offers {
  readonly #life: string;
  readonly #log: OrderLog;
  readonly #open = new Map<number, Offer>();
  /** Set by `bind`. */
  view!: KvView;
  #numOffered = 0;

  constructor(life: string, log: OrderLog) {
    this.#life = life;
    this.#log = log;
  }

  /** Number of offers so far. It equals the number of the last lease. */
  get numOffered(): number {
    return this.#numOffered;
  }

  /** Number of offers that some rank has not ended. */
  get numOpen(): number {
    return this.#open.size;
  }

  /**
   * Orders a lease of a finished request's blocks. @returns the lease and its extents; null if
   * nothing can be offered
   */
  offer(request: ConnectorRequest, { numTokens, readableFrom, blocks }: HandOver): Offered | null {
    const { handle, numPromptTokens } = request;
    if (numTokens === 0) return null;
    const { groups, acceptsLoads } = this.view;
    // The reader has the same groups, and would therefore refuse to load.
    if (acceptsLoads === false) return null;
    // A state covers the last computed token, and steps in flight may advance it.
    if (groups.some(hasStates) && request.numComputedTokens !== numTokens) return null;
    const own = blocks.map((list, group) => list.slice(0, Math.ceil(numTokens / groups[group].blockSize)));
    const from = fewestTokens(this.view, numTokens, own);
    if (from > numTokens) return null;
    const tokens = this.view.tokens(request);
    const lengths = numTokens > numPromptTokens ? [numPromptTokens, numTokens] : [numTokens];
    const usable = lengths.filter((length) => length >= from);
    const extents = usable.map((length) => ({
      ...{ numTokens: length, digest: digestOf(tokens, length, request) },
      ...(from > 0 && { from }),
    }));
    const key = leaseKey(this.#life, ++this.#numOffered);
    const held = own.flatMap((list) => [...list].filter((id) => id !== 0));
    this.#open.set(handle, { blocks: new Set(held), sent: new Set() });
    this.#log.add({ kind: 'grant', handle, key, blocks: own, fewest: from, most: numTokens, readableFrom });
    return { key, extents };
  }

  /** The request's client has gone. */
  cancel(handle: number): void {
    if (this.#open.has(handle)) this.#log.add({ kind: 'revoke', handle, atOnce: false });
  }

  /** A rank reported that nobody reads the blocks of a request any more. */
  sent(handle: number, rank: number, numRanks: number): void {
    const offer = this.#open.get(handle);
    if (offer === undefined) return;
    offer.sent.add(rank);
    if (offer.sent.size >= numRanks) this.#open.delete(handle);
  }

  /** The KV of blocks is gone: no read of them may end well. */
  lose(blocks: readonly number[]): void {
    for (const [handle, offer] of this.#open) {
      if (blocks.some((block) => offer.blocks.has(block)))
        this.#log.add({ kind: 'revoke', handle, atOnce: true });
    }
  }
}

function hasStates({ type }: KvViewGroup): boolean {
  return type === 'mamba';
}

/**
 * Returns the fewest tokens that a reader can resume behind with these rows. To resume behind fewer
 * tokens, it would need places that were released. The result exceeds `numTokens` if no resumption
 * is possible.
 */
function fewestTokens(view: KvView, numTokens: number, rows: readonly Int32Array[]): number {
  let fewest = 0;
  for (const [g, group] of view.groups.entries()) {
    // With draft states in the group, the last state depends on the number of accepted drafts.
    if (hasStates(group)) return group.numSpeculativeBlocks === 0 ? numTokens : numTokens + 1;
    const held = rows[g].findIndex((id) => id !== 0);
    const first = held < 0 ? rows[g].length : held;
    const from = first === 0 ? 0 : fewestFor(view, g, first, numTokens);
    fewest = Math.max(fewest, from);
  }
  return fewest;
}

/**
 * Returns the fewest tokens behind which no place before `first` is needed; more than `most` if
 * there are none. More tokens never need an earlier place.
 */
function fewestFor(view: KvView, group: number, first: number, most: number): number {
  let [low, high] = [0, most + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (view.neededPlaces(group, middle).first >= first) high = middle;
    else low = middle + 1;
  }
  return low;
}
