import type { Match } from '../../../scheduler/connector/connector.js';
import type { BlockLists, KvView } from '../../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';
import { type Extent, type HandOverParams, readHandOver, usableExtent } from '../wire/hand-over.js';
import type { OrderLog } from '../wire/order-log.js';
import type { LoadOrder } from '../wire/orders.js';

/** A request whose prompt another engine has computed. */
interface Pull {
  /** The extent that can be loaded. */
  readonly usable: Extent;
  /** Ranks that have found the lease alive. */
  readonly found: Set<number>;
  /**
   * `asking`: some rank does not know yet whether the lease is valid. `alive`: every rank found it
   * valid. `lost`: some rank cannot read it. `taken`: the load was ordered, and is never offered
   * again. `done`: the lease is no longer needed.
   */
  state: 'asking' | 'alive' | 'lost' | 'taken' | 'done';
}

const ASK_LATER: Match = { numTokens: null, async: false, wakes: true };

/**
 * The requests whose KV this engine loads from other engines: the scheduler side.
 *
 * The scheduler asks about a request again until every rank knows whether the lease is valid. A
 * lease that ended while the request queued therefore costs a computation, and never a failed load.
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
  /**
   * The last number given to a lease that was given back without a request. These numbers are below
   * 0.
   */
  #lastForgone = 0;
  #view!: KvView;
  #settings = '';

  constructor(numRanks: number, log: OrderLog) {
    this.#numRanks = numRanks;
    this.#log = log;
  }

  /** Number of known requests. */
  get size(): number {
    return this.#pulls.size;
  }

  bind(view: KvView, settings: string): void {
    this.#view = view;
    this.#settings = settings;
  }

  /** A request was added. From now on, the workers keep its lease alive. */
  begin(request: ConnectorRequest): void {
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
      // No other engine will read the lease.
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

  /** A rank got no confirmation of the request's lease for too long, so it asks again. */
  doubted(handle: number, rank: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state !== 'asking' && pull?.state !== 'alive') return;
    pull.state = 'asking';
    pull.found.delete(rank);
  }

  /** The peer refused a read of the request before any byte was copied. */
  declined(handle: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state === 'taken') this.#lose(handle, pull);
  }

  /** A rank can no longer read the lease of a request. */
  lost(handle: number): void {
    const pull = this.#pulls.get(handle);
    if (pull?.state !== 'asking' && pull?.state !== 'alive') return;
    if (pull.state === 'asking') this.#view.wake(handle);
    this.#lose(handle, pull);
  }

  /** Returns the tokens that can be loaded for a request; null = none. */
  match(request: ConnectorRequest, numLocalTokens: number): Match | null {
    const pull = this.#pulls.get(request.handle);
    if (pull === undefined) return null;
    const count = loadable(pull, request) - numLocalTokens;
    if (count <= 0) return null;
    if (pull.state === 'asking') return ASK_LATER;
    return pull.state === 'alive' ? { numTokens: count, async: true } : null;
  }

  /** A request has blocks, and `numExternal` of its tokens must be loaded. */
  allocated(request: ConnectorRequest, blocks: BlockLists, numExternal: number): void {
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

  /** Drains the loads of the next plan. */
  drainLoads(): readonly LoadOrder[] {
    const loads = this.#loads;
    if (loads.length > 0) this.#loads = [];
    return loads;
  }

  /** A request has ended. The rest of its lease is given back at once. */
  end({ handle }: ConnectorRequest): void {
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

  /**
   * Gives back a lease that no request of this engine reads. The watch uses a number that is no
   * request's handle.
   */
  #forgoAll(params: HandOverParams): void {
    const handle = --this.#lastForgone;
    this.#watch(handle, params);
    this.#log.add({ kind: 'forgo', handle });
  }
}

/**
 * Returns the number of tokens to load, counted from the first token. The result is 0 if blocks
 * that the request needs behind them were released. The last token is always computed, because
 * sampling needs it.
 */
function loadable({ usable }: Pull, { numTokens }: ConnectorRequest): number {
  const count = Math.min(usable.numTokens, numTokens - 1);
  return count < (usable.from ?? 0) ? 0 : count;
}
