/** What a part of a rule is to llama.cpp, as far as its begin is concerned. */
export interface GbnfPart {
  /** The rules with which it begins, in order, up to the first character or token. */
  readonly refs: readonly number[];
  /** Whether there is a character or a token, behind which nothing is a begin any more. */
  readonly isClosed: boolean;
  /** The rules that it cannot do without. */
  readonly needs: readonly number[];
  /** Elements that llama.cpp has for it: characters, tokens, rules. */
  readonly size: number;
}

/** A rule: its choices. */
export type GbnfRule = readonly GbnfPart[];

export const NOTHING: GbnfPart = { refs: [], isClosed: false, needs: [], size: 0 };

/** Most elements and rules of a grammar, which llama.cpp has in memory. */
const MOST_ELEMENTS = 1_000_000;
const MOST_RULES = 100_000;
/** Below so many rules of one repetition, those of the part that is repeated included, llama.cpp makes them. */
const MOST_REPEATED = 2000;

/** The rules of a grammar, those included that llama.cpp makes for groups and repetitions. */
export class GbnfRules {
  readonly #rules: (GbnfRule | null)[] = [];
  readonly #names = new Map<string, number>();
  #size = 0;

  /** The number of the rule of a name, which may come later. */
  named(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.add(null);
    this.#names.set(name, id);
    return id;
  }

  /** @param rule null: it is set later */
  add(rule: GbnfRule | null): number {
    const id = this.#rules.length;
    if (id >= MOST_RULES)
      throw new Error(`more than ${MOST_RULES} rules, those of groups and repetitions included`);
    this.#rules.push(null);
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
      for (let i = least; i < most; i++)
        last = { ...refTo(this.add([joined([part, last]), NOTHING])), needs: [] };
      parts.push(last);
    }
    return joined(parts);
  }

  /** The rules that have no text that ends: each of their choices needs one of them. By name where there is one. */
  endless(): { readonly count: number; readonly names: readonly string[] } {
    const users: number[][] = this.#rules.map(() => []);
    const missing: { rule: number; left: number }[] = [];
    const ends = new Uint8Array(this.#rules.length);
    const open: number[] = [];
    const end = (rule: number): void => {
      if (ends[rule] === 1) return;
      ends[rule] = 1;
      open.push(rule);
    };
    this.#rules.forEach((choices, rule) => {
      for (const { needs } of choices ?? []) {
        const all = new Set(needs);
        if (all.size === 0) end(rule);
        for (const each of all) users[each].push(missing.length);
        missing.push({ rule, left: all.size });
      }
    });
    for (let rule = open.pop(); rule !== undefined; rule = open.pop())
      for (const choice of users[rule]) if (--missing[choice].left === 0) end(missing[choice].rule);
    const names = [...this.#names].filter(([, id]) => ends[id] === 0).map(([name]) => name);
    return { count: ends.reduce((sum, each) => sum - each, ends.length), names };
  }

  #count(size: number): void {
    this.#size += size;
    if (this.#size > MOST_ELEMENTS)
      throw new Error(`more than ${MOST_ELEMENTS} characters, those of repetitions included`);
  }
}

export function refTo(rule: number): GbnfPart {
  return { refs: [rule], isClosed: false, needs: [rule], size: 1 };
}

/** Parts behind each other. */
export function joined(parts: readonly GbnfPart[]): GbnfPart {
  const refs: number[] = [];
  const needs: number[] = [];
  let isClosed = false;
  let size = 0;
  for (const part of parts) {
    size += part.size;
    for (const each of part.needs) needs.push(each);
    if (isClosed) continue;
    for (const each of part.refs) refs.push(each);
    ({ isClosed } = part);
  }
  return { refs, isClosed, needs, size };
}
