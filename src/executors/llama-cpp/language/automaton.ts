// A language as rules of GBNF, one for each state.
import {
  type CharSet,
  charSet,
  charsOf,
  complement,
  gbnfSet,
  hasChar,
  intersection,
  LAST_CHAR,
} from './char-set.js';
import type { Language, Languages } from './language.js';

/** Most states of the automaton of one text or number. */
export const MOST_STATES = 1500;

/** Characters that a JSON string writes as a backslash and a letter. */
const LETTERS: readonly (readonly [char: string, letter: string])[] = [
  ['"', '"'],
  ['\\', '\\'],
  ['\b', 'b'],
  ['\f', 'f'],
  ['\n', 'n'],
  ['\r', 'r'],
  ['\t', 't'],
];
/**
 * Characters that stand for themselves in a JSON string. Other control characters, and surrogates,
 * are never written.
 */
const RAW = complement(
  charSet([
    [0, 0x1f],
    [0x22, 0x22],
    [0x5c, 0x5c],
    [0x7f, 0x7f],
    [0xd800, 0xdfff],
  ]),
);

interface State {
  readonly language: Language;
  /** The next states, each with its characters. */
  next: readonly { readonly to: State; readonly set: CharSet }[];
  /** Whether a text can end in this state or a later state. */
  isAlive: boolean;
}

/** The rules of a grammar under construction. */
export interface Rules {
  /** A new name, whose rule comes later. */
  name(): string;
  set(name: string, rule: string): void;
  /** Counts every step. @throws ERR_BLOCKSTEP_BAD_ARG for too many steps */
  work(steps: number): void;
}

/** Thrown for more states than `MOST_STATES`. */
export class TooManyStates extends Error {}

/**
 * Writes the texts of languages as rules of GBNF. Each state of the automaton has a rule, so at
 * most one rule is under way at a time.
 */
export class AutomatonRules {
  readonly #languages: Languages;
  readonly #rules: Rules;
  readonly #names = new Map<string, string>();
  /** See `#writing`. */
  readonly #writings = new Map<string, readonly string[]>();

  constructor(languages: Languages, rules: Rules) {
    this.#languages = languages;
    this.#rules = rules;
  }

  /**
   * The name of the rule of a language.
   * @param isText true: the texts are parts of JSON strings. Each rule has the closing quote, and
   * the caller writes the opening quote
   * @returns null: the language has no text
   * @throws TooManyStates
   */
  ruleOf(language: Language, isText: boolean): string | null {
    const { first } = this.#explore(language, isText);
    return first.isAlive ? this.#name(first, isText) : null;
  }

  /** Number of states of the automaton of a language. @throws TooManyStates */
  numStates(language: Language, isText: boolean): number {
    return this.#explore(language, isText).states.size;
  }

  #explore(
    language: Language,
    isText: boolean,
  ): { readonly first: State; readonly states: ReadonlyMap<number, State> } {
    const states = new Map<number, State>();
    const open: State[] = [];
    const stateOf = (of: Language): State => {
      let state = states.get(of.id);
      if (state !== undefined) return state;
      if (states.size >= MOST_STATES) throw new TooManyStates();
      state = { language: of, next: [], isAlive: of.hasEmpty };
      states.set(of.id, state);
      open.push(state);
      return state;
    };
    const first = stateOf(language);
    const before = new Map<State, State[]>();
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      state.next = this.#follow(state.language, isText).map(({ to, set }) => {
        const next = stateOf(to);
        before.get(next)?.push(state!) ?? before.set(next, [state!]);
        return { to: next, set };
      });
    }
    const alive = [...states.values()].filter(({ isAlive }) => isAlive);
    for (let state = alive.pop(); state !== undefined; state = alive.pop())
      for (const each of before.get(state) ?? [])
        if (!each.isAlive) {
          each.isAlive = true;
          alive.push(each);
        }
    return { first, states };
  }

  #follow(language: Language, isText: boolean): { to: Language; set: CharSet }[] {
    const edges = [0, ...language.edges];
    this.#rules.work(Math.ceil(edges.length / 4));
    const ranges = new Map<Language, [number, number][]>();
    edges.forEach((first, i) => {
      const to = language.after(first);
      if (to === this.#languages.nothing) return;
      const last = i + 1 < edges.length ? edges[i + 1] - 1 : LAST_CHAR;
      const known = ranges.get(to);
      if (known === undefined) ranges.set(to, [[first, last]]);
      else known.push([first, last]);
    });
    return [...ranges]
      .map(([to, list]) => ({ to, set: charSet(list) }))
      .filter(({ set }) => this.#writing(set, isText).length > 0);
  }

  /**
   * The ways to write the characters of a set: as they are, and in a text as an escape. Empty if no
   * character can be written.
   */
  #writing(set: CharSet, isText: boolean): readonly string[] {
    const key = `${isText},${set}`;
    let writing = this.#writings.get(key);
    if (writing !== undefined) return writing;
    const raw = isText ? intersection(set, RAW) : set;
    const letters = isText ? LETTERS.filter(([char]) => hasChar(set, char.charCodeAt(0))) : [];
    const escaped = letters.map(([, letter]) => letter).join('');
    writing = [
      ...(raw.length > 0 ? [gbnfSet(raw)] : []),
      ...(escaped === '' ? [] : [`[\\x5C] ${gbnfSet(charsOf(escaped))}`]),
    ];
    this.#writings.set(key, writing);
    return writing;
  }

  #name(first: State, isText: boolean): string {
    const open: { readonly state: State; readonly name: string }[] = [];
    const nameOf = (state: State): string => {
      const key = `${isText},${state.language.id}`;
      let name = this.#names.get(key);
      if (name === undefined) {
        name = this.#rules.name();
        this.#names.set(key, name);
        open.push({ state, name });
      }
      return name;
    };
    const whole = nameOf(first);
    for (let each = open.pop(); each !== undefined; each = open.pop()) {
      const { state, name } = each;
      const choices = state.next.flatMap(({ to, set }) => {
        if (!to.isAlive) return [];
        const rest = nameOf(to);
        return this.#writing(set, isText).map((written) => `${written} ${rest}`);
      });
      if (state.language.hasEmpty) choices.push(isText ? '"\\""' : '""');
      this.#rules.set(name, choices.join(' | '));
    }
    return whole;
  }
}
