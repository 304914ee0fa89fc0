import type { Match } from '../../../scheduler/connector/connector.js';
import type { BlockLists, KvView } from '../../../scheduler/connector/kv-view.js';
import type { Request } from '../../../scheduler/request/request.js';
import { type Extent, type HandOverParams, readHandOver, usableExtent } from '../wire/hand-over.js';
import type { OrderLog } from '../wire/order-log.js';
import type { LoadOrder } from '../wire/orders.js';

/** A request whose prompt another engine has computed. */
interface Pull {
  /** What can be loaded. */
  readonly usable: Extent;
  /** Ranks that have found the lease alive. */
  readonly found: Set<number>;
  /**
   * `asking`: some rank does not know yet whether the lease holds. `alive`: every rank found it. `lost`: some rank cannot
   * read it. `taken`: the load was ordered, and is never offered again. `done`: the lease is needed no more.
   */
  state: 'asking' | 'alive' | 'lost' | 'taken' | 'done';
}

const ASK_LATER: Match = { numTokens: null, async: false, wakes: true };

/**
 * The requests whose KV this engine loads from others: the scheduler side.
 *
 * A request is asked about again until every rank knows whether the lease holds; so a lease that ended while the request
 * queued costs a computation, and never a failed load.
 */
export class Pulls {
  readonly counts = {
    asked: 0,
    badParams: 0,
    otherSettings: 0,
    otherTokens: 0,
    loads: 0,
    lost: 0,
    localHits: 0,
    givenBack: 0,
  };
  readonly #numRanks: number;
  readonly #log: OrderLog;
  readonly #pulls = new Map<number, Pull>();
  #loads: LoadOrder[] = [];
  /** Handle under which the last lease was given back that was no request's: below 0. */
  #lastForgone = 0;
  #view!: KvView;
  #settings = '';

  constructor(numRanks: number, log: OrderLog) {
    this.#numRanks = numRanks;
    this.#log = log;
  }

  /** Requests that are known. */
  get size(): number {
    return this.#pulls.size;
  }

  bind(view: KvView, settings: string): void {
    this.#view = view;
    this.#settings = settings;
  }

  /** A request was added. From now on the workers keep its lease alive. */
  begin(request: Request): void {
    const { handle, transferParams } = request;
    this.counts.asked++;
    const params = readHandOver(transferParams, this.#numRanks);
    if (params === null) {
      this.counts.badParams++;
      return;
    }
    const isOther = params.settings !== this.#settings;
    const usable = isOther ? null : usableExtent(params, this.#view.tokens(request), request);
    if (usable === null) {
      this.counts[isOther ? 'otherSettings' : 'otherTokens']++;
      // Nobody else will read it.
      this.#forgoAll(params);
      return;
    }
    this.#pulls.set(handle, { usable, found: new Set(), state: 'asking' });
    this.#watch(handle, params);
  }

  /** No request reads the lease that these params name. */
  giveBack(transferParams: unknown): void {
    const params = readHandOver(transferParams, this.#numRanks);
    if (params === null) return;
    this.counts.givenBack++;
    this.#forgoAll(params);
  }

  /** A rank found the lease of a request alive. */
  found(handle: number, rank: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state !== 'asking') return;
    pull.found.add(rank);
    if (pull.found.size < this.#numRanks) return;
    pull.state = 'alive';
    this.#view.wake(handle);
  }

  /** A rank was not told for too long that the lease of a request holds: it asks again. */
  doubted(handle: number, rank: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state !== 'asking' && pull?.state !== 'alive') return;
    pull.state = 'asking';
    pull.found.delete(rank);
  }

  /** The peer has refused a read of the request before a byte of it was copied. */
  declined(handle: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state === 'taken') this.#lose(handle, pull);
  }

  /** A rank cannot read the lease of a request any more. */
  lost(handle: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state !== 'asking' && pull?.state !== 'alive') return;
    if (pull.state === 'asking') this.#view.wake(handle);
    this.#lose(handle, pull);
  }

  /** What can be loaded for a request; null = nothing. */
  match(request: Request, numLocalTokens: number): Match | null {
    const pull = this.#pulls.get(request.handle);
    if (pull === undefined) return null;
    const count = loadable(pull, request) - numLocalTokens;
    if (count <= 0) return null;
    if (pull.state === 'asking') return ASK_LATER;
    return pull.state === 'alive' ? { numTokens: count, async: true } : null;
  }

  /** A request has blocks, and `numExternal` of its tokens are to be loaded. */
  allocated(request: Request, blocks: BlockLists, numExternal: number): void {
    const { handle } = request;
    const pull = this.#pulls.get(handle);
    if (pull === undefined || pull.state === 'taken' || pull.state === 'done') return;
    if (numExternal === 0) {
      if (pull.state !== 'lost') {
        this.counts.localHits++;
        this.#log.add({ kind: 'forgo', handle });
      }
      pull.state = 'done';
      return;
    }
    const numTokens = loadable(pull, request);
    const ranges = this.#view.groups.map(({ blockSize }, group) => {
      const { first, end } = this.#view.neededPlaces(group, numTokens);
      return { first: Math.max(first, Math.floor((numTokens - numExternal) / blockSize)), end };
    });
    pull.state = 'taken';
    this.counts.loads++;
    this.#loads.push({
      handle,
      numTokens,
      firsts: ranges.map(({ first }) => first),
      blocks: ranges.map(({ first, end }, group) => blocks[group].slice(first, end)),
    });
  }

  /** The loads of the next plan. */
  takeLoads(): readonly LoadOrder[] {
    const loads = this.#loads;
    if (loads.length > 0) this.#loads = [];
    return loads;
  }

  /** A request has ended. Whatever is left of its lease is given back at once. */
  end({ handle }: Request): void {
    const pull = this.#pulls.get(handle);
    if (pull === undefined) return;
    this.#pulls.delete(handle);
    if (pull.state !== 'lost' && pull.state !== 'done') this.#log.add({ kind: 'forgo', handle });
  }

  #lose(handle: number, pull: Pull): void {
    pull.state = 'lost';
    this.counts.lost++;
    this.#log.add({ kind: 'forgo', handle });
  }

  #watch(handle: number, params: HandOverParams): void {
    const { remoteRequestId: key, remoteAddresses: addresses, leaseMs } = params;
    this.#log.add({ kind: 'watch', handle, key, addresses, leaseMs });
  }

  /** Gives a lease back that no request of this engine reads. It is watched under a handle that is no request's. */
  #forgoAll(params: HandOverParams): void {
    const handle = --this.#lastForgone;
    this.#watch(handle, params);
    this.#log.add({ kind: 'forgo', handle });
  }
}

/**
 * Tokens to be loaded, from the first one on; 0 if what the request needs behind them was let go. The last token is computed in any case, to
 * sample from.
 */
function loadable({ usable }: Pull, { numTokens }: Request): number {
  const count = Math.min(usable.numTokens, numTokens - 1);
  return count < (usable.from ?? 0) ? 0 : count;
}
