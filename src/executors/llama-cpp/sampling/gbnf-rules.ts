import type { CharSet } from '../language/char-set.js';

/** What a part of a rule is to llama.cpp. */
export interface GbnfPart {
  /** What stands in it, in order: rules by their numbers, sets of characters by `-1 -` theirs. */
  readonly path: readonly number[];
  /** The rules that it cannot do without. */
  readonly needs: readonly number[];
  /** Elements that llama.cpp has for it: characters, tokens, rules. */
  readonly size: number;
}

/** A rule: its choices. */
export type GbnfRule = readonly GbnfPart[];

export const NOTHING: GbnfPart = { path: [], needs: [], size: 0 };

/** Most elements and rules of a grammar, which llama.cpp has in memory. */
const MOST_ELEMENTS = 1_000_000;
const MOST_RULES = 100_000;
/** Below so many rules of one repetition, those of the part that is repeated included, llama.cpp makes them. */
const MOST_REPEATED = 2000;

/** The rules of a grammar, those included that llama.cpp makes for groups and repetitions. */
export class GbnfRules {
  /** The sets of characters of all rules. */
  readonly sets: CharSet[] = [];
  /** The name of the rule that is read. */
  reading = '';
  /** The rules of repetitions that end: each is an end of the one before it. */
  readonly copies = new Set<number>();
  readonly #rules: (GbnfRule | null)[] = [];
  readonly #names = new Map<string, number>();
  /** [rule] the named rule in which it stands. */
  readonly #owners: string[] = [];
  readonly #setIds = new Map<string, number>();
  #size = 0;

  /** The number of the rule of a name, which may come later. */
  named(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.add(null);
    this.#names.set(name, id);
    this.#owners[id] = name;
    return id;
  }

  /** The name of a rule, or of the one in which it stands. */
  nameOf(id: number): string {
    return this.#owners[id];
  }

  /** What stands in a path for a set of characters. */
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

  /** A name that has no rule; null: there is none. */
  undefinedName(): string | null {
    for (const [name, id] of this.#names) if (this.#rules[id] === null) return name;
    return null;
  }

  /**
   * A part that stands so many times, which llama.cpp writes as copies and rules.
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

  /** The rules that have no text that ends: each of their choices needs one of them. By name where there is one. */
  endless(): { readonly count: number; readonly names: readonly string[] } {
    const ends = this.#grown(({ needs }) => needs);
    const names = [...this.#names].filter(([, id]) => ends[id] === 0).map(([name]) => name);
    return { count: ends.reduce((sum, each) => sum - each, ends.length), names };
  }

  /** [rule] 1: it may be the empty text. */
  emptyRules(): Uint8Array {
    return this.#grown(({ path }) => (path.some((part) => part < 0) ? null : path));
  }

  /** [rule] 1: one of its choices needs only rules that are such rules themselves. @param needsOf null: the choice is none of them */
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

/** Parts behind each other. */
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
