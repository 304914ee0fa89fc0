/** Name of the content of a block: equal exactly for equal tokens after equal content. */
export type ContentName = number;

/** The key by which a block is found: its content, in its group. */
export interface Key {
  readonly name: ContentName;
  readonly group: number;
  /** The block is not full: its prompt ends in it. No lookup asks for it, and no event tells of it. */
  readonly isTail?: true;
}

/** Hands out content names without hashing, so that no two contents can ever collide. */
export class Contents {
  readonly #names = new Map<string, ContentName>();

  /**
   * Adds the names of the full stretches of `size` tokens of a token list that have none yet. `owner` tells the contents
   * of different salts and adapters apart.
   */
  extend(names: ContentName[], tokens: readonly number[], size: number, owner: string): void {
    for (let end = (names.length + 1) * size; end <= tokens.length; end += size) {
      const parent = names.length === 0 ? owner : names[names.length - 1];
      const key = `${parent}:${tokens.slice(end - size, end).join()}`;
      const name: ContentName = this.#names.get(key) ?? this.#names.size + 1;
      this.#names.set(key, name);
      names.push(name);
    }
  }
}
