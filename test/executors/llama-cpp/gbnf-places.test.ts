// Grammars whose texts have very many places at once, and the count of places.
import { describe, expect, it } from 'vitest';
import { checkGbnf } from '../../../src/executors/llama-cpp/sampling/gbnf.js';
import { type GbnfRule, GbnfRules } from '../../../src/executors/llama-cpp/sampling/gbnf-rules.js';
import { GbnfStacks, type Spread } from '../../../src/executors/llama-cpp/sampling/gbnf-stacks.js';
import { jsonObjectGrammar } from '../../../src/executors/llama-cpp/sampling/json-grammar.js';

const many = (count: number, of: (i: number) => string, by: string): string =>
  Array.from({ length: count }, (_, i) => of(i)).join(by);
/** Rules that each have the next one in two choices. */
const nest = (depth: number): string =>
  `${many(depth, (i) => `r${i} ::= "a" r${i + 1} "b" | "a" r${i + 1} "c"`, '\n')}\nr${depth} ::= "x"`;
const letter = (i: number): string => String.fromCodePoint(0x4e00 + i);
const long = 'ab'.repeat(100);

/** A part of a rule: its rule, choice, and place there. */
type Place = readonly [rule: number, choice: number, at: number];
/** Places to go on at, the next one first. */
type Stack = readonly Place[];

function partAt(rules: readonly number[][][], [rule, choice, at]: Place): number | undefined {
  return rules[rule][choice][at];
}

function begun(rules: readonly number[][][], rule: number, rest: Stack): Stack[] {
  return rules[rule].map((_, choice) => [[rule, choice, 0], ...rest]);
}

/** Goes into the rules on top of stacks, one stack after the other. */
function spread(rules: readonly number[][][], from: readonly Stack[]): Map<string, Stack> {
  const found = new Map<string, Stack>();
  const open = [...from];
  for (let stack = open.pop(); stack !== undefined; stack = open.pop()) {
    const whole = stack.filter((place) => partAt(rules, place) !== undefined);
    const [top, ...rest] = whole;
    const part = top === undefined ? -1 : partAt(rules, top)!;
    if (part < 0) found.set(JSON.stringify(whole), whole);
    else open.push(...begun(rules, part, [[top[0], top[1], top[2] + 1], ...rest]));
  }
  return found;
}

describe('places of a text in a grammar', () => {
  it.each([
    ['two ends', 'root ::= "a" root "b" | "a" root "c" | "x"', 'root'],
    [
      'brackets with and without a star',
      'root ::= expr\nexpr ::= item ("+" item)*\nitem ::= "(" expr ")" | "(" expr ")" "*" | [0-9]+',
      'expr',
    ],
    [
      'else that dangles',
      'root ::= s\ns ::= "if " c " then " s | "if " c " then " s " else " s | "x"\nc ::= [a-z]+',
      'root',
    ],
    ['a nest that ends', `root ::= "z" r0\n${nest(20)}`, 'root'],
    ['behind a long text', `root ::= "${'z'.repeat(5000)}" r\nr ::= "a" r "b" | "a" r "c" | "x"`, 'r'],
    ['of long texts', `root ::= "${long}" root "b" | "${long}" root "c" | "x"`, 'root'],
    [
      'behind rules without end',
      `root ::= i\ni ::= "(" v i ")" | "(" v i "]" | "x"\nv ::= "[" v "]" | ${many(100, (i) => `"${letter(i)}" v "e"`, ' | ')} | "y"`,
      '(root|i)',
    ],
    [
      'behind a rule whose texts are long',
      `root ::= "(" v root ")" | "(" v root "]" | "x"\nv ::= ${many(50, (i) => `"${letter(i)}" v "e"`, ' | ')} | "${long}"`,
      'root',
    ],
    [
      'by rules that are alike',
      'root ::= "a" d root "b" | "a" e root "c" | "x"\nd ::= "[" d "]" | "y"\ne ::= "[" e "]" | "y"',
      'root',
    ],
    ['in a group', 'root ::= "z" ("q" root "b" | "q" root "c" | "x")', 'root'],
    ['by sets that share a letter', 'root ::= [a-m] root "b" | [m-z] root "c" | "1"', 'root'],
    ['by tokens', 'root ::= <[64]> root "b" | "a" root "c" | "x"', 'root'],
  ])('are not too many: %s', (_, text, rule) => {
    expect(() => checkGbnf(text)).toThrow(
      new RegExp(`within the rule ${rule}\\d* a text may stand at more than 1000 places at once`),
    );
  });

  it.each([
    ['two of one', 'root ::= (" " | " ")* "x"'],
    ['sets', 'root ::= ([a-z] | [a-f])* "X"'],
    ['what may be left out', 'root ::= ("a" "b"? "a"?)* "c"'],
    ['behind a long text', `root ::= "${long}" s\ns ::= (("-" | "--") "b"?)* "c"`],
  ])('are not reached in too many ways: %s', (_, text) => {
    expect(() => checkGbnf(text)).toThrow(
      /within the rule root|s a text of \d+ equal characters may be read in more than/,
    );
  });

  it.each([
    ['JSON', jsonObjectGrammar()],
    ['sums', 'root ::= (e "=" t "\\n")+\ne ::= t ([-+*/] t)*\nt ::= [a-z]+ | [0-9]+ | "(" " "* e ")" " "*'],
    ['a list', 'root ::= ("- " [^\\r\\n]+ "\\n")+'],
    ['else that is closed', 'root ::= "if " [a-z]+ " then " root (" else " root)? " end" | "x"'],
    ['spaces behind spaces', 'root ::= w w w "x"\nw ::= [ \\t\\n]*'],
    ['many names', `root ::= "{" (${many(3000, (i) => `"name${i}"`, ' | ')}) "}"`],
    ['thoughts', 'root ::= <think> !<end>* <end> .*'],
    ['sets that share nothing', 'root ::= [a-m] root "b" | [n-z] root "c" | "1"'],
  ])('are few: %s', (_, text) => {
    expect(() => checkGbnf(text)).not.toThrow();
  });

  it('are counted as they are when each stack is gone on with alone', () => {
    let state = 3;
    const next = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    let most = 0;
    for (let round = 0; round < 400; round++) {
      const rules = new GbnfRules();
      const letters = [...'ab'].map((letter) => rules.letter([letter.charCodeAt(0), letter.charCodeAt(0)]));
      const written = Array.from({ length: 4 }, (): number[][] =>
        Array.from({ length: 1 + next(3) }, () => [
          // A rule that begins with a letter has no left recursion.
          letters[next(2)],
          ...Array.from({ length: next(4) }, () => (next(2) === 0 ? letters[next(2)] : next(4))),
        ]),
      );
      for (const choices of written)
        rules.add(choices.map((path) => ({ path, needs: [], size: path.length })) satisfies GbnfRule);
      const stacks = new GbnfStacks(rules);
      let together: Spread = stacks.begin(0);
      let alone = spread(written, begun(written, 0, []));
      for (let length = 0; length < 20 && alone.size > 0 && alone.size < 500; length++) {
        expect(stacks.get(together.places).count).toBe(alone.size);
        most = Math.max(most, alone.size);
        const letter = letters[(next(4) >> 1) >> next(2)];
        const { tops } = stacks.get(together.places);
        together = stacks.together(
          tops.filter((top) => stacks.is(top) === letter).map((top) => stacks.behind(top)),
        );
        const matched = [...alone.values()].filter(
          ([top]) => top !== undefined && partAt(written, top) === letter,
        );
        alone = spread(
          written,
          matched.map(([[rule, choice, at], ...rest]) => [[rule, choice, at + 1], ...rest]),
        );
      }
    }
    expect(most).toBeGreaterThan(100);
  });
});
