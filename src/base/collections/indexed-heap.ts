/**
 * A binary heap whose items know their own index in it. The first item, and any item to remove, is
 * therefore found without a search. The order of two items is `comesBefore` of the subclass.
 */
export abstract class IndexedHeap<Item> {
  protected readonly heap: Item[] = [];

  /** Whether `a` precedes `b` in the order of the heap. */
  protected abstract comesBefore(a: Item, b: Item): boolean;
  /** The index of the item in this heap; -1 if the item is not in this heap. */
  protected abstract indexOf(item: Item): number;
  /** Stores the index of the item in the item; -1 when the item leaves the heap. */
  protected abstract setIndex(item: Item, index: number): void;

  /** Adds an item. The item must not be in this heap yet. */
  protected insertIntoHeap(item: Item): void {
    this.heap.push(item);
    this.#siftUp(item, this.heap.length - 1);
  }

  /**
   * Removes an item of this heap. The fields that `comesBefore` reads must not have changed since
   * the item was added.
   */
  protected removeFromHeap(item: Item): void {
    const index = this.indexOf(item);
    const last = this.heap.pop() as Item;
    this.setIndex(item, -1);
    if (last === item) return;
    if (index > 0 && this.comesBefore(last, this.heap[(index - 1) >> 1])) this.#siftUp(last, index);
    else this.#siftDown(last, index);
  }

  #siftUp(item: Item, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.comesBefore(item, this.heap[parent])) break;
      this.#place(this.heap[parent], index);
      index = parent;
    }
    this.#place(item, index);
  }

  #siftDown(item: Item, from: number): void {
    const { heap } = this;
    let index = from;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && this.comesBefore(heap[child + 1], heap[child])) child++;
      if (!this.comesBefore(heap[child], item)) break;
      this.#place(heap[child], index);
      index = child;
    }
    this.#place(item, index);
  }

  #place(item: Item, index: number): void {
    this.heap[index] = item;
    this.setIndex(item, index);
  }
}
