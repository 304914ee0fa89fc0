import { IntList } from './int-list.js';

const REMOVE = 0;
const COPY = 1;
const SAVE = 2;
const LOAD = 3;
/**
 * Numbers of a move: kind, source sequence, target sequence, first position, end position. For a save
 * or a load, the third number is the place of a block in an arena, and the fifth is the arena.
 */
const WIDTH = 5;

/** Changes of llama.cpp's cells before a batch is computed, in order. */
export class Moves {
  readonly list = new IntList();

  get count(): number {
    return this.list.length / WIDTH;
  }

  clear(): void {
    this.list.clear();
  }

  /**
   * Removes the positions [from, to) from a sequence; `to` -1: up to its end. A cell without a
   * sequence becomes free.
   */
  remove(sequence: number, from: number, to: number): void {
    this.#push(REMOVE, sequence, sequence, from, to);
  }

  /** Adds the cells of a sequence at the positions [from, to) to another sequence too. */
  copy(sequence: number, target: number, from: number, to: number): void {
    this.#push(COPY, sequence, target, from, to);
  }

  /** Saves the cells of a block, from the position `from` on, to a place of an arena. */
  save(sequence: number, from: number, place: number, arena: number): void {
    this.#push(SAVE, sequence, place, from, arena);
  }

  /** Loads a block from a place of an arena into new cells of a sequence, from `from` on. */
  load(sequence: number, from: number, place: number, arena: number): void {
    this.#push(LOAD, sequence, place, from, arena);
  }

  /** Drains all moves: the list is empty afterwards. @returns a copy of them */
  drain(): Int32Array {
    const drained = this.list.values.slice(0, this.list.length);
    this.clear();
    return drained;
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
