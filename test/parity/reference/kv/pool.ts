// vLLM's `BlockPool`.
import type { ContentName, Key } from './contents.js';
import type { EventLog } from './event-log.js';

/** The null block: it fills the places of a row that have no block any more, or never had one. */
export const NULL_BLOCK = 0;

/**
 * vLLM's BlockPool in its plainest form: every list is an array that is searched. The null block is never handed out, and neither
 * touching nor releasing it changes anything.
 */
export class ReferencePool {
  /** Free blocks, next to be taken first. */
  readonly free: number[];
  readonly refs: number[];
  /** Blocks and the keys that they carry, oldest first: a lookup finds the first. */
  #published: { readonly block: number; readonly key: Key }[] = [];

  constructor(
    readonly numBlocks: number,
    private readonly log: EventLog,
    private readonly freeOrder: 'tail' | 'unhashedFirst' = 'tail',
  ) {
    this.free = Array.from({ length: numBlocks - 1 }, (_, i) => i + 1);
    this.refs = new Array<number>(numBlocks).fill(0);
  }

  /** Ids of the blocks that carry a key, ascending. */
  published(): number[] {
    return [...new Set(this.#published.map(({ block }) => block))].sort((a, b) => a - b);
  }

  /** The first key of a block. */
  keyOf(block: number): Key | null {
    return this.#published.find((entry) => entry.block === block)?.key ?? null;
  }

  /** The oldest block with a key. */
  find(name: ContentName, group: number): number | undefined {
    return this.#published.find(({ key }) => key.name === name && key.group === group)?.block;
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
    if (this.keyOf(block) !== null) throw new Error(`block ${block} is published already`);
    this.#published.push({ block, key });
  }

  /** One more key for a block, unless it has that one. */
  alias(block: number, key: Key): void {
    const has = this.#published.some((entry) => entry.block === block && entry.key.name === key.name);
    if (!has) this.#published.push({ block, key });
  }

  /** Gives the keys of a block to another one, which has none. */
  moveKeys(from: number, to: number): void {
    const moved = this.#published.filter(({ block }) => block === from);
    this.#published = this.#published.filter(({ block }) => block !== from);
    for (const { key } of moved) this.#published.push({ block: to, key });
  }

  /** Takes keys away; the holders of the blocks keep them. */
  unpublish(blocks: Iterable<number>): void {
    for (const block of blocks) this.#forget(block);
  }

  #forget(block: number): void {
    const forgotten = this.#published.filter((entry) => entry.block === block);
    if (forgotten.length === 0) return;
    this.#published = this.#published.filter((entry) => entry.block !== block);
    for (const { key } of forgotten) if (!key.isTail) this.log.removed(key);
  }

  /** Gives blocks back, the last one first. With `unhashedFirst` those without a key are put before all others, as one piece. */
  release(blocks: readonly number[]): void {
    const gone = [...blocks].reverse().filter((block) => block !== NULL_BLOCK && --this.refs[block] === 0);
    const isFirst = (block: number) => this.freeOrder === 'unhashedFirst' && this.keyOf(block) === null;
    this.free.unshift(...gone.filter(isFirst));
    this.free.push(...gone.filter((block) => !isFirst(block)));
  }

  /** Forgets all keys, unless a block is in use. */
  reset(): boolean {
    if (this.free.length !== this.numBlocks - 1) return false;
    this.#published = [];
    this.log.cleared();
    return true;
  }
}
