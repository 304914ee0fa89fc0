// One group of states, in the modes none, all and align.
import type { Key } from './contents.js';
import { type Demand, ReferenceGroup } from './group.js';
import { NULL_BLOCK } from './pool.js';
import type { Row } from './row.js';

/** vLLM's MambaManager, modes none and all: a block is the state behind its last token, and drafts have blocks of their own. */
export class ReferenceMamba extends ReferenceGroup {
  /** Contents of states that a batch of this step computes: nobody can start from them before it ran. */
  readonly #pending = new Set<number>();

  /** Blocks for drafts. */
  protected get numDrafts(): number {
    return this.spec.numSpeculativeBlocks ?? 0;
  }

  protected override skip(computed: number): number {
    return computed - 1;
  }

  override begin(): void {
    this.#pending.clear();
  }

  override noted({ name }: Key): void {
    this.#pending.add(name);
  }

  override need(row: Row, hits: readonly number[], demand: Demand): number {
    const state = hits.at(-1);
    const name = state === undefined ? undefined : this.pool.keyOf(state)?.name;
    if (name !== undefined && this.#pending.has(name)) return this.options.numBlocks + 1;
    return this.needBlocks(row, hits, demand);
  }

  protected needBlocks(row: Row, hits: readonly number[], demand: Demand): number {
    return super.need(row, hits, this.#withDrafts(demand));
  }

  override extend(row: Row, demand: Demand): void {
    super.extend(row, this.#withDrafts(demand));
  }

  override drop(row: Row, computed: number): void {
    super.drop(row, this.settled(computed));
  }

  /** The computed tokens that no rejected draft can take back, by the rule of May. */
  protected settled(computed: number): number {
    return this.rules.windowBasis === 'processed' ? computed : Math.max(0, computed - this.numDrafts);
  }

  #withDrafts(demand: Demand): Demand {
    return { ...demand, slots: demand.slots + this.numDrafts * this.blockSize };
  }
}

/** Mode align: only states at the ends of chunks are kept, and most places of a row are null. */
export class AlignedMamba extends ReferenceMamba {
  #places(tokens: number): number {
    return Math.ceil(tokens / this.blockSize) + this.numDrafts;
  }

  protected override needBlocks(row: Row, hits: readonly number[], { tokens, local }: Demand): number {
    const copied = this.endsInside(hits, local) || row.shared !== null ? 1 : 0;
    const missing = Math.max(this.#places(tokens) - hits.length - row.blocks.length, 0) + copied;
    const taken = (row.wasExtended ? 1 : 1 + this.numDrafts) + copied;
    return (missing > 0 ? taken : 0) + this.numFree(hits);
  }

  /** A loaded state has a block of its own, which vLLM forgets: it dies where just that one is missing. */
  override uncounted(hits: readonly number[], { tokens, covered }: Demand): number {
    const places = this.#places(tokens);
    const given = Math.max(this.skipBlocks(covered), hits.length);
    const loaded = Math.max(Math.ceil(covered / this.blockSize), given);
    const grown = Math.min(Math.max(places - loaded, 0), 1 + this.numDrafts);
    const counted = places > hits.length ? 1 + this.numDrafts : 0;
    return Math.max(0, loaded - given + grown - counted);
  }

  override extend(row: Row, { tokens }: Demand): void {
    const { blocks } = row;
    const [places, before, drafts] = [this.#places(tokens), blocks.length, this.numDrafts];
    // vLLM dies if the drafts have become fewer.
    if (places <= before && row.shared === null) return;
    if (row.wasExtended) row.last = before - 1 - drafts;
    else if (before > 0) row.last = before - 1;
    const running = places - drafts - 1;
    while (blocks.length < running) blocks.push(NULL_BLOCK);
    if (row.wasExtended) {
      for (let place = before - drafts; place < Math.min(before, running); place++) {
        blocks.push(blocks[place]);
        blocks[place] = NULL_BLOCK;
      }
    }
    const taken = this.pool.take(Math.max(places - blocks.length, 0) + (row.shared === null ? 0 : 1));
    if (row.shared !== null) this.#copyShared(row, taken.shift() as number);
    blocks.push(...taken);
    row.wasExtended = true;
  }

  /** A row that was extended keeps the block, since no row of the device changes behind: the copy gets its keys. */
  #copyShared(row: Row, to: number): void {
    if (!row.wasExtended) {
      this.replaceShared(row, to);
      return;
    }
    const from = row.blocks[row.shared as number];
    row.shared = null;
    this.pool.moveKeys(from, to);
    this.pool.touch([from]);
    this.copies.push({ from, to });
    const key = this.pool.keyOf(to);
    if (key !== null) this.noted(key);
  }

  /** With the fault `partialHits`: the state behind the prompt's last hash gets a key, where a batch ends just there. */
  override publishTail(row: Row, key: Key, place: number): void {
    const block = row.blocks[place] ?? NULL_BLOCK;
    if (block === NULL_BLOCK) return;
    this.pool.alias(block, key);
    this.noted(key);
    row.shared = row.settled = place;
  }

  override drop(row: Row, computed: number): void {
    super.drop(row, computed);
    const { blocks, last } = row;
    const kept = Math.ceil(this.settled(computed) / this.blockSize) - 1;
    if (last === null || last >= kept) return;
    this.pool.release([blocks[last]]);
    blocks[last] = NULL_BLOCK;
  }
}
