import type { CharSet } from '../language/char-set.js';

/** A sequence of a rule, as llama.cpp counts it. */
export interface GbnfPart {
  /**
   * Its elements in order: rules by their numbers, sets of characters as `-1 -` the number of the
   * set.
   */
  readonly path: readonly number[];
  /** The rules that every text of the sequence contains. */
  readonly needs: readonly number[];
  /** Elements that llama.cpp keeps for it: characters, tokens, rules. */
  readonly size: number;
}

/** A rule: its choices. */
export type GbnfRule = readonly GbnfPart[];

export const NOTHING: GbnfPart = { path: [], needs: [], size: 0 };

/** Most elements and rules of a grammar, which llama.cpp keeps in memory. */
const MOST_ELEMENTS = 1_000_000;
const MOST_RULES = 100_000;
/** llama.cpp makes a repetition only of fewer rules, including the rules of the repeated part. */
const MOST_REPEATED = 2000;

/** The rules of a grammar, including the rules that llama.cpp makes for groups and repetitions. */
export class GbnfRules {
  /** The sets of characters of all rules. */
  readonly sets: CharSet[] = [];
  /** The name of the rule that is being read. */
  reading = '';
  /** The rules of finite repetitions. Each of these rules ends with the previous one. */
  readonly copies = new Set<number>();
  readonly #rules: (GbnfRule | null)[] = [];
  readonly #names = new Map<string, number>();
  /** [rule] name of the rule that contains it. */
  readonly #owners: string[] = [];
  readonly #setIds = new Map<string, number>();
  #size = 0;

  /** The number of a named rule, whose definition may come later. */
  named(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.add(null);
    this.#names.set(name, id);
    this.#owners[id] = name;
    return id;
  }

  /** The name of a rule, or of the rule that contains it. */
  nameOf(id: number): string {
    return this.#owners[id];
  }

  /** The element of a path for a set of characters. */
  letter(set: CharSet): number {
    const key = set.join();
    let id = this.#setIds.get(key);
    if (id === undefined) {
      id = this.sets.length;
      this.sets.push(set);
      this.#setIds.set(key, id);
    }
    return -1 - id;
  }

  /** @param rule null: it is set later */
  add(rule: GbnfRule | null): number {
    const id = this.#rules.length;
    if (id >= MOST_RULES)
      throw new Error(`more than ${MOST_RULES} rules, those of groups and repetitions included`);
    this.#rules.push(null);
    this.#owners.push(this.reading);
    if (rule !== null) this.set(id, rule);
    return id;
  }

  set(id: number, rule: GbnfRule): void {
    for (const { size } of rule) this.#count(size);
    this.#rules[id] = rule;
  }

  get(id: number): GbnfRule {
    return this.#rules[id] ?? [];
  }

  get count(): number {
    return this.#rules.length;
  }

  /** A name without a rule; null: there is none. */
  undefinedName(): string | null {
    for (const [name, id] of this.#names) if (this.#rules[id] === null) return name;
    return null;
  }

  /**
   * A repetition of a part, which llama.cpp writes as copies and rules.
   * @param most Infinity: any number
   * @param within how many rules the part itself has
   */
  repeated(part: GbnfPart, least: number, most: number, within: number): GbnfPart {
    const times = Number.isFinite(most) && most > 0 ? most : Math.max(1, least);
    if (times * within >= MOST_REPEATED)
      throw new Error(
        `a repetition of ${times} times ${within} rules, which llama.cpp counts together: they must be less than ${MOST_REPEATED}`,
      );
    this.#count(part.size * Math.max(least, times));
    const parts = Array<GbnfPart>(least).fill(part);
    if (most === Number.POSITIVE_INFINITY) {
      const id = this.add(null);
      this.set(id, [joined([part, refTo(id)]), NOTHING]);
      parts.push({ ...refTo(id), needs: [] });
    } else {
      let last: GbnfPart = NOTHING;
      for (let i = least; i < most; i++) {
        const id = this.add([joined([part, last]), NOTHING]);
        this.copies.add(id);
        last = { ...refTo(id), needs: [] };
      }
      parts.push(last);
    }
    return joined(parts);
  }

  /**
   * The rules without a finite text: each of their choices needs such a rule. Named rules are
   * listed.
   */
  endless(): { readonly count: number; readonly names: readonly string[] } {
    const ends = this.#grown(({ needs }) => needs);
    const names = [...this.#names].filter(([, id]) => ends[id] === 0).map(([name]) => name);
    return { count: ends.reduce((sum, each) => sum - each, ends.length), names };
  }

  /** [rule] 1: the rule accepts the empty text. */
  emptyRules(): Uint8Array {
    return this.#grown(({ path }) => (path.some((part) => part < 0) ? null : path));
  }

  /**
   * [rule] 1: a choice of the rule needs only rules that are marked 1 themselves.
   * @param needsOf null: the choice does not count
   */
  #grown(needsOf: (choice: GbnfPart) => readonly number[] | null): Uint8Array {
    const users: number[][] = this.#rules.map(() => []);
    const missing: { rule: number; left: number }[] = [];
    const grown = new Uint8Array(this.#rules.length);
    const open: number[] = [];
    const add = (rule: number): void => {
      if (grown[rule] === 1) return;
      grown[rule] = 1;
      open.push(rule);
    };
    this.#rules.forEach((choices, rule) => {
      for (const choice of choices ?? []) {
        const needs = needsOf(choice);
        if (needs === null) continue;
        const all = new Set(needs);
        if (all.size === 0) add(rule);
        for (const each of all) users[each].push(missing.length);
        missing.push({ rule, left: all.size });
      }
    });
    for (let rule = open.pop(); rule !== undefined; rule = open.pop())
      for (const choice of users[rule]) if (--missing[choice].left === 0) add(missing[choice].rule);
    return grown;
  }

  #count(size: number): void {
    this.#size += size;
    if (this.#size > MOST_ELEMENTS)
      throw new Error(`more than ${MOST_ELEMENTS} characters, those of repetitions included`);
  }
}

export function refTo(rule: number): GbnfPart {
  return { path: [rule], needs: [rule], size: 1 };
}

/** The concatenation of parts. */
export function joined(parts: readonly GbnfPart[]): GbnfPart {
  const path: number[] = [];
  const needs: number[] = [];
  let size = 0;
  for (const part of parts) {
    size += part.size;
    for (const each of part.needs) needs.push(each);
    for (const each of part.path) path.push(each);
  }
  return { path, needs, size };
}
