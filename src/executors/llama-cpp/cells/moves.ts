import { IntList } from './int-list.js';

const REMOVE = 0;
const COPY = 1;
/** Numbers of a move: kind, sequence, sequence that is copied to, first position, position behind the last. */
const WIDTH = 5;

/** What is to be done with the cells of llama.cpp's cache before a batch is computed, in order. */
export class Moves {
  readonly list = new IntList();

  get count(): number {
    return this.list.length / WIDTH;
  }

  clear(): void {
    this.list.clear();
  }

  /** Takes the positions from `from` to before `to` from a sequence; -1: to its end. A cell that no sequence has is free. */
  remove(sequence: number, from: number, to: number): void {
    this.#push(REMOVE, sequence, sequence, from, to);
  }

  /** Gives the cells of a sequence at the positions from `from` to before `to` to another sequence too. */
  copy(sequence: number, target: number, from: number, to: number): void {
    this.#push(COPY, sequence, target, from, to);
  }

  #push(kind: number, sequence: number, target: number, from: number, to: number): void {
    const at = this.list.extend(WIDTH);
    const { values } = this.list;
    values[at] = kind;
    values[at + 1] = sequence;
    values[at + 2] = target;
    values[at + 3] = from;
    values[at + 4] = to;
  }
}
