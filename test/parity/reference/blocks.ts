import type { SubjectCore, SubjectInput, SubjectOptions } from '../subject.js';
import { Contents, ReferencePool } from './pool.js';
import { ReferenceRequest } from './request.js';

/** What a request needs blocks for, behind what is computed. */
export interface Need {
  /** Computed in this step. */
  tokens: number;
  /** Cached blocks to start from. */
  hits?: number[];
  /** Tokens that a connector brings. */
  external?: number;
  lookahead: number;
  /** Whether all known tokens of the request must fit, not only these. */
  reserve?: boolean;
  /** False while a load is only begun. */
  publishes?: boolean;
}

/** vLLM's KVCacheManager for one group of full attention. */
export class ReferenceBlocks {
  readonly pool: ReferencePool;
  readonly #contents = new Contents();
  readonly #options: SubjectOptions;
  /** Every request there ever was, by its slot. */
  readonly #requests: ReferenceRequest[] = [];

  constructor(options: SubjectOptions) {
    this.#options = options;
    this.pool = new ReferencePool(options.numBlocks);
  }

  open(input: SubjectInput): ReferenceRequest {
    const request = new ReferenceRequest(input, this.#requests.length);
    this.#requests.push(request);
    this.name(request);
    return request;
  }

  /** Names the blocks that a request has filled. As in vLLM a name stays when the tokens it stood for are dropped. */
  name(request: ReferenceRequest): void {
    const { cacheSalt = '', adapter = '' } = request.input;
    const owner = JSON.stringify([adapter, cacheSalt]);
    this.#contents.extend(request.names, request.tokens, this.#options.blockSize, owner);
  }

  /** The cached blocks that a request may start from: never its last token, and for eagle one block fewer. */
  match(request: ReferenceRequest): number[] {
    const { blockSize, enablePrefixCaching, numSpeculativeTokens, speculativeMethod } = this.#options;
    if (!enablePrefixCaching) return [];
    const most = Math.floor((request.numTokens - 1) / blockSize);
    const hits = this.pool.match(request.names.slice(0, most));
    if (numSpeculativeTokens > 0 && speculativeMethod === 'eagle') hits.pop();
    return hits;
  }

  /** Blocks for more tokens of a request, or false and no change. */
  allocate(
    request: ReferenceRequest,
    { tokens, hits = [], external = 0, lookahead, reserve = false, publishes = true }: Need,
  ): boolean {
    const { blockSize, maxModelLen } = this.#options;
    const after = request.numComputedTokens + hits.length * blockSize + external + tokens;
    const held = request.blocks.length + hits.length;
    const missing = (count: number) =>
      Math.max(Math.ceil(Math.min(count, maxModelLen) / blockSize) - held, 0);
    const needed = missing(after + lookahead);
    const freeHits = hits.filter((block) => this.pool.refs[block] === 0).length;
    const room = this.pool.free.length - freeHits;
    if (needed > room || (reserve && missing(request.numTokens) > room)) return false;
    this.pool.touch(hits);
    request.blocks.push(...hits);
    request.numPublished += hits.length;
    request.blocks.push(...this.pool.take(needed));
    if (publishes) this.publish(request, Math.min(after, request.numTokens));
    return true;
  }

  /** Publishes the full blocks of the first `tokens` tokens. */
  publish(request: ReferenceRequest, tokens: number): void {
    if (!this.#options.enablePrefixCaching) return;
    const { names } = request;
    const full = Math.floor(tokens / this.#options.blockSize);
    for (; request.numPublished < full; request.numPublished++) {
      this.pool.publish(request.blocks[request.numPublished], names[request.numPublished]);
    }
  }

  release(request: ReferenceRequest): void {
    this.pool.release(request.blocks);
    request.blocks = [];
    request.numPublished = 0;
  }

  /** Leading blocks of a request that all requests with blocks share. */
  commonPrefix(request: ReferenceRequest | undefined): number {
    if (!request || !this.#options.enablePrefixCaching) return 0;
    const holders = this.#requests.filter(({ blocks }) => blocks.length > 0).length;
    const end = request.blocks.findIndex((block) => this.pool.refs[block] !== holders);
    return end === -1 ? request.blocks.length : end;
  }

  get core(): SubjectCore {
    const { pool } = this;
    return {
      freeBlocks: pool.free.length,
      publishedBlocks: pool.published().length,
      usage: 1 - pool.free.length / (pool.numBlocks - 1),
      freeQueue: () => Int32Array.from(pool.free),
      published: () => Int32Array.from(pool.published()),
      native: {
        readBlocks: (slot, from, out) => {
          const blocks = this.#requests[slot].blocks.slice(from, from + out.length);
          out.set(blocks);
          return blocks.length;
        },
      },
    };
  }

  /** Every reference comes from a request, and a block is free exactly if it has none. */
  verify(): void {
    const { refs, free, numBlocks } = this.pool;
    const counted = new Array<number>(numBlocks).fill(0);
    for (const { blocks } of this.#requests) for (const block of blocks) counted[block]++;
    for (let block = 1; block < numBlocks; block++) {
      if (counted[block] !== refs[block])
        throw new Error(`block ${block} is referenced ${counted[block]} times`);
      if (free.includes(block) !== (refs[block] === 0)) throw new Error(`block ${block} is free and in use`);
    }
  }
}
