/** A part of a rule: characters, a rule, or choices that are repeated. */
type Part =
  | { readonly is: 'chars'; readonly has: (char: number) => boolean; readonly sample: readonly number[] }
  | { readonly is: 'rule'; readonly name: string }
  | { readonly is: 'some'; readonly of: Choices; readonly min: number; readonly max: number };
type Choices = readonly (readonly Part[])[];

/** A grammar as our converter writes it, whose texts can be drawn, and that tells which texts it allows. */
export class GbnfTexts {
  readonly #rules = new Map<string, Choices>();
  /** How deep the least deep text of a rule is, so that drawing ends. */
  readonly #depth = new Map<string, number>();

  constructor(text: string) {
    for (const line of text.trimEnd().split('\n')) {
      const [, name, rule] = /^(\S+) ::= (.*)$/.exec(line)!;
      this.#rules.set(name, new RuleReader(rule).choices());
    }
    const rules = [...this.#rules];
    for (let changes = true; changes; ) {
      changes = false;
      // One way, then the other: a chain of rules is then done at once.
      for (const [name, choices] of rules.reverse()) {
        const depth = 1 + this.#depthOf(choices);
        if (depth < (this.#depth.get(name) ?? Number.POSITIVE_INFINITY)) {
          this.#depth.set(name, depth);
          changes = true;
        }
      }
    }
  }

  /** A text of the grammar. @param random below 1, each time another one */
  draw(random: () => number): string {
    const chars: number[] = [];
    const all = (choices: Choices, depth: number): void => {
      let few = choices;
      if (depth <= 0) {
        const least = this.#depthOf(choices);
        few = choices.filter((each) => this.#depthOf([each]) === least);
      }
      for (const part of few[Math.floor(random() * few.length)]) {
        if (part.is === 'chars') chars.push(part.sample[Math.floor(random() * part.sample.length)]);
        else if (part.is === 'rule') all(this.#rules.get(part.name)!, depth - 1);
        else {
          const most = depth <= 0 ? part.min : Math.min(part.max, part.min + 4);
          const count = part.min + Math.floor(random() * (most - part.min + 1));
          for (let i = 0; i < count; i++) all(part.of, depth - 1);
        }
      }
    };
    all(this.#rules.get('root')!, 30);
    return String.fromCodePoint(...chars);
  }

  /** Whether the grammar allows a text, as llama.cpp goes through it: by all the places at which it may be. */
  allows(text: string): boolean {
    interface Place {
      readonly parts: readonly Part[];
      readonly next: Place | null;
      readonly key: string;
    }
    const ids = new Map<readonly Part[], number>();
    const idOf = (parts: readonly Part[]): number => {
      if (!ids.has(parts)) ids.set(parts, ids.size);
      return ids.get(parts)!;
    };
    const rests = new Map<readonly Part[], readonly Part[]>();
    const restOf = (parts: readonly Part[]): readonly Part[] => {
      if (!rests.has(parts)) rests.set(parts, parts.slice(1));
      return rests.get(parts)!;
    };
    const fewer = new Map<string, Part>();
    const place = (parts: readonly Part[], next: Place | null): Place | null =>
      parts.length === 0 ? next : { parts, next, key: `${idOf(parts)},${next?.key ?? ''}` };
    const END = 'end';
    const spread = (from: readonly (Place | null)[]): Map<string, Place | null> => {
      const found = new Map<string, Place | null>();
      const seen = new Set<string>();
      const open = [...from];
      while (open.length > 0) {
        const here = open.pop()!;
        if (here === null) {
          found.set(END, null);
          continue;
        }
        if (seen.has(here.key)) continue;
        seen.add(here.key);
        const [part] = here.parts;
        const behind = place(restOf(here.parts), here.next);
        if (part.is === 'chars') found.set(here.key, here);
        else if (part.is === 'rule') {
          for (const choice of this.#rules.get(part.name)!) open.push(place(choice, behind));
        } else {
          if (part.min === 0) open.push(behind);
          if (part.max === 0) continue;
          const key = `${idOf(here.parts)}`;
          if (!fewer.has(key)) fewer.set(key, { ...part, min: Math.max(0, part.min - 1), max: part.max - 1 });
          const again = place(oneOf(fewer.get(key)!), behind);
          for (const choice of part.of) open.push(place(choice, again));
        }
      }
      return found;
    };
    let places = spread([
      place(this.#rules.get('root')![0], null),
      ...this.#rules
        .get('root')!
        .slice(1)
        .map((each) => place(each, null)),
    ]);
    for (const char of text) {
      const code = char.codePointAt(0)!;
      const next: (Place | null)[] = [];
      for (const here of places.values()) {
        if (here === null) continue;
        const [part] = here.parts;
        if (part.is === 'chars' && part.has(code)) next.push(place(restOf(here.parts), here.next));
      }
      places = spread(next);
      if (places.size === 0) return false;
    }
    return places.has(END);
  }

  #depthOf(choices: Choices): number {
    let least = Number.POSITIVE_INFINITY;
    for (const choice of choices) {
      let depth = 0;
      for (const part of choice) {
        if (part.is === 'rule')
          depth = Math.max(depth, this.#depth.get(part.name) ?? Number.POSITIVE_INFINITY);
        else if (part.is === 'some' && part.min > 0) depth = Math.max(depth, this.#depthOf(part.of));
      }
      least = Math.min(least, depth);
    }
    return least;
  }
}

const ONES = new Map<Part, readonly Part[]>();
function oneOf(part: Part): readonly Part[] {
  if (!ONES.has(part)) ONES.set(part, [part]);
  return ONES.get(part)!;
}

class RuleReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  choices(): Choices {
    const all: Part[][] = [[]];
    for (;;) {
      this.#accept(/ */y);
      const parts = all[all.length - 1];
      if (this.#at >= this.#text.length || this.#text[this.#at] === ')') return all;
      if (this.#accept(/\|/y) !== null) all.push([]);
      else {
        const part = this.#part();
        const times = this.#accept(/[*?+]|\{\d+(,\d*)?\}/y);
        if (times === null) parts.push(...part);
        else parts.push({ is: 'some', of: [part], ...countsOf(times) });
      }
    }
  }

  #part(): Part[] {
    const literal = this.#accept(/"(\\.|[^"\\])*"/y);
    if (literal !== null)
      return [...unescaped(literal.slice(1, -1))].map((char) => charsPart([[char, char]], false));
    const set = this.#accept(/\[(\\.|[^\]\\])*\]/y);
    if (set !== null) {
      const isOther = set[1] === '^';
      const letters = unescaped(set.slice(isOther ? 2 : 1, -1), true);
      const ranges: [string, string][] = [];
      for (let i = 0; i < letters.length; i++)
        if (letters[i + 1] === RANGE) {
          ranges.push([letters[i], letters[i + 2]]);
          i += 2;
        } else ranges.push([letters[i], letters[i]]);
      return [charsPart(ranges, isOther)];
    }
    if (this.#accept(/\(/y) !== null) {
      const of = this.choices();
      if (this.#accept(/\)/y) === null) throw new Error(`no ) at ${this.#at} of ${this.#text}`);
      return [{ is: 'some', of, min: 1, max: 1 }];
    }
    const name = this.#accept(/[a-z0-9-]+/y);
    if (name === null)
      throw new Error(`unknown at ${this.#at}: ${this.#text.slice(this.#at, this.#at + 40)}`);
    return [{ is: 'rule', name }];
  }

  #accept(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? null;
    this.#at += found?.length ?? 0;
    return found;
  }
}

function countsOf(times: string): { min: number; max: number } {
  const any = Number.POSITIVE_INFINITY;
  if (times === '*') return { min: 0, max: any };
  if (times === '+') return { min: 1, max: any };
  if (times === '?') return { min: 0, max: 1 };
  const [, min, comma, max] = /^\{(\d+)(,?)(\d*)\}$/.exec(times)!;
  return { min: Number(min), max: comma === '' ? Number(min) : max === '' ? any : Number(max) };
}

const RANGE = '-range-';

function unescaped(text: string, isSet = false): string[] {
  return [...text.matchAll(/\\x(..)|\\u(....)|\\U(.{8})|\\(.)|([^\\])/gsu)].map(
    ([whole, x, u, large, letter]) => {
      const hex = x ?? u ?? large;
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      if (letter !== undefined) return { n: '\n', r: '\r', t: '\t' }[letter] ?? letter;
      return isSet && whole === '-' ? RANGE : whole;
    },
  );
}

/** Characters that are drawn where all but some are allowed: some of each kind. */
const OTHERS = [..."aZ09 ,:{}[]'/-_.\u00e9\u{1F600}"].map((char) => char.codePointAt(0)!);

function charsPart(ranges: readonly (readonly [string, string])[], isOther: boolean): Part {
  const pairs = ranges.map(([a, b]) => [a.codePointAt(0)!, b.codePointAt(0)!] as const);
  const isIn = (char: number): boolean => pairs.some(([first, last]) => char >= first && char <= last);
  const has = (char: number): boolean => isIn(char) !== isOther;
  const ends = isOther
    ? OTHERS
    : pairs.flatMap(([first, last]) => [first, last, first + ((last - first) >> 1), first]);
  return {
    is: 'chars',
    has,
    sample: ends.filter((char) => has(char) && !(char >= 0xd800 && char <= 0xdfff)),
  };
}

/** Numbers from 0 to 1, the same for the same seed. */
export function drawn(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
