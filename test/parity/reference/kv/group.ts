// One group of attention: full, latent, with sinks, sliding, chunked.
import type { SubjectEventGroup, SubjectKvGroup, SubjectOptions } from '../../subject.js';
import type { ReferenceRules } from '../rules/rules.js';
import type { Key } from './contents.js';
import { NULL_BLOCK, type ReferencePool } from './pool.js';
import { emptyRow, type Row } from './row.js';

/** For how many tokens a row must have places. */
export interface Demand {
  /** Tokens that need a place. */
  readonly slots: number;
  /** The same without lookahead. */
  readonly tokens: number;
  /** Tokens that are there already, by hits and by a connector. */
  readonly covered: number;
  /** The blocks among them that are hits. */
  readonly local: number;
  /** Whether only as many blocks count as the group can hold at once. */
  readonly isCapped: boolean;
}

/** A block that is copied to another one before a step computes. */
export interface BlockCopy {
  readonly from: number;
  readonly to: number;
}

/** vLLM's SingleTypeKVCacheManager of one group. Mamba groups have classes of their own. */
export class ReferenceGroup {
  readonly blockSize: number;
  /** Every token attends to every earlier one, so nothing is ever dropped. */
  readonly isFull: boolean;
  /** Blocks that were taken since the last step, where they must be zeroed. */
  fresh: number[] = [];
  /**
   * The copies to make before the present step computes. Either block has one reference more until
   * the step is planned.
   */
  copies: BlockCopy[] = [];

  constructor(
    readonly index: number,
    readonly spec: SubjectKvGroup,
    protected readonly options: SubjectOptions,
    protected readonly rules: ReferenceRules,
    protected readonly pool: ReferencePool,
  ) {
    this.blockSize = spec.blockSize ?? options.blockSize;
    this.isFull = ['full', 'mla', 'sink'].includes(spec.type);
  }

  /** Groups with equal ones are looked up together; whether they have layers of a drafter does not count. */
  get kind(): string {
    const { type, window, chunk, mode, numSpeculativeBlocks, sinkTokens } = this.spec;
    return JSON.stringify([type, this.blockSize, window, chunk, mode, numSpeculativeBlocks, sinkTokens]);
  }

  /** The fields of the group in a KV cache event. */
  get facts(): SubjectEventGroup {
    const { type: kind, window } = this.spec;
    return { group: this.index, blockSize: this.blockSize, kind, window: window ?? null };
  }

  /** Leading tokens to which no later token attends once `computed` are there. */
  protected skip(computed: number): number {
    const { type, window = 0, chunk = 1 } = this.spec;
    if (type === 'sliding') return Math.max(0, computed - window + 1);
    return type === 'chunked' ? Math.floor(computed / chunk) * chunk : 0;
  }

  skipBlocks(computed: number): number {
    return Math.floor(Math.max(0, this.skip(computed)) / this.blockSize);
  }

  /** Most blocks that a request is thought to hold at once while its prompt is computed. */
  get #cap(): number {
    const { type, window = 0, chunk = 0 } = this.spec;
    const { maxNumBatchedTokens, maxModelLen, pipelineDepth } = this.options;
    const budget = maxNumBatchedTokens * (this.rules.windowBasis === 'processed' ? pipelineDepth : 1);
    const blocks = (tokens: number) => Math.ceil(Math.min(tokens + budget, maxModelLen) / this.blockSize);
    if (type === 'sliding') return blocks(window - 1) + 1;
    return type === 'chunked' ? blocks(chunk) : Infinity;
  }

  /** How many free blocks a row needs. vLLM bounds a place by the cap, and so counts too little behind a long hit. */
  need({ blocks }: Row, hits: readonly number[], { slots, covered, local, isCapped }: Demand): number {
    const copied = this.endsInside(hits, local) ? 1 : 0;
    const places = Math.min(Math.ceil(slots / this.blockSize), isCapped ? this.#cap : Infinity);
    if (blocks.length > 0) return Math.max(places - blocks.length, 0);
    const skipped = this.skipBlocks(covered);
    return Math.max(places - Math.max(skipped, hits.length), 0) + this.numFree(hits.slice(skipped)) + copied;
  }

  /** Whether only a part of the last of these hits is one. */
  protected endsInside(hits: readonly number[], local: number): boolean {
    return hits.length > 0 && local % this.blockSize > 0;
  }

  /** Blocks that a load takes beside those of `need`. */
  uncounted(_hits: readonly number[], _demand: Demand): number {
    return 0;
  }

  protected numFree(hits: readonly number[]): number {
    return hits.filter((block) => this.pool.isFree(block)).length;
  }

  /** Gives back what no token attends to any more; its places stay. The rightmost block is the next to be taken. */
  drop({ blocks }: Row, computed: number): void {
    const end = Math.min(this.skipBlocks(computed), blocks.length);
    const begin = blocks.lastIndexOf(NULL_BLOCK, end - 1) + 1;
    if (end <= begin) return;
    const dropped = blocks.splice(begin, end - begin, ...new Array<number>(end - begin).fill(NULL_BLOCK));
    this.pool.release(dropped);
  }

  /** Holds the hits of a row that is opened. @returns false if it was opened before */
  hold(row: Row, hits: readonly number[], local: number, total: number): boolean {
    if (row.settled !== null || row.blocks.length > 0) return false;
    const skipped = this.skipBlocks(total);
    const kept = hits.slice(skipped);
    this.pool.touch(kept);
    row.blocks.push(...new Array<number>(skipped).fill(NULL_BLOCK), ...kept);
    row.settled = row.blocks.length;
    if (this.endsInside(kept, local)) row.shared = row.settled = Math.floor(local / this.blockSize);
    return true;
  }

  /** Takes the blocks that the external tokens are loaded into. */
  load(row: Row, total: number, external: number): void {
    const isCut = this.rules.loadsNeeded || this.skipBlocks(total) > 0;
    const loaded = isCut ? Math.min(total - this.skip(total), external) : external;
    if (loaded > 0) this.#append(row, total);
  }

  /** Appends blocks until `slots` tokens have places. */
  extend(row: Row, { slots }: Demand): void {
    if (row.shared !== null) {
      const [copy] = this.pool.take(1);
      this.replaceShared(row, copy);
      this.fresh.push(copy);
    }
    this.#append(row, slots);
  }

  /** A block that others find is copied for a row that goes on in it. */
  protected replaceShared(row: Row, to: number): void {
    const place = row.shared as number;
    const from = row.blocks[place];
    row.blocks[place] = to;
    row.shared = null;
    this.pool.touch([to]);
    this.copies.push({ from, to });
  }

  #append({ blocks }: Row, tokens: number): void {
    const taken = this.pool.take(Math.max(Math.ceil(tokens / this.blockSize) - blocks.length, 0));
    blocks.push(...taken);
    const { type } = this.spec;
    if (type === 'full' || (this.rules.zeroesAll && type !== 'mamba')) this.fresh.push(...taken);
  }

  /** A state that is not at the end of a block gets a key. */
  publishTail(_row: Row, _key: Key, _place: number): void {}

  /** A block of this group has got a key. */
  noted(_key: Key): void {}

  /** A step begins. */
  begin(): void {}

  release(row: Row): void {
    this.pool.release(row.blocks);
    Object.assign(row, emptyRow());
  }
}
