import type { HandOver, KvView } from '../../../scheduler/connector/kv-view.js';
import type { Request } from '../../../scheduler/request/request.js';
import { digestOf, type Extent } from '../wire/hand-over.js';
import type { OrderLog } from '../wire/order-log.js';
import { leaseKey } from '../wire/orders.js';

/** A finished request whose blocks some rank keeps under a lease. */
interface Offer {
  readonly blocks: ReadonlySet<number>;
  /** Ranks that have reported that nobody reads the blocks any more. */
  readonly sent: Set<number>;
}

/** What is offered to the engine that goes on with a request. */
export interface Offered {
  /** Name of the lease. */
  readonly key: string;
  readonly extents: readonly Extent[];
}

/** The finished requests whose KV this engine offers to others: the scheduler side. */
export class Offers {
  readonly #life: string;
  readonly #log: OrderLog;
  readonly #open = new Map<number, Offer>();
  /** Given by `bind`. */
  view!: KvView;
  #numOffered = 0;

  constructor(life: string, log: OrderLog) {
    this.#life = life;
    this.#log = log;
  }

  /** Offers made so far. The last one has the number of the last lease. */
  get numOffered(): number {
    return this.#numOffered;
  }

  /** Offers that some rank has not ended. */
  get numOpen(): number {
    return this.#open.size;
  }

  /** Orders a lease of what a request leaves. @returns what can be loaded under it; null if there is nothing */
  offer(request: Request, { numTokens, readableFrom, blocks }: HandOver): Offered | null {
    const { handle, adapter, numPromptTokens } = request;
    if (numTokens === 0) return null;
    const tokens = this.view.tokens(request);
    const lengths = numTokens > numPromptTokens ? [numPromptTokens, numTokens] : [numTokens];
    const extents = lengths.map((length) => ({
      numTokens: length,
      digest: digestOf(tokens, length, adapter),
    }));
    const count = Math.ceil(numTokens / this.view.blockSize);
    const own = blocks.map((list) => list.slice(0, count));
    const key = leaseKey(this.#life, ++this.#numOffered);
    this.#open.set(handle, { blocks: new Set(own.flatMap((list) => [...list])), sent: new Set() });
    this.#log.add({ kind: 'grant', handle, key, blocks: own, readableFrom });
    return { key, extents };
  }

  /** The request's client has gone. */
  cancel(handle: number): void {
    if (this.#open.has(handle)) this.#log.add({ kind: 'revoke', handle, atOnce: false });
  }

  /** A rank has reported that nobody reads the blocks of a request any more. */
  sent(handle: number, rank: number, numRanks: number): void {
    const offer = this.#open.get(handle);
    if (offer === undefined) return;
    offer.sent.add(rank);
    if (offer.sent.size >= numRanks) this.#open.delete(handle);
  }

  /** The KV of blocks is gone: nobody may end a read of them. */
  lose(blocks: readonly number[]): void {
    for (const [handle, offer] of this.#open) {
      if (blocks.some((block) => offer.blocks.has(block)))
        this.#log.add({ kind: 'revoke', handle, atOnce: true });
    }
  }
}
