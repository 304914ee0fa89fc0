// Grammars that are parsed off the event loop.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { GbnfRules } from '../../../src/executors/llama-cpp/sampling/gbnf-rules.js';
import { SchemaGrammar } from '../../../src/executors/llama-cpp/schema/schema-grammar.js';
import { hasLlama, useLlama } from './use-llama.js';

/** Counts what is done in this process: schemas that become grammars, and rules that are read. */
function workHere(): () => number {
  const spies = [vi.spyOn(SchemaGrammar.prototype, 'text'), vi.spyOn(GbnfRules.prototype, 'named')];
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return () => spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
}

const many = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));
const nested = (depth: number): Record<string, unknown> =>
  many(depth, () => 0).reduce<Record<string, unknown>>((items) => ({ type: 'array', items }), {});
const wide = (names: number): Record<string, unknown> => ({
  type: 'object',
  properties: Object.fromEntries(many(names, (i) => [`p${i}`, { type: 'null' }])),
});

describe.skipIf(!hasLlama)('grammars that are read off the event loop', () => {
  const use = useLlama();

  it.each([
    ['a schema', { jsonSchema: wide(500) }],
    ['patterns within patterns', { jsonSchema: { pattern: '^(([a-z]+)*b?)+$' } }],
    ['any object', { json: true as const }],
    ['GBNF', { gbnf: 'root ::= "a" | <|im_end|>' }],
  ])('are the same that are read at once, and none is read here: %s', async (_, form) => {
    const model = await use.model();
    const work = workHere();
    const { gbnf } = await model.grammarAsync(form);
    expect(work()).toBe(0);
    expect(gbnf).toBe(model.grammar(form).gbnf);
    expect(work()).toBeGreaterThan(0);
  });

  it.each([
    [
      'too deep',
      { jsonSchema: nested(5000) },
      /grammar must be GBNF with a rule root: it is nested too deep/,
    ],
    ['deep', { jsonSchema: nested(200) }, /at most 100 schemas within each other/],
    ['too wide', { jsonSchema: wide(20_000) }, /a grammar of at most 262144 characters/],
    ['a pattern of too many states', { jsonSchema: { pattern: '^(a|b)*a(a|b){25}$' } }, /1500 states/],
    [
      'a pattern that takes long',
      { jsonSchema: { pattern: '(\\d{1000}){1000}' } },
      /less to convert|at most/,
    ],
    [
      'GBNF of too many ways',
      { gbnf: `root ::= ${'('.repeat(10)}"a"?${' "b"?){0,3}'.repeat(10)}` },
      /more than 10000 ways/,
    ],
    ['no GBNF', { gbnf: `root ::= ${'('.repeat(1_000_000)}` }, /nested more than 200 deep/],
    ['no token', { gbnf: 'root ::= "a"\nb ::= <nothing>' }, /no token <nothing>, at line 2, column 16/],
    ['no form', { gbnf: 5 as never }, /grammar must be an object with one of gbnf/],
  ])('are refused as they are at once: %s', async (_, form, message) => {
    const model = await use.model();
    const work = workHere();
    await expect(model.grammarAsync(form)).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_BAD_ARG',
      message: expect.stringMatching(message),
    });
    expect(work()).toBe(0);
  });

  it('want a model that is there', async () => {
    const model = await use.model({ seed: 7 });
    model.dispose();
    await expect(model.grammarAsync({ json: true })).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_DISPOSED',
    });
  });
});
