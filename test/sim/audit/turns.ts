import type { Seen, Sight } from './facts.js';

/** The blocks of one request, and for each the turn in which it was handed to it. */
export interface Held {
  readonly name: string;
  /** By group, with 0 in places that hold nothing, and in their turns. */
  rows: readonly (readonly number[])[];
  rowTurns: readonly (readonly number[])[];
  /** The blocks in the rows, group after group. */
  blocks: number[];
  turns: number[];
  /** Blocks that it had before and that something still uses, and in which turn it had them. */
  kept: ReadonlyMap<number, number>;
}

/**
 * The turn of each block. A block enters a new turn each time that it appears in a request's list
 * of blocks. A transfer or a step notes the turns of its blocks when it is planned. A write in an
 * older turn over a newer one went into somebody else's block.
 */
export class Turns {
  readonly #held = new Map<number, Held>();
  #next = 1;
  /** The turns in which others held the block when this one began. */
  readonly #sharing = new Map<number, ReadonlySet<number>>();

  see(sight: Sight): void {
    const seen = new Set<number>();
    for (const list of [sight.requests, sight.draining, sight.quarantined]) {
      for (const request of list) {
        seen.add(request.handle);
        this.#note(request);
      }
    }
    for (const handle of this.#held.keys()) if (!seen.has(handle)) this.#held.delete(handle);
  }

  /** The blocks that a request holds now; none if it holds nothing. */
  of(handle: number): Held {
    return (
      this.#held.get(handle) ?? {
        name: `handle ${handle}`,
        rows: [],
        rowTurns: [],
        blocks: [],
        turns: [],
        kept: new Map(),
      }
    );
  }

  /** Whether the request still holds this block, in the same turn. */
  holds(handle: number, block: number, turn: number): boolean {
    const { blocks, turns, kept } = this.of(handle);
    const at = blocks.indexOf(block);
    return (at >= 0 && turns[at] === turn) || kept.get(block) === turn;
  }

  /** In which turn a request holds this block, or has it kept; 0 = it does not. */
  turnOf(handle: number, block: number): number {
    const { blocks, turns, kept } = this.of(handle);
    return turns[blocks.indexOf(block)] ?? kept.get(block) ?? 0;
  }

  /** Whether somebody holds the block still in that turn. */
  isHeld(block: number, turn: number): boolean {
    for (const { blocks, turns, kept } of this.#held.values()) {
      const at = turns.indexOf(turn);
      if ((at >= 0 && blocks[at] === block) || kept.get(block) === turn) return true;
    }
    return false;
  }

  /** Whether one request had begun to hold the block in the later turn while another held it in the earlier one: they share it. */
  isShared(later: number, earlier: number): boolean {
    return this.#sharing.get(later)?.has(earlier) === true;
  }

  /** A turn of this block begins. @param handle whose it is */
  #begin(block: number, handle: number): number {
    const turn = this.#next++;
    const others = new Set<number>();
    for (const [other, { blocks, turns }] of this.#held) {
      const at = other === handle ? -1 : blocks.indexOf(block);
      if (at >= 0) others.add(turns[at]);
    }
    if (others.size > 0) this.#sharing.set(turn, others);
    return turn;
  }

  /** The names of the requests that hold a block, for messages. */
  holders(block: number): string[] {
    const holds = ({ blocks, kept }: Held): boolean => blocks.includes(block) || kept.has(block);
    return [...this.#held.values()].filter(holds).map(({ name }) => name);
  }

  #note({ handle, id, rows, kept }: Seen): void {
    const turns = new Map(kept.map((block) => [block, this.turnOf(handle, block)]));
    const held = this.#held.get(handle) ?? { ...this.of(handle), name: `${id} (${handle})` };
    const rowTurns = rows.map((row, g) =>
      this.#turnsOf(handle, row, held.rows[g] ?? [], held.rowTurns[g] ?? []),
    );
    const holds = (block: number): boolean => block !== 0;
    held.kept = turns;
    held.rows = rows;
    held.rowTurns = rowTurns;
    held.blocks = rows.flatMap((row) => row.filter(holds));
    held.turns = rowTurns.flatMap((row) => row.filter(holds));
    this.#held.set(handle, held);
  }

  /**
   * The turns of a row's blocks. A list that was released and taken again may begin with the same
   * blocks only if it kept them, or hit them again. Places that were released since hold nothing,
   * and do not end the equal part.
   */
  #turnsOf(
    handle: number,
    row: readonly number[],
    before: readonly number[],
    turns: readonly number[],
  ): number[] {
    let same = 0;
    while (same < before.length && same < row.length && (before[same] === row[same] || row[same] === 0))
      same++;
    return row.map((block, place) => {
      if (block === 0) return 0;
      if (place < same) return turns[place];
      return this.#begin(block, handle);
    });
  }
}
