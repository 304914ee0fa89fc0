// The mistakes of a grammar, which llama.cpp finds too.
import { describe, expect, it } from 'vitest';
import { LlamaModel } from '../../../src/executors/llama-cpp/model/llama-model.js';
import { checkGbnf } from '../../../src/executors/llama-cpp/sampling/gbnf.js';
import { jsonObjectGrammar } from '../../../src/executors/llama-cpp/sampling/json-grammar.js';
import { hasLlama, useLlama } from './use-llama.js';

const check = (text: string): void => {
  for (const [name, place] of checkGbnf(text))
    if (name !== '<|im_end|>') throw new Error(`the model has no token ${name}, at ${place}`);
};
/** Rules that each begin with the next one, so many times. */
const chain = (length: number, times = 1): string =>
  Array.from(
    { length },
    (_, i) =>
      `r${i} ::= ${Array(times)
        .fill(`r${i + 1}`)
        .join(' | ')}`,
  ).join('\n');

describe('a grammar in GBNF', () => {
  const use = useLlama();
  it.each([
    'root ::= "a"',
    '# all\n\nroot  ::= b | "c" # here\n  \nb ::= [^a-z\\]\\x41] . b?\r\n',
    'root ::= (\n "a" |\n "b"\n){2,3} "\\u00e9\\U0001F600"*',
    'root ::= <|im_end|> !<[3]> "a"{0,0}',
    'root ::= "a"{1,1000000}',
    `root ::= ${'('.repeat(200)}"a"${')'.repeat(200)}`,
    `root ::= r0\n${chain(2100)}\nr2100 ::= "a"`,
    jsonObjectGrammar(),
  ])('is taken where it can be read: %j', (text) => {
    expect(() => check(text)).not.toThrow();
  });

  it.each([
    ['root ::= ("a"', 'expected ), at line 1, column 14'],
    ['root ::= "a"\nb ::= "x', 'expected ", or an escape that there is, at line 2, column 9'],
    ['root ::= "\\q"', 'expected ", or an escape that there is, at line 1, column 11'],
    ['root ::= "\\x4"', 'expected 2 hex digits, at line 1, column 13'],
    ['root = "a"', 'expected ::=, at line 1, column 6'],
    ['root ::= "a" ]', 'expected the end of the line, at line 1, column 14'],
    ['root ::= *', 'expected something to repeat, at line 1, column 11'],
    ['root ::= "a"{,2}', 'expected a number, at line 1, column 14'],
    ['root ::= "a"{2', 'expected }, at line 1, column 15'],
    ['root ::= <nothing>', 'the model has no token <nothing>, at line 1, column 19'],
    ['other ::= "a"', 'there is no rule root'],
    ['root ::= a', 'there is no rule a'],
    ['root ::= a "x"\na ::= "b"? root', 'a rule that begins with itself (left recursion)'],
    ['root ::= "a\0b"', 'expected no NUL, which ends a text, at line 1, column 12'],
    ['root ::= "a" \0 "b"', 'expected no NUL'],
    ['root ::= "\\x00"', 'expected a character that a text can have, at line 1, column 15'],
    ['root ::= [\\uD800]', 'expected a set with a character that a text can have'],
    ['root ::= []', 'expected a set with a character that a text can have, at line 1, column 12'],
    ['root ::= [^\\x00-\\U0010FFFF]', 'expected a set with a character that a text can have'],
    [
      'root ::= [a-fz-a]',
      'expected a range whose first character is not behind its last, at line 1, column 17',
    ],
    ['root ::= "a" root', 'the rule root matches no finite text: it always needs itself'],
    ['root ::= "a" | b\nb ::= "b" c | "d" b\nc ::= "c" b', 'the rule b matches no finite text'],
    ['root ::= "a" | ("b" ("c" b))\nb ::= "d" ("e" b)', 'the rule b matches no finite text'],
  ])('is refused with what is wrong: %j', (text, message) => {
    expect(() => check(text)).toThrow(message);
  });

  // Each of these ended the process, its memory, or the time until its next event.
  it.each([
    [`root ::= ${'('.repeat(200_000)}"a"${')'.repeat(200_000)}`, 'groups are nested more than 200 deep'],
    [`root ::= r0\n${chain(90_000)}\nr90000 ::= "a"`, 'rules that begin with rules, more than 2200 deep'],
    [`root ::= r0\n${chain(60, 2)}\nr60 ::= "a"`, 'may go on in more than 10000 ways at one place'],
    [`root ::= "x" ${'('.repeat(10)}"a"?${' "b"?){0,3}'.repeat(10)}`, 'may go on in more than 10000 ways'],
    [`root ::= ${Array(20_000).fill('"a"').join(' | ')}`, 'may go on in more than 10000 ways'],
    ['root ::= e root "x" | "y"\ne ::= f\nf ::= "a"?', 'begins with itself (left recursion)'],
    [
      `root ::= ${Array.from({ length: 1001 }, (_, i) => `<${i}>`).join(' ')}`,
      'more than 1000 names of tokens',
    ],
    [`root ::= <${'a'.repeat(300)}>`, 'the model has no token <aaa'],
    ['root ::= "a"{5,2}', 'expected the lower number of a repetition first, got 5,2'],
    [`root ::= "${'a'.repeat(100_000)}"{1999}`, 'more than 1000000 characters'],
    ['root ::= "a"{2000}', 'a repetition of 2000 times 1 rules, which llama.cpp counts together'],
    [
      'root ::= ("a"{0,50}){0,40}',
      'a repetition of 40 times 51 rules, which llama.cpp counts together: they must be less than 2000',
    ],
    [`root ::= ${'("a" "b"){0,1999} '.repeat(60)}`, 'more than 100000 rules'],
  ])('is refused where llama.cpp could not bear it: %#', (text, message) => {
    expect(() => check(text)).toThrow(message);
  });

  it.skipIf(!hasLlama)('is taken where llama.cpp takes it, and refused where it does not', async () => {
    const model = await use.model();
    const { native } = LlamaModel.nativeOf(model);
    /**
     * Grammars that llama.cpp takes, but that match no finite text, or that it takes for ever to
     * read.
     */
    const stricter =
      /matches no finite text|a character that a text can have|a range whose first|in more than/;
    const verdict = (run: () => void): boolean | null => {
      try {
        run();
        return true;
      } catch (error) {
        return stricter.test((error as Error).message) ? null : false;
      }
    };
    const parts = [
      '"a"',
      '"\\n"',
      '""',
      '[a-z]',
      '[]',
      '[a-]',
      '.',
      '(',
      ')',
      '*',
      '?',
      '{2}',
      '{1,3}',
      '{2,}',
    ];
    const more = [
      '|',
      ' ',
      '\n',
      'root',
      'b',
      '::=',
      'b ::= ',
      '# c\n',
      '<[3]>',
      '!<|im_end|>',
      '<zz>',
      '"\\q"',
    ];
    const all = [...parts, ...more];
    let state = 7;
    const next = (below: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >> 8) % below;
    };
    const counts = { taken: 0, refused: 0 };
    // llama.cpp writes what it refuses to standard error, so there are few of these.
    for (let i = 0; i < 400; i++) {
      const words = Array.from({ length: 1 + next(6) }, () => all[next(all.length)]);
      const text = `root ::= ${words.join('')}${next(3) > 0 ? '\nb ::= "b" c?\nc ::= "c"\n' : ''}`;
      const isTaken = verdict(() => model.grammar({ gbnf: text }));
      if (isTaken === null) continue;
      if (isTaken) counts.taken++;
      else {
        counts.refused++;
        if (counts.refused > 40) continue;
      }
      expect([text, verdict(() => native.checkGrammar(text))]).toEqual([text, isTaken]);
    }
    expect(counts.taken).toBeGreaterThan(40);
    expect(counts.refused).toBeGreaterThan(40);
  });
});
