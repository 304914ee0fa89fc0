// The rules of a grammar that is being made.
import { AutomatonRules } from '../language/automaton.js';
import { type Language, Languages } from '../language/language.js';
import { Budget, refuse } from './refusal.js';

/** The largest count of a repetition, and the largest block that llama.cpp counts itself. */
const MOST_COUNTED = 1_000_000;
const BLOCK = 1000;

/** The separator of two items or properties. */
export const COMMA = 'space "," space';

/**
 * The rules of every grammar of JSON. Two tokens have at most one space between them, so that a
 * text cannot continue with spaces alone.
 */
export const RULES: Readonly<Record<string, string>> = {
  space: '" "?',
  char: '[^"\\\\\\x7F\\x00-\\x1F] | [\\\\] (["\\\\/bfnrt] | "u" [0-9a-fA-F]{4})',
  string: '"\\"" char* "\\""',
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  number: 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?',
  boolean: '"true" | "false"',
  null: '"null"',
  value: 'object | array | string | number | boolean | null',
  pair: 'string space ":" space value',
  object: '"{" space (pair (space "," space pair)*)? space "}"',
  array: '"[" space (value (space "," space value)*)? space "]"',
};

/** The rules of a grammar under construction, and the languages of its values. */
export class GrammarRules {
  readonly budget = new Budget();
  readonly languages = new Languages((steps) => this.work(steps));
  readonly #automata = new AutomatonRules(this.languages, this);
  readonly #rules = new Map<string, string>(Object.entries(RULES));
  /** The name of each rule. */
  readonly #names = new Map<string, string>(Object.entries(RULES).map(([name, rule]) => [rule, name]));
  #numRules = 0;

  work(steps: number): void {
    this.budget.work(steps);
  }

  name(): string {
    return `r${this.#numRules++}`;
  }

  set(name: string, rule: string): void {
    this.budget.length(name.length + rule.length + 6);
    this.#rules.set(name, rule);
  }

  /** The name of a rule. A new rule gets a name. */
  add(rule: string): string {
    if (this.#rules.has(rule)) return rule;
    let name = this.#names.get(rule);
    if (name !== undefined) return name;
    name = this.name();
    this.#names.set(rule, name);
    this.set(name, rule);
    return name;
  }

  /**
   * The rule of the texts, or numbers, of a language.
   * @param isText see `AutomatonRules.ruleOf`
   * @returns null: the language is empty
   * @throws TooManyStates
   */
  language(language: Language, isText: boolean): string | null {
    return this.#automata.ruleOf(language, isText);
  }

  /** Number of states of the automaton of texts. @throws TooManyStates */
  numStates(language: Language): number {
    return this.#automata.numStates(language, true);
  }

  /**
   * The repetition of a rule.
   * @param part name of the rule
   * @param at keyword with the count, for messages
   */
  counted(part: string, min: number, max: number, at: string): string {
    this.budget.at = at;
    const most = Number.isFinite(max) ? max : min;
    if (most > MOST_COUNTED) throw refuse(at, `${most}`, `at most ${MOST_COUNTED}`);
    if (max === Number.POSITIVE_INFINITY && min === 0) return `${part}*`;
    return [this.#exactly(part, min), max === min ? '' : this.#upTo(part, max - min)]
      .filter((each) => each !== '')
      .join(' ');
  }

  #exactly(part: string, count: number): string {
    const blocks = Math.floor(count / BLOCK);
    const rest = count % BLOCK;
    const parts = rest === 0 ? [] : [this.#times(part, `{${rest}}`, rest)];
    if (blocks > 0) parts.push(this.#blocks(part, blocks));
    return parts.join(' ');
  }

  #blocks(part: string, count: number): string {
    const block = this.#times(part, `{${BLOCK}}`, BLOCK);
    this.budget.count(count);
    return count === 1 ? block : `${block}{${count}}`;
  }

  /**
   * Counts in blocks too, because llama.cpp makes a rule for each repetition, and counts to 2000 at
   * most.
   */
  #upTo(part: string, count: number): string {
    if (count === Number.POSITIVE_INFINITY) return `${part}*`;
    if (count <= BLOCK) return this.#times(part, `{0,${count}}`, count);
    const block = this.#times(part, `{${BLOCK}}`, BLOCK);
    const few = this.#times(part, `{0,${BLOCK - 1}}`, BLOCK - 1);
    const blocks = Math.floor(count / BLOCK);
    this.budget.count(blocks);
    let rule = this.#upTo(part, count % BLOCK);
    for (let i = 0; i < blocks; i++) rule = this.add([few, `${block} ${rule}`.trim()].join(' | '));
    return rule;
  }

  #times(part: string, times: string, count: number): string {
    const rule = `${part}${times}`;
    if (!this.#names.has(rule)) this.budget.count(count);
    return count === 0 ? '' : this.add(rule);
  }

  /** The grammar. @param root the name of its start rule */
  text(root: string): string {
    const lines = [...this.#rules].map(([name, rule]) => `${name} ::= ${rule}`);
    return `${[`root ::= ${root}`, ...lines].join('\n')}\n`;
  }
}
