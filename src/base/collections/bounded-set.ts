/** A set of bounded size: what was added last stays, and what was added first is forgotten first. */
export class BoundedSet<T> {
  readonly #most: number;
  /** In the order in which they were added last. */
  readonly #items = new Set<T>();

  /** @param most items that are remembered */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#items.size;
  }

  has(item: T): boolean {
    return this.#items.has(item);
  }

  /** Adds an item; one that is there already counts as added now. */
  add(item: T): void {
    this.#items.delete(item);
    this.#items.add(item);
    if (this.#items.size <= this.#most) return;
    for (const oldest of this.#items) {
      this.#items.delete(oldest);
      return;
    }
  }

  /** @returns whether the item was there */
  delete(item: T): boolean {
    return this.#items.delete(item);
  }

  clear(): void {
    this.#items.clear();
  }
}
