/** Name of the content of a block: equal exactly for equal tokens after equal content (0 = nothing before it). */
export type ContentName = number;

/** Hands out content names without hashing, so that no two contents can ever collide. */
export class Contents {
  readonly #names = new Map<string, ContentName>();

  /**
   * Adds the names of the full blocks of a token list that have none yet. `owner` tells the contents of different salts
   * and adapters apart.
   */
  extend(names: ContentName[], tokens: readonly number[], blockSize: number, owner: string): void {
    for (let end = (names.length + 1) * blockSize; end <= tokens.length; end += blockSize) {
      const parent = names.length === 0 ? owner : names[names.length - 1];
      const key = `${parent}:${tokens.slice(end - blockSize, end).join()}`;
      const name: ContentName = this.#names.get(key) ?? this.#names.size + 1;
      this.#names.set(key, name);
      names.push(name);
    }
  }
}

/**
 * vLLM's BlockPool in its plainest form: every list is an array that is searched. Block 0 is the null block and is
 * never handed out.
 */
export class ReferencePool {
  /** Free blocks, next to be taken first. */
  readonly free: number[];
  readonly refs: number[];
  readonly #names: (ContentName | null)[];
  /** Blocks that carry a name, oldest first: a lookup finds the first. */
  #published: number[] = [];

  constructor(readonly numBlocks: number) {
    this.free = Array.from({ length: numBlocks - 1 }, (_, i) => i + 1);
    this.refs = new Array<number>(numBlocks).fill(0);
    this.#names = new Array<ContentName | null>(numBlocks).fill(null);
  }

  /** Ids of the blocks that carry a name, ascending. */
  published(): number[] {
    return [...this.#published].sort((a, b) => a - b);
  }

  /** The blocks of the longest known run of leading names. */
  match(names: readonly ContentName[]): number[] {
    const hits: number[] = [];
    for (const name of names) {
      const hit = this.#published.find((block) => this.#names[block] === name);
      if (hit === undefined) break;
      hits.push(hit);
    }
    return hits;
  }

  /** One more reference to each block; a free one leaves the queue, wherever it stands. */
  touch(blocks: readonly number[]): void {
    for (const block of blocks) {
      if (this.refs[block]++ === 0) this.free.splice(this.free.indexOf(block), 1);
    }
  }

  /** Takes n blocks from the head of the queue; only now do they lose their names. */
  take(n: number): number[] {
    const taken = this.free.splice(0, n);
    for (const block of taken) {
      this.refs[block] = 1;
      this.#names[block] = null;
    }
    this.#published = this.#published.filter((block) => !taken.includes(block));
    return taken;
  }

  publish(block: number, name: ContentName): void {
    if (this.#names[block] !== null) throw new Error(`block ${block} is published already`);
    this.#names[block] = name;
    this.#published.push(block);
  }

  /** Takes names away; who holds the blocks keeps them. */
  unpublish(blocks: ReadonlySet<number>): void {
    for (const block of blocks) this.#names[block] = null;
    this.#published = this.#published.filter((block) => !blocks.has(block));
  }

  /** Gives blocks back, the last one first. */
  release(blocks: readonly number[]): void {
    for (const block of [...blocks].reverse()) {
      if (--this.refs[block] === 0) this.free.push(block);
    }
  }

  /** Forgets all names, unless a block is in use. */
  reset(): boolean {
    if (this.free.length !== this.numBlocks - 1) return false;
    this.#published = [];
    this.#names.fill(null);
    return true;
  }
}
