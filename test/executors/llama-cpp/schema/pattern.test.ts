// Drawn patterns find what regular expressions find.
import { describe, expect, it } from 'vitest';
import { Languages } from '../../../../src/executors/llama-cpp/language/language.js';
import { patternLanguage } from '../../../../src/executors/llama-cpp/language/pattern.js';
import { drawn } from './gbnf-texts.js';

const ATOMS = [
  'a',
  'b',
  '[ab]',
  '[^a]',
  '.',
  '\\d',
  '\\w',
  '\\s',
  '1',
  '(?:a|b1)',
  '(a)',
  '\\u{1F600}',
  '\\.',
  '\\b',
];
const TIMES = ['', '', '', '*', '+', '?', '{2}', '{1,3}', '{2,}', '*?'];
const CHARS = ['a', 'b', '1', ' ', '.', '\n', '\u{1F600}', '"'];

function drawPattern(random: () => number, depth = 0): string {
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  let text = random() < 0.3 && depth === 0 ? '^' : '';
  for (let i = Math.floor(random() * 4); i >= 0; i--) {
    const group = depth < 2 && random() < 0.3 ? one(['(', '(?:', '(?=', '(?!']) : null;
    if (group === null) text += one(ATOMS) + one(TIMES);
    else text += `${group}${drawPattern(random, depth + 1)}|${drawPattern(random, depth + 1)})`;
  }
  return text + (random() < 0.3 ? '$' : '');
}

describe('the language of a pattern', () => {
  it('has the texts that the pattern finds something in', () => {
    const counts = { taken: 0, refused: 0, found: 0, missed: 0 };
    for (let seed = 0; seed < 600; seed++) {
      const random = drawn(seed * 7919);
      const pattern = drawPattern(random);
      let regex: RegExp;
      try {
        regex = new RegExp(pattern, 'u');
      } catch {
        continue;
      }
      const languages = new Languages(() => {});
      let language: ReturnType<typeof patternLanguage>;
      try {
        language = patternLanguage(languages, pattern);
        counts.taken++;
      } catch {
        counts.refused++;
        continue;
      }
      for (let i = 0; i < 10; i++) {
        const text = Array.from(
          { length: Math.floor(random() * 6) },
          () => CHARS[Math.floor(random() * CHARS.length)],
        ).join('');
        const isFound = regex.test(text);
        counts[isFound ? 'found' : 'missed']++;
        expect([pattern, text, languages.has(language, text)]).toEqual([pattern, text, isFound]);
      }
    }
    for (const count of Object.values(counts)) expect(count).toBeGreaterThan(40);
  });

  it.each([
    ['a(?i:b)', 'modifiers'],
    ['(?<=a)b', 'the assertion'],
    ['\\bword', 'the assertion'],
    ['(a)\\1', 'more than a regular language'],
    ['\\p{L}', 'a property of characters'],
    ['a?^b', 'a ^ behind what may be empty'],
    ['(?:(?=a)a)*', 'an assertion that is repeated'],
    ['(', 'no regular expression of ECMAScript'],
    ['(?P<name>a)', 'no regular expression of ECMAScript'],
    ['\\Aa\\Z', 'no regular expression of ECMAScript'],
    ['a'.repeat(2001), 'more than 2000 characters'],
    [`${'('.repeat(999)}a${')'.repeat(999)}`, null],
  ])('refuses what it cannot be made of: %s', (pattern, message) => {
    const make = () => patternLanguage(new Languages(() => {}), pattern);
    if (message === null) expect(make).not.toThrow();
    else expect(make).toThrow(message);
  });

  it('reads signs that are escaped for other languages', () => {
    const languages = new Languages(() => {});
    const language = patternLanguage(languages, '^a\\-b\\_c\\@d$');
    expect(languages.has(language, 'a-b_c@d')).toBe(true);
  });
});
