// Models of Pydantic 2; its own validation runs if it is installed.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkGbnf } from '../../../../src/executors/llama-cpp/sampling/gbnf.js';
import { schemaGrammar } from '../../../../src/executors/llama-cpp/sampling/json-grammar.js';
import { drawn, GbnfTexts } from './gbnf-texts.js';

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
/** The output of `models.py`, by Pydantic 2.13. */
const SCHEMAS: Record<string, unknown> = JSON.parse(readFileSync(here('pydantic.json'), 'utf8'));
const PYTHON = ['python3', '/usr/bin/python3'].find(
  (path) => spawnSync(path, ['-c', 'import pydantic; assert pydantic.VERSION >= "2."']).status === 0,
);
if (PYTHON === undefined) console.log('skipped: no Python with Pydantic 2');

/** A value of each model. */
const GOOD: Record<string, unknown> = {
  Closed: {
    color: 'red',
    one: true,
    child: { name: 'A', age: 3 },
    children: [{ name: 'B', age: 150 }],
    option: null,
  },
  Node: { value: 1, next: { value: 2, next: null } },
  Times: { at: '2026-11-27T18:00:00+01:00', day: '2024-02-29', clock: '18:00:00Z', span: 'P1DT2H' },
  Texts: {
    ...{ id: '550e8400-e29b-41d4-a716-446655440000', code: 'ABC-123', link: 'ftp://example.com/a' },
    ...{ page: 'https://example.com/?q=1#top', secret: 'x', raw: 'bytes' },
  },
  Numbers: { even: -4, part: 0.25, price: '12.50', rest: [1] },
  Lists: { pair: [1, 'a'], many: [1, 2, 3], colors: ['blue'], scores: { a: 1.5 }, named: { ab: 1 } },
  Pet: { pet: { kind: 'dog', weight: 80.5 } },
};

describe('schemas of Pydantic', () => {
  it.each(Object.keys(SCHEMAS))('%s', (name) => {
    const text = schemaGrammar(SCHEMAS[name]);
    checkGbnf(text);
    expect(new GbnfTexts(text).allows(JSON.stringify(GOOD[name]))).toBe(true);
  });

  it.skipIf(PYTHON === undefined)('allow what Pydantic takes, and nothing else', () => {
    const texts = Object.keys(SCHEMAS).flatMap((name) => {
      const made = new GbnfTexts(schemaGrammar(SCHEMAS[name]));
      const good = [name, JSON.stringify(GOOD[name])];
      return [good, ...Array.from({ length: 25 }, (_, seed) => [name, made.draw(drawn(seed))])];
    });
    const input = JSON.stringify(texts);
    const { stdout, stderr } = spawnSync(PYTHON!, [here('models.py'), 'check'], { input, encoding: 'utf8' });
    expect([stdout, stderr]).toEqual(['', '']);
  });
});
