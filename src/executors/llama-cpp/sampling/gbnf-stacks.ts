import type { GbnfRules } from './gbnf-rules.js';

/** Marks the end of a choice among the parts of rules. */
const END = Number.MIN_SAFE_INTEGER;
/** The top of the empty stack. */
const NONE = 2 ** 24;
/** Exceeds the number of sets of stacks, so that one number encodes a pair of sets. */
const MOST_SETS = 2 ** 26;

/** A part of a rule by its number, and the set of stacks below it. */
export type Top = readonly [part: number, rest: number];

/** The result of expanding the rules on top of stacks. */
export interface Spread {
  /** The set of stacks with characters on top, and perhaps the empty stack. */
  readonly places: number;
  /** The rules that were expanded. */
  readonly calls: readonly Top[];
}

interface StackSet {
  /** Tops by their parts, without duplicates. */
  readonly tops: readonly Top[];
  /** Number of stacks. */
  readonly count: number;
  readonly depth: number;
}

/**
 * Sets of stacks of a grammar, as llama.cpp has them. A stack holds the parts of rules that remain
 * to be read. A set is its tops, each with the set of the stacks below it. A set of very many
 * similar stacks is therefore small, and equal sets have the same number.
 */
export class GbnfStacks {
  /** Steps so far, as a measure of time. */
  work = 0;
  readonly #parts: number[] = [];
  /** [rule] the first parts of its choices. */
  readonly #choices: number[][] = [];
  readonly #sets: StackSet[] = [{ tops: [[NONE, 0]], count: 1, depth: 0 }];
  /**
   * [hash] a set of several tops. On a hash collision a set gets a second number, which only costs
   * time.
   */
  readonly #ids = new Map<number, number>();
  /** [top] the set of the stacks with this top alone. */
  readonly #ofOne = new Map<number, number>([[keyOf([NONE, 0]), 0]]);
  readonly #unions = new Map<number, number>();
  readonly #spreads = new Map<number, Spread>();

  constructor(rules: GbnfRules) {
    for (let rule = 0; rule < rules.count; rule++)
      this.#choices.push(
        rules.get(rule).map(({ path }) => {
          const start = this.#parts.length;
          for (const part of path) this.#parts.push(part);
          this.#parts.push(END);
          return start;
        }),
      );
  }

  /** The element on top: a rule, or `-1 -` a set of characters; null: the stack is empty. */
  is([part]: Top): number | null {
    return part === NONE ? null : this.#parts[part];
  }

  get(set: number): StackSet {
    return this.#sets[set];
  }

  /** The stacks behind the element on top. */
  behind(top: Top): Spread {
    const [part, rest] = top;
    const key = keyOf(top);
    let spread = this.#spreads.get(key);
    if (spread === undefined) {
      spread = this.#spread(this.#parts[part + 1] === END ? this.#sets[rest].tops : [[part + 1, rest]]);
      this.#spreads.set(key, spread);
    }
    return spread;
  }

  /** The stacks at the begin of a rule. */
  begin(rule: number): Spread {
    return this.#spread(this.#entered(rule, 0));
  }

  /** The union of several spreads. */
  together(spreads: readonly Spread[]): Spread {
    if (spreads.length === 1) return spreads[0];
    const tops = spreads.flatMap(({ places }) => this.#sets[places].tops);
    return { places: this.#setOf(tops), calls: spreads.flatMap(({ calls }) => calls) };
  }

  #spread(from: readonly Top[]): Spread {
    const tops: Top[] = [];
    const calls: Top[] = [];
    const open = [...from];
    const seen = new Set<number>();
    for (let top = open.pop(); top !== undefined; top = open.pop()) {
      this.work += 4;
      const key = keyOf(top);
      if (seen.has(key)) continue;
      seen.add(key);
      const is = this.is(top);
      if (is === null || is < 0) {
        tops.push(top);
        continue;
      }
      calls.push(top);
      const [part, rest] = top;
      const below = this.#parts[part + 1] === END ? rest : this.#setOf([[part + 1, rest]]);
      for (const each of this.#entered(is, below)) open.push(each);
    }
    return { places: this.#setOf(tops), calls };
  }

  /** The tops of stacks that enter a rule. */
  #entered(rule: number, rest: number): Top[] {
    return this.#choices[rule].flatMap((start) =>
      this.#parts[start] === END ? this.#sets[rest].tops : ([[start, rest]] as Top[]),
    );
  }

  #setOf(given: readonly Top[]): number {
    this.work += 1 + given.length;
    if (given.length === 1) {
      const key = keyOf(given[0]);
      let id = this.#ofOne.get(key);
      if (id === undefined) {
        id = this.#newSet(given);
        this.#ofOne.set(key, id);
      }
      return id;
    }
    const byPart = new Map<number, number[]>();
    for (const [part, rest] of given) {
      const rests = byPart.get(part);
      if (rests === undefined) byPart.set(part, [rest]);
      else rests.push(rest);
    }
    if (byPart.size === 1) return this.#setOf([...byPart].map(([part, rests]) => [part, this.#union(rests)]));
    const tops: Top[] = [];
    for (const part of Int32Array.from(byPart.keys()).sort())
      tops.push([part, this.#union(byPart.get(part)!)]);
    const hash = hashOf(tops);
    const known = this.#ids.get(hash);
    if (known !== undefined && isSame(this.#sets[known].tops, tops)) return known;
    const id = this.#newSet(tops);
    this.#ids.set(hash, id);
    return id;
  }

  #newSet(tops: readonly Top[]): number {
    let count = 0;
    let depth = 0;
    for (const [, rest] of tops) {
      count += this.#sets[rest].count;
      depth = Math.max(depth, this.#sets[rest].depth + 1);
    }
    return this.#sets.push({ tops, count, depth }) - 1;
  }

  #union(sets: readonly number[]): number {
    const [a, b] = sets;
    if (sets.length === 1 || (sets.length === 2 && a === b)) return a;
    if (sets.length > 2) return this.#setOf([...new Set(sets)].flatMap((set) => this.#sets[set].tops));
    const key = keyOf(a < b ? [a, b] : [b, a]);
    let union = this.#unions.get(key);
    if (union === undefined) {
      union = this.#setOf([...this.#sets[a].tops, ...this.#sets[b].tops]);
      this.#unions.set(key, union);
    }
    return union;
  }
}

function keyOf([part, rest]: Top): number {
  return part * MOST_SETS + rest;
}

function hashOf(tops: readonly Top[]): number {
  let high = 0;
  let low = 0;
  for (const [part, rest] of tops) {
    high = Math.imul(high ^ part, 0x9e3779b1) + rest;
    low = Math.imul(low ^ rest, 0x85ebca6b) + part;
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0);
}

function isSame(some: readonly Top[], others: readonly Top[]): boolean {
  return (
    some.length === others.length &&
    some.every(([part, rest], i) => part === others[i][0] && rest === others[i][1])
  );
}
