/** A set of bounded size. The items that were added first are forgotten first. */
export class BoundedSet<T> {
  #most: number;
  /** In the order of their latest addition. */
  readonly #items = new Set<T>();

  /** @param most largest number of items */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Lowers the bound; a higher bound changes nothing.
   * @param most largest number of items from now on
   */
  bound(most: number): void {
    this.#most = Math.min(this.#most, most);
    this.#forget();
  }

  get size(): number {
    return this.#items.size;
  }

  has(item: T): boolean {
    return this.#items.has(item);
  }

  /** Adds an item. An item that is there already counts as added now. */
  add(item: T): void {
    this.#items.delete(item);
    this.#items.add(item);
    this.#forget();
  }

  /** @returns whether the item was there */
  delete(item: T): boolean {
    return this.#items.delete(item);
  }

  clear(): void {
    this.#items.clear();
  }

  #forget(): void {
    if (this.#items.size <= this.#most) return;
    for (const oldest of this.#items) {
      this.#items.delete(oldest);
      if (this.#items.size <= this.#most) return;
    }
  }
}
