// Regular expressions as languages.
import { createRequire } from 'node:module';
import type { AST, RegExpParser } from '@eslint-community/regexpp';
import { messageOf } from '../../../base/errors.js';
import { type CharSet, charSet, complement, union } from './char-set.js';
import type { Language, Languages } from './language.js';

const LONGEST_PATTERN = 2000;
/** The characters of `\s` in ECMAScript. */
const SPACES = charSet([
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
const DIGITS = charSet([[0x30, 0x39]]);
const WORDS = charSet([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);
const LINE_ENDS = charSet([
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
]);

/** The place of an element in a text: at the begin, behind the begin, or either. */
type Place = 'begin' | 'behind' | 'either';

let parser: RegExpParser | null = null;

/**
 * The language of the texts in which a regular expression of ECMAScript finds a match, as JSON
 * schemas define it.
 * @throws Error that names the part that is no regular language
 */
export function patternLanguage(languages: Languages, pattern: string): Language {
  if (pattern.length > LONGEST_PATTERN)
    throw new Error(`more than ${LONGEST_PATTERN} characters of a pattern`);
  try {
    return new PatternReader(languages).read(parse(pattern));
  } catch (error) {
    // Deeply nested groups exhaust the stack.
    if (error instanceof RangeError) throw new Error('groups that are nested too deep');
    throw error;
  }
}

/**
 * Parses in Unicode mode, as schemas define it. The other mode is tried if the pattern escapes a
 * character without need.
 */
function parse(pattern: string): AST.Pattern {
  // The parser is loaded late, because most schemas have no pattern.
  parser ??= new (createRequire(import.meta.url)('@eslint-community/regexpp').RegExpParser)({
    ecmaVersion: 2025,
  });
  try {
    return parser!.parsePattern(pattern, 0, pattern.length, { unicode: true });
  } catch (error) {
    if (error instanceof RangeError) throw error;
    if (/[^\0-\x7f]/.test(pattern) || /\\[a-zA-Z](?<!\\[bBcdDfnrsStuvwWx])/.test(pattern)) throw wrong(error);
    try {
      return parser!.parsePattern(pattern, 0, pattern.length, { unicode: false });
    } catch (cause) {
      throw wrong(cause);
    }
  }
}

function wrong(error: unknown): Error {
  return new Error(`what is no regular expression of ECMAScript (${messageOf(error).slice(0, 300)})`);
}

class PatternReader {
  readonly #languages: Languages;
  /** Elements with an assertion. Their language depends on their surroundings. */
  readonly #bound = new Set<unknown>();

  constructor(languages: Languages) {
    this.#languages = languages;
  }

  read(pattern: AST.Pattern): Language {
    this.#bind(pattern);
    const languages = this.#languages;
    const { anything, anyChar } = languages;
    const { alternatives } = pattern;
    return languages.either(
      this.#choices(alternatives, anything, 'begin'),
      languages.sequence(anyChar, anything, this.#choices(alternatives, anything, 'behind')),
    );
  }

  /** Notes the elements with an assertion. */
  #bind(node: unknown): boolean {
    const { type, alternatives, elements, element } = node as {
      readonly type: string;
      readonly alternatives?: readonly unknown[];
      readonly elements?: readonly unknown[];
      readonly element?: unknown;
    };
    let isBound = type === 'Assertion';
    if (type === 'CharacterClass') return false;
    for (const each of [...(alternatives ?? []), ...(elements ?? []), ...(element ? [element] : [])])
      if (this.#bind(each)) isBound = true;
    if (isBound) this.#bound.add(node);
    return isBound;
  }

  /** @param rest the texts that may follow */
  #choices(alternatives: readonly AST.Alternative[], rest: Language, place: Place): Language {
    return this.#languages.either(...alternatives.map(({ elements }) => this.#all(elements, rest, place)));
  }

  #all(elements: readonly AST.Element[], rest: Language, place: Place): Language {
    const places: Place[] = [];
    let here = place;
    for (const element of elements) {
      places.push(here);
      if (element.type === 'Assertion') continue;
      const isSure = !this.#bound.has(element) && !this.#plain(element).hasEmpty;
      if (isSure) here = 'behind';
      else if (here === 'begin') here = 'either';
    }
    let whole = rest;
    for (let i = elements.length - 1; i >= 0; i--) whole = this.#element(elements[i], whole, places[i]);
    return whole;
  }

  #element(element: AST.Element, rest: Language, place: Place): Language {
    if (!this.#bound.has(element)) return this.#languages.sequence(this.#plain(element), rest);
    if (element.type === 'Group' || element.type === 'CapturingGroup') {
      refuseModifiers(element);
      return this.#choices(element.alternatives, rest, place);
    }
    if (element.type === 'Assertion') return this.#assertion(element, rest, place);
    if (element.type !== 'Quantifier' || element.max !== 1)
      throw new Error(`an assertion that is repeated, ${element.raw}`);
    const once = this.#element(element.element, rest, place);
    return element.min === 0 ? this.#languages.either(once, rest) : once;
  }

  #assertion(assertion: AST.Assertion, rest: Language, place: Place): Language {
    const languages = this.#languages;
    if (assertion.kind === 'end') return languages.both(rest, languages.empty);
    if (assertion.kind === 'start') {
      if (place === 'either') throw new Error('a ^ behind what may be empty');
      return place === 'begin' ? rest : languages.nothing;
    }
    if (assertion.kind !== 'lookahead') throw new Error(`the assertion ${assertion.raw}`);
    const ahead = this.#choices(assertion.alternatives, languages.anything, place);
    return languages.both(rest, assertion.negate ? languages.not(ahead) : ahead);
  }

  /** The language of an element without assertions. */
  #plain(element: AST.Element | AST.QuantifiableElement): Language {
    const languages = this.#languages;
    switch (element.type) {
      case 'Character':
        return languages.chars(oneChar(element));
      case 'CharacterSet':
        return languages.chars(setOf(element));
      case 'CharacterClass': {
        const set = union(...element.elements.map(setOf));
        return languages.chars(element.negate ? complement(set) : set);
      }
      case 'Group':
      case 'CapturingGroup':
        refuseModifiers(element);
        return languages.either(
          ...element.alternatives.map(({ elements }) =>
            languages.sequence(...elements.map((each) => this.#plain(each))),
          ),
        );
      case 'Quantifier':
        return languages.repeat(this.#plain(element.element), element.min, element.max);
      default:
        throw new Error(`${element.raw}, which is more than a regular language`);
    }
  }
}

function oneChar({ value, raw }: AST.Character): CharSet {
  if (value >= 0xd800 && value <= 0xdfff) throw new Error(`half of a character, ${raw}`);
  return [value, value];
}

function setOf(element: AST.CharacterClassElement | AST.CharacterSet): CharSet {
  if (element.type === 'Character') return oneChar(element);
  if (element.type === 'CharacterClassRange') return [element.min.value, element.max.value];
  const sets: Readonly<Record<string, CharSet>> = { digit: DIGITS, space: SPACES, word: WORDS };
  if (element.type !== 'CharacterSet') throw new Error(`a class within a class, ${element.raw}`);
  if (element.kind === 'any') return complement(LINE_ENDS);
  const set = sets[element.kind];
  if (set === undefined) throw new Error(`a property of characters, ${element.raw}`);
  return element.negate ? complement(set) : set;
}

function refuseModifiers(group: AST.Group | AST.CapturingGroup): void {
  if (group.type === 'Group' && group.modifiers !== null) throw new Error(`modifiers, ${group.raw}`);
}
