/** What a part of a rule is to llama.cpp, as far as its begin is concerned. */
export interface GbnfPart {
  /** The rules with which it begins, in order, up to the first character or token. */
  readonly refs: readonly number[];
  /** Whether there is a character or a token, behind which nothing is a begin any more. */
  readonly isClosed: boolean;
  /** Elements that llama.cpp has for it: characters, tokens, rules. */
  readonly size: number;
}

/** A rule: its choices. */
export type GbnfRule = readonly GbnfPart[];

export const NOTHING: GbnfPart = { refs: [], isClosed: false, size: 0 };

/** Most elements and rules of a grammar, which llama.cpp has in memory. */
const MOST_ELEMENTS = 1_000_000;
const MOST_RULES = 100_000;
/** Most copies of a part, as llama.cpp has it. */
const MOST_COPIES = 2000;

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

  /** A part that stands so many times, which llama.cpp writes as copies and rules. @param most Infinity: any number */
  repeated(part: GbnfPart, least: number, most: number): GbnfPart {
    const copies = Math.max(least, Number.isFinite(most) ? most : 1);
    if (copies > MOST_COPIES) throw new Error(`a repetition of more than ${MOST_COPIES} times`);
    this.#count(part.size * copies);
    let whole = NOTHING;
    for (let i = 0; i < least; i++) whole = joined(whole, part);
    if (most === Number.POSITIVE_INFINITY) {
      const id = this.add(null);
      this.set(id, [joined(part, refTo(id)), NOTHING]);
      return joined(whole, refTo(id));
    }
    let last: GbnfPart = NOTHING;
    for (let i = least; i < most; i++) last = refTo(this.add([joined(part, last), NOTHING]));
    return joined(whole, last);
  }

  #count(size: number): void {
    this.#size += size;
    if (this.#size > MOST_ELEMENTS)
      throw new Error(`more than ${MOST_ELEMENTS} characters, those of repetitions included`);
  }
}

export function refTo(rule: number): GbnfPart {
  return { refs: [rule], isClosed: false, size: 1 };
}

/** One part behind another. */
export function joined(a: GbnfPart, b: GbnfPart): GbnfPart {
  const size = a.size + b.size;
  if (a.isClosed || b.size === 0) return { ...a, size };
  return { refs: a.size === 0 ? b.refs : [...a.refs, ...b.refs], isClosed: b.isClosed, size };
}
