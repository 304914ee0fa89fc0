// vLLM's `BlockPool`.
import type { ContentName, Key } from './contents.js';
import type { EventLog } from './event-log.js';

/** The null block: it stands in a row where a block is no longer, or never was. */
export const NULL_BLOCK = 0;

/**
 * vLLM's BlockPool in its plainest form: every list is an array that is searched. The null block is never handed out, and neither
 * touching nor releasing it changes anything.
 */
export class ReferencePool {
  /** Free blocks, next to be taken first. */
  readonly free: number[];
  readonly refs: number[];
  readonly #keys: (Key | null)[];
  /** Blocks that carry a key, oldest first: a lookup finds the first. */
  #published: number[] = [];

  constructor(
    readonly numBlocks: number,
    private readonly log: EventLog,
    private readonly freeOrder: 'tail' | 'unhashedFirst' = 'tail',
  ) {
    this.free = Array.from({ length: numBlocks - 1 }, (_, i) => i + 1);
    this.refs = new Array<number>(numBlocks).fill(0);
    this.#keys = new Array<Key | null>(numBlocks).fill(null);
  }

  /** Ids of the blocks that carry a key, ascending. */
  published(): number[] {
    return [...this.#published].sort((a, b) => a - b);
  }

  keyOf(block: number): Key | null {
    return this.#keys[block];
  }

  /** The oldest block with a key. */
  find(name: ContentName, group: number): number | undefined {
    return this.#published.find((block) => {
      const key = this.#keys[block];
      return key?.name === name && key.group === group;
    });
  }

  /** Whether nobody holds a block, so that touching it takes it from the free ones. */
  isFree(block: number): boolean {
    return block !== NULL_BLOCK && this.refs[block] === 0;
  }

  /** One more reference to each block; a free one leaves the queue, wherever it stands. */
  touch(blocks: readonly number[]): void {
    for (const block of blocks) {
      if (block === NULL_BLOCK) continue;
      if (this.refs[block]++ === 0) this.free.splice(this.free.indexOf(block), 1);
    }
  }

  /** Takes n blocks from the head of the queue; only now do they lose their keys. */
  take(n: number): number[] {
    if (n > this.free.length) throw new Error(`${n} blocks are taken where ${this.free.length} are free`);
    const taken = this.free.splice(0, n);
    for (const block of taken) {
      this.refs[block] = 1;
      this.#forget(block);
    }
    return taken;
  }

  publish(block: number, key: Key): void {
    if (this.#keys[block] !== null) throw new Error(`block ${block} is published already`);
    this.#keys[block] = key;
    this.#published.push(block);
  }

  /** Takes keys away; who holds the blocks keeps them. */
  unpublish(blocks: Iterable<number>): void {
    for (const block of blocks) this.#forget(block);
  }

  #forget(block: number): void {
    const key = this.#keys[block];
    if (key === null) return;
    this.#keys[block] = null;
    this.#published.splice(this.#published.indexOf(block), 1);
    if (!key.isTail) this.log.removed(key);
  }

  /** Gives blocks back, the last one first. With `unhashedFirst` those without a key are put before all others, as one piece. */
  release(blocks: readonly number[]): void {
    const gone = [...blocks].reverse().filter((block) => block !== NULL_BLOCK && --this.refs[block] === 0);
    const isFirst = (block: number) => this.freeOrder === 'unhashedFirst' && this.#keys[block] === null;
    this.free.unshift(...gone.filter(isFirst));
    this.free.push(...gone.filter((block) => !isFirst(block)));
  }

  /** Forgets all keys, unless a block is in use. */
  reset(): boolean {
    if (this.free.length !== this.numBlocks - 1) return false;
    this.#published = [];
    this.#keys.fill(null);
    this.log.cleared();
    return true;
  }
}
