// vLLM's block pool in its plainest form.

/**
 * vLLM's block pool, request by request and block by block, in the plainest form: the native core must agree with it
 * after every operation. It knows nothing of rows, logs, hashes or thresholds.
 */
export interface ModelRequest {
  tokens: number[];
  identity: string;
  /** Block ids, or null while the request holds no row. */
  blocks: number[] | null;
  /** Leading blocks that need no publication. */
  published: number;
}

export class PoolModel {
  readonly queue: number[];
  readonly refs: number[];
  readonly keyOf = new Map<number, string>();
  /** Blocks by key, oldest publication first. */
  readonly cached = new Map<string, number[]>();
  evictions = 0;

  constructor(
    numBlocks: number,
    readonly blockSize: number,
    readonly caching: boolean,
  ) {
    this.queue = Array.from({ length: numBlocks - 1 }, (_, i) => i + 1);
    this.refs = new Array<number>(numBlocks).fill(0);
  }

  /**
   * The content that a block's hash stands for: all tokens up to its end, and the identity of their
   * owner.
   */
  key(request: ModelRequest, index: number): string {
    return `${request.identity}:${request.tokens.slice(0, (index + 1) * this.blockSize).join()}`;
  }

  /** Leading cached blocks of the request, at most `limit`. */
  hits(request: ModelRequest, limit: number): number[] {
    const hits: number[] = [];
    const full = Math.floor(request.tokens.length / this.blockSize);
    while (this.caching && hits.length < Math.min(limit, full)) {
      const found = this.cached.get(this.key(request, hits.length));
      if (!found) break;
      hits.push(found[0]);
    }
    return hits;
  }

  touch(ids: readonly number[]): void {
    for (const id of ids) {
      if (this.refs[id]++ === 0) this.queue.splice(this.queue.indexOf(id), 1);
    }
  }

  drop(ids: readonly number[]): void {
    for (const id of ids) {
      if (--this.refs[id] === 0) this.queue.push(id);
    }
  }

  evict(ids: readonly number[]): void {
    for (const id of ids) {
      const key = this.keyOf.get(id);
      if (key === undefined) continue;
      const blocks = this.cached.get(key)!.filter((other) => other !== id);
      if (blocks.length > 0) this.cached.set(key, blocks);
      else this.cached.delete(key);
      this.keyOf.delete(id);
      this.evictions += 1;
    }
  }

  /** Makes the request hold `blocks` blocks in all, if the pool has that many. */
  extend(request: ModelRequest, blocks: number): boolean {
    const held = request.blocks!;
    const missing = blocks - held.length;
    if (missing > this.queue.length) return false;
    for (let i = 0; i < missing; i++) {
      const id = this.queue.shift()!;
      this.evict([id]);
      this.refs[id] = 1;
      held.push(id);
    }
    return true;
  }

  publish(request: ModelRequest, tokens: number): void {
    if (!this.caching || !request.blocks) return;
    const full = Math.floor(Math.min(tokens, request.tokens.length) / this.blockSize);
    for (let i = request.published; i < Math.min(full, request.blocks.length); i++) {
      const id = request.blocks[i];
      const key = this.key(request, i);
      request.published = i + 1;
      if (this.keyOf.has(id)) continue;
      this.keyOf.set(id, key);
      this.cached.set(key, [...(this.cached.get(key) ?? []), id]);
    }
  }

  /** vLLM's allocate_slots for a request without blocks: all or nothing. */
  admit(request: ModelRequest, hits: number[], reserve: number, need: number, publish: number): boolean {
    const total = Math.max(Math.ceil(need / this.blockSize), hits.length);
    const wanted = Math.max(Math.ceil(reserve / this.blockSize), total) - hits.length;
    const leaving = hits.filter((id) => this.refs[id] === 0).length;
    if (wanted + leaving > this.queue.length) return false;
    this.touch(hits);
    request.blocks = [...hits];
    request.published = hits.length;
    this.extend(request, total);
    this.publish(request, publish);
    return true;
  }

  release(request: ModelRequest): void {
    if (request.blocks) this.drop(request.blocks.reverse());
    request.blocks = null;
    request.published = 0;
  }
}
