/**
 * A binary heap of items, each of which knows its index. So the first item is found without a search, and any item can leave
 * without one. `comesBefore` says the order of two items.
 */
export abstract class IndexedHeap<Item> {
  protected readonly heap: Item[] = [];

  /** Whether `a` has to stand in front of `b`. */
  protected abstract comesBefore(a: Item, b: Item): boolean;
  /** Where the item stands, -1 if it is not in this heap. */
  protected abstract indexOf(item: Item): number;
  protected abstract setIndex(item: Item, index: number): void;

  /** Adds an item that is not in this heap. */
  protected insertIntoHeap(item: Item): void {
    this.heap.push(item);
    this.#siftUp(item, this.heap.length - 1);
  }

  /** Takes out an item of this heap. The fields that order it must not have changed since it was added. */
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
