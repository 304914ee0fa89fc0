import { ALL_CHARS, type CharSet, hasChar, LAST_CHAR, union } from './char-set.js';

/**
 * A regular language, that is, the texts that a finite automaton accepts. Equal objects are equal
 * languages. Equal languages may be different objects.
 */
export interface Language {
  readonly id: number;
  /** Whether the language contains the empty text. */
  readonly hasEmpty: boolean;
  /**
   * Characters at which the continuation changes, in order. All characters between two edges
   * continue alike.
   */
  readonly edges: readonly number[];
  /** The rests of the texts that begin with a character (Brzozowski's derivative). */
  after(char: number): Language;
}

/** The construction of a language, which helps to simplify other languages. */
type Kind = 'chars' | 'sequence' | 'either' | 'both' | 'not' | 'repeat' | 'machine';

class Node implements Language {
  readonly id: number;
  readonly kind: Kind;
  readonly hasEmpty: boolean;
  readonly parts: readonly Node[];
  readonly set: CharSet;
  readonly #follow: (char: number) => Language;
  readonly #edgesOf: () => readonly number[];
  readonly #known = new Map<number, Node>();
  #edges: readonly number[] | null = null;

  constructor(id: number, kind: Kind, hasEmpty: boolean, is: NodeParts) {
    this.id = id;
    this.kind = kind;
    this.hasEmpty = hasEmpty;
    this.parts = is.parts ?? [];
    this.set = is.set ?? [];
    this.#follow = is.after;
    this.#edgesOf = is.edges;
  }

  get edges(): readonly number[] {
    this.#edges ??= this.#edgesOf();
    return this.#edges;
  }

  after(char: number): Node {
    // All characters from one edge to the next are alike, so the edge stands for them.
    let low = 0;
    let high = this.edges.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.edges[middle] <= char) low = middle + 1;
      else high = middle;
    }
    const edge = low === 0 ? -1 : this.edges[low - 1];
    let next = this.#known.get(edge);
    if (next === undefined) {
      next = this.#follow(char) as Node;
      this.#known.set(edge, next);
    }
    return next;
  }
}

interface NodeParts {
  readonly parts?: readonly Node[];
  readonly set?: CharSet;
  readonly after: (char: number) => Language;
  readonly edges: () => readonly number[];
}

/** Makes languages. Only languages of the same object can be combined. */
export class Languages {
  readonly #known = new Map<string, Node>();
  readonly #work: (steps: number) => void;
  /** No text. */
  readonly nothing: Language;
  /** The empty text. */
  readonly empty: Language;
  /** Every text. */
  readonly anything: Language;
  /** Texts of one character. */
  readonly anyChar: Language;

  /** @param work is called for every step, and may throw */
  constructor(work: (steps: number) => void) {
    this.#work = work;
    this.nothing = this.chars([]);
    this.empty = this.machine('empty', true, [], () => this.nothing);
    this.anyChar = this.chars(ALL_CHARS);
    this.anything = this.repeat(this.anyChar, 0, Number.POSITIVE_INFINITY);
  }

  /** Texts of one character of a set. */
  chars(set: CharSet): Language {
    return this.#node(`c${set}`, 'chars', false, {
      set,
      edges: () => edgesOf(set),
      after: (char) => (hasChar(set, char) ? this.empty : this.nothing),
    });
  }

  text(text: string): Language {
    const chars = [...text].map((char) => this.chars([char.codePointAt(0)!, char.codePointAt(0)!]));
    return this.sequence(...chars);
  }

  /** The concatenation of languages. */
  sequence(...all: readonly Language[]): Language {
    let whole = all.length === 0 ? this.empty : all[all.length - 1];
    for (let i = all.length - 2; i >= 0; i--) whole = this.#pair(all[i] as Node, whole as Node);
    return whole;
  }

  #pair(first: Node, rest: Node): Language {
    this.#work(1);
    if (first === this.nothing || rest === this.nothing) return this.nothing;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    if (first.kind === 'sequence')
      return this.#pair(first.parts[0], this.#pair(first.parts[1], rest) as Node);
    return this.#node(`s${first.id},${rest.id}`, 'sequence', first.hasEmpty && rest.hasEmpty, {
      parts: [first, rest],
      edges: () => (first.hasEmpty ? merged([first.edges, rest.edges]) : first.edges),
      after: (char) => {
        const next = this.#pair(first.after(char), rest);
        return first.hasEmpty ? this.either(next, rest.after(char)) : next;
      },
    });
  }

  /** The union of languages. */
  either(...all: readonly Language[]): Language {
    const parts = new Map<number, Node>();
    let set: CharSet = [];
    for (const part of (all as readonly Node[]).flatMap((each) =>
      each.kind === 'either' ? each.parts : [each],
    )) {
      if (part === this.anything) return part;
      if (part.kind === 'chars') set = set.length === 0 ? part.set : union(set, part.set);
      else parts.set(part.id, part);
    }
    if (set.length > 0) {
      const chars = this.chars(set) as Node;
      parts.set(chars.id, chars);
    }
    const list = [...parts.values()].sort((a, b) => a.id - b.id);
    if (list.length === 0) return this.nothing;
    if (list.length === 1) return list[0];
    this.#work(list.length);
    return this.#node(
      `e${list.map(({ id }) => id)}`,
      'either',
      list.some(({ hasEmpty }) => hasEmpty),
      {
        parts: list,
        edges: () => merged(list.map(({ edges }) => edges)),
        after: (char) => this.either(...list.map((part) => part.after(char))),
      },
    );
  }

  /** The intersection of languages. */
  both(...all: readonly Language[]): Language {
    const parts = new Map<number, Node>();
    for (const part of (all as readonly Node[]).flatMap((each) =>
      each.kind === 'both' ? each.parts : [each],
    )) {
      if (part === this.nothing) return part;
      if (part !== this.anything) parts.set(part.id, part);
    }
    const list = [...parts.values()].sort((a, b) => a.id - b.id);
    if (list.length === 0) return this.anything;
    if (list.length === 1) return list[0];
    const hasEmpty = list.every((part) => part.hasEmpty);
    if (list.includes(this.empty as Node)) return hasEmpty ? this.empty : this.nothing;
    this.#work(list.length);
    return this.#node(`b${list.map(({ id }) => id)}`, 'both', hasEmpty, {
      parts: list,
      edges: () => merged(list.map(({ edges }) => edges)),
      after: (char) => {
        const rests: Language[] = [];
        for (const part of list) {
          const rest = part.after(char);
          if (rest === this.nothing) return rest;
          rests.push(rest);
        }
        return this.both(...rests);
      },
    });
  }

  /** The complement of a language. */
  not(language: Language): Language {
    const part = language as Node;
    if (part.kind === 'not') return part.parts[0];
    if (part === this.nothing) return this.anything;
    if (part === this.anything) return this.nothing;
    return this.#node(`n${part.id}`, 'not', !part.hasEmpty, {
      parts: [part],
      edges: () => part.edges,
      after: (char) => this.not(part.after(char)),
    });
  }

  /** Repetitions of a language. @param max Infinity: any number */
  repeat(language: Language, min: number, max: number): Language {
    const part = language as Node;
    if (max === 0 || part === this.empty) return this.empty;
    if (part === this.nothing) return min === 0 ? this.empty : part;
    if (min === 1 && max === 1) return part;
    const least = part.hasEmpty ? 0 : min;
    return this.#node(`r${part.id},${least},${max}`, 'repeat', least === 0, {
      parts: [part],
      edges: () => part.edges,
      after: (char) =>
        this.#pair(part.after(char), this.repeat(part, Math.max(0, least - 1), max - 1) as Node),
    });
  }

  /** A language by its automaton. @param key names the state: equal keys are equal languages */
  machine(
    key: string,
    hasEmpty: boolean,
    edges: readonly number[],
    after: (char: number) => Language,
  ): Language {
    return this.#node(`m${key}`, 'machine', hasEmpty, { edges: () => edges, after });
  }

  has(language: Language, text: string): boolean {
    let rest = language;
    for (const char of text) rest = rest.after(char.codePointAt(0)!);
    return rest.hasEmpty;
  }

  #node(key: string, kind: Kind, hasEmpty: boolean, is: NodeParts): Node {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.#work(1);
    const node = new Node(this.#known.size, kind, hasEmpty, is);
    this.#known.set(key, node);
    return node;
  }
}

/**
 * The begin and the end of each range of a set. Edge 0 is left out, because no character lies
 * before it.
 */
function edgesOf(set: CharSet): readonly number[] {
  return set
    .map((char, i) => (i % 2 === 0 ? char : char + 1))
    .filter((char) => char > 0 && char <= LAST_CHAR);
}

/** The numbers of several lists, ascending, without duplicates. */
function merged(lists: readonly (readonly number[])[]): readonly number[] {
  const all = lists.filter(({ length }) => length > 0);
  if (all.length <= 1 || all.every((list) => list === all[0])) return all[0] ?? [];
  return [...new Set(all.flat())].sort((a, b) => a - b);
}
