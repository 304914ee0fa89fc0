import { firstNeeded, type GroupRule, keepsTokens } from '../audit/group-rules.js';
import { GARBAGE, KvPlaces } from '../shared/kv/kv-places.js';
import { mix, type Text } from '../shared/text.js';
import type { Target } from './targets.js';

/**
 * The holding of a writer: the blocks of a request as they were handed to it, and the turn of each.
 */
export interface Holding {
  readonly name: string;
  /** By group; a place that holds nothing is 0. */
  readonly rows: readonly (readonly number[])[];
  /** Of each place, in the order in which blocks were handed out. */
  readonly rowTurns: readonly (readonly number[])[];
}

/** A block whose KV a device loses, as it was handed out in that turn. */
export interface Lost {
  readonly block: number;
  readonly turn: number;
}

/**
 * The KV cache as a device has it. The memory knows the content of each position of each block, on
 * which ranks, and in whose turn it was written. Wrong bookkeeping shows here as wrong data. A
 * write in an older turn over one in a newer turn is a write into a block that belongs to somebody
 * else by now. Layers of a group of states keep in a block the state behind some tokens.
 */
export class Memory extends KvPlaces {
  readonly #content: Int32Array;
  readonly #turns: Int32Array;
  /** Ranks on which the content stands, as bits. */
  readonly #ranks: Uint8Array;
  readonly #allRanks: number;

  /**
   * Whether the owner of the block in that turn may write over the content of another turn. The
   * owner has the block still, or shared it with the other, since both compute the same then.
   */
  readonly #mayWrite: (block: number, turn: number, over: number) => boolean;

  constructor(
    numBlocks: number,
    groups: readonly GroupRule[],
    numRanks: number,
    mayWrite: (block: number, turn: number, over: number) => boolean,
  ) {
    super(groups);
    this.#mayWrite = mayWrite;
    this.#content = new Int32Array(numBlocks * this.span).fill(GARBAGE);
    this.#turns = new Int32Array(numBlocks * this.span);
    this.#ranks = new Uint8Array(numBlocks * this.span);
    this.#allRanks = 2 ** numRanks - 1;
  }

  /** The model's weights have changed: nothing that stands here means anything any more. */
  forget(): void {
    this.#content.fill(GARBAGE);
  }

  /** Zeroes blocks, as a plan asks for it: whatever stands there is gone. */
  zero(blocks: readonly number[]): void {
    for (const block of blocks) this.fill(this.#content, block, GARBAGE);
  }

  /** The content of a block is gone, unless a request has taken the block again since that turn. */
  lose({ block, turn }: Lost): void {
    for (let at = block * this.span; at < (block + 1) * this.span; at++)
      if (this.#turns[at] <= turn) this.#content[at] = GARBAGE;
  }

  /** The first position that a token behind `end` others needs and that does not hold the text on every rank, or -1. */
  firstWrong(text: Text, holding: Holding, end: number): number {
    return this.#firstWrong(text, holding, end, keepsTokens);
  }

  /** The same of states: they are read before the step writes any. */
  firstWrongState(text: Text, holding: Holding, end: number): number {
    return this.#firstWrong(text, holding, end, (group) => !keepsTokens(group));
  }

  #firstWrong(text: Text, { rows }: Holding, end: number, which: (group: GroupRule) => boolean): number {
    let wrong = -1;
    for (const [g, group] of this.groups.entries()) {
      if (!which(group)) continue;
      for (let p = firstNeeded(group, end); p < end && (wrong < 0 || p < wrong); p++)
        if (!this.#isRight(text, g, rows[g][Math.floor(p / group.size)] ?? 0, p)) wrong = p;
    }
    return wrong;
  }

  #isRight(text: Text, g: number, block: number, position: number): boolean {
    const at = this.within(g, block, position);
    return (
      block !== 0 &&
      this.#content[at] === this.#print(text, g, position) &&
      this.#ranks[at] === this.#allRanks
    );
  }

  /**
   * The hash of the text up to so many tokens of a block, from its content; null if any of it is of
   * no text.
   */
  lastPrint(block: number, g: number, tokens = this.groups[g].size): number | null {
    const from = block * this.span;
    const count = keepsTokens(this.groups[g]) ? tokens : 1;
    const all = this.#content.subarray(from, from + count);
    const whole = all.every((print, i) => print !== GARBAGE && this.#ranks[from + i] === this.#allRanks);
    return whole ? all[count - 1] : null;
  }

  /**
   * Writes positions [from, to) on some ranks; `text` null writes garbage.
   * @returns the fault, or null
   */
  write(
    text: Text | null,
    holding: Holding,
    from: number,
    to: number,
    ranks = this.#allRanks,
  ): string | null {
    let wrong: string | null = null;
    for (const [g, group] of this.groups.entries()) {
      if (to <= from) continue;
      const write = (p: number): void => {
        wrong = this.#writeOne(text, holding, g, p, ranks) ?? wrong;
      };
      if (keepsTokens(group)) for (let p = from; p < to; p++) write(p);
      else {
        // A state behind each whole block, where they are kept, and the one behind the last token.
        for (let p = from; p < to - 1; p++) if (group.mode === 'all' && (p + 1) % group.size === 0) write(p);
        write(to - 1);
      }
    }
    return wrong;
  }

  /** Brings those of positions [from, to) that belong into one block on some ranks, as `write`. */
  load(text: Text | null, name: string, target: Target, from: number, to: number, ranks = this.#allRanks) {
    let wrong: string | null = null;
    for (let p = Math.max(from, target.from); p < Math.min(to, target.to); p++)
      wrong = this.#put(text, name, target, p, ranks) ?? wrong;
    return wrong;
  }

  #writeOne(
    text: Text | null,
    { name, rows, rowTurns }: Holding,
    group: number,
    p: number,
    ranks: number,
  ): string | null {
    const index = Math.floor(p / this.groups[group].size);
    const place = { group, block: rows[group][index] ?? 0, turn: rowTurns[group][index] };
    return this.#put(text, name, place, p, ranks);
  }

  #put(
    text: Text | null,
    name: string,
    { group: g, block, turn }: Pick<Target, 'group' | 'block' | 'turn'>,
    p: number,
    ranks: number,
  ): string | null {
    if (block === 0) return `${name} has no block for position ${p}${g === 0 ? '' : ` in group ${g}`}`;
    const at = this.within(g, block, p);
    const over = this.#turns[at];
    const content = text === null ? GARBAGE : this.#print(text, g, p);
    if (this.#content[at] === content) this.#ranks[at] |= ranks;
    else this.#ranks[at] = ranks;
    this.#content[at] = content;
    this.#turns[at] = Math.max(turn, over);
    if (over <= turn || this.#mayWrite(block, turn, over)) return null;
    return `${name} writes position ${p} into block ${block} over a later owner's`;
  }

  /** The layers of each group compute something else of the same text. */
  #print(text: Text, g: number, position: number): number {
    return g === 0 ? text.print(position) : mix(text.print(position), g);
  }
}
