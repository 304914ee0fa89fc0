import { Violation } from './facts.js';

/** An event of the prefix cache, as plain data; a hash is a text. */
export type IndexFact =
  | { readonly type: 'cleared' }
  | { readonly type: 'removed'; readonly hashes: readonly string[] }
  | {
      readonly type: 'stored';
      readonly hashes: readonly string[];
      readonly parent: string | null;
      /** The number of the first block in its text. */
      readonly firstBlock?: number | null;
      /** The tokens of each block. */
      readonly tokens: readonly (readonly number[])[];
      /** Adapter and salt. */
      readonly names: string;
      readonly isReused: boolean;
      /** Its group keeps only some blocks of a request: the parent may never have been stored. */
      readonly hasHoles?: boolean;
    };

/**
 * A reader of the events of the prefix cache, which knows nothing else of it, like a router. I21:
 * the events alone give the hashes that the cache has, and a block is stored once and after its
 * parent. Only stored blocks are removed or found, and a hash has one content.
 */
export class IndexAudit {
  readonly #known = new Set<string>();
  /** The content for which each hash was stored, also after it was removed. */
  readonly #contents = new Map<string, string>();
  /** Whether the tokens under a hash may differ: a session drops a token, and keeps the hash of its block, as in vLLM. */
  hasSessions = false;
  numEvents = 0;

  /** @throws Violation */
  told(fact: IndexFact): void {
    this.numEvents++;
    if (fact.type === 'cleared') this.#known.clear();
    else if (fact.type === 'removed') this.#removed(fact.hashes);
    else this.#stored(fact);
  }

  /**
   * Compares with the hashes that the cache has now.
   * @param unsure hashes that may be of a part of a block, which nobody finds and no event names
   * @throws Violation
   */
  check(hashes: readonly string[], unsure: readonly string[]): void {
    for (const hash of hashes) if (!this.#known.has(hash)) throw new Violation('I21', `${hash} was not told`);
    const actual = new Set([...hashes, ...unsure]);
    for (const hash of this.#known)
      if (!actual.has(hash)) throw new Violation('I21', `${hash} is gone, and nobody was told`);
  }

  #removed(hashes: readonly string[]): void {
    if (hashes.length === 0) throw new Violation('I21', 'nothing is removed');
    for (const hash of hashes)
      if (!this.#known.delete(hash)) throw new Violation('I21', `${hash} is removed, and was not stored`);
  }

  #stored({
    hashes,
    parent,
    firstBlock,
    tokens,
    names,
    isReused,
    hasHoles,
  }: IndexFact & { type: 'stored' }): void {
    if (typeof firstBlock === 'number' && (firstBlock === 0) !== (parent === null))
      throw new Violation('I21', `block ${firstBlock} of a text is stored behind ${parent}`);
    if (hashes.length === 0 || hashes.length !== tokens.length)
      throw new Violation('I21', `${hashes.length} blocks are stored, with the tokens of ${tokens.length}`);
    let before = parent;
    for (const [i, hash] of hashes.entries()) {
      // The parent may be gone by now: a block that was lost leaves its children behind.
      if (before !== null && !this.#contents.has(before) && hasHoles !== true)
        throw new Violation('I21', `${hash} is stored before its parent ${before}`);
      if (this.#known.has(hash) !== isReused)
        throw new Violation('I21', `${hash} is ${isReused ? 'found, and was not stored' : 'stored twice'}`);
      this.#known.add(hash);
      const content = `${before ?? names} ${tokens[i]}`;
      const known = this.#contents.get(hash) ?? content;
      if (known !== content && !this.hasSessions)
        throw new Violation('I21', `${hash} is stored for ${known}, and for ${content}`);
      this.#contents.set(hash, known);
      before = hash;
    }
  }
}
