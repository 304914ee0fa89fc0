// Grammars: texts satisfy them, and equal those of the model alone.
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Alone } from './equality/alone.js';
import { EXACT } from './equality/numbers.js';
import { hasLlama, textOf, useLlama } from './use-llama.js';

const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 6 },
    kind: { enum: ['cat', 'dog', 3] },
    sizes: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
    child: { $ref: '#/$defs/child' },
  },
  required: ['name', 'kind', 'sizes'],
  additionalProperties: false,
  $defs: { child: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] } },
} as const;

interface Made {
  name: string;
  kind: unknown;
  sizes: boolean[];
  child?: { id: number };
}

function expectMade(text: string): void {
  const made = JSON.parse(text) as Made;
  // A model of random weights makes bytes that are no UTF-8, and llama.cpp takes several of them for one letter.
  expect([...made.name].length).toBeLessThanOrEqual(6 * 4);
  expect(['cat', 'dog', 3]).toContain(made.kind);
  expect(made.sizes.length).toBeGreaterThanOrEqual(1);
  expect(made.sizes.length).toBeLessThanOrEqual(3);
  for (const size of made.sizes) expect(typeof size).toBe('boolean');
  if (made.child !== undefined) expect(Number.isInteger(made.child.id)).toBe(true);
  expect(Object.keys(made).every((name) => Object.hasOwn(SCHEMA.properties, name))).toBe(true);
}

describe.skipIf(!hasLlama)('grammars over llama.cpp', () => {
  const use = useLlama();

  it.each([[0], [2]])('hold drawn texts to a schema, with %i drafts', async (numSpeculativeTokens) => {
    const model = await use.model();
    const drafts = numSpeculativeTokens > 0 && { speculativeMethod: 'ngram' as const };
    const { engine } = await use.engine(model, { numSpeculativeTokens }, { ...drafts });
    const grammar = model.grammar({ jsonSchema: SCHEMA });
    const prompt = model.tokenize('an animal', { addSpecial: true });
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, seed) =>
        engine
          .submit({
            prompt,
            maxTokens: 300,
            stopTokenIds: [...model.info.endTokens],
            grammar,
            params: { temperature: 1.2, seed },
          })
          .result(),
      ),
    );
    for (const { tokens, finishReason } of answers) {
      expect(finishReason).toBe('stop');
      expectMade(textOf(model, tokens));
    }
    expect(new Set(answers.map(({ tokens }) => textOf(model, tokens))).size).toBeGreaterThan(6);
  });

  it('hold drawn texts to patterns, formats and bounds', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model);
    const schema = z.object({
      code: z
        .string()
        .regex(/^[a-z]{2}-\d+$/)
        .max(8),
      at: z.iso.datetime(),
      size: z.number().min(-0.5).lt(12.5),
      many: z.int().multipleOf(5).min(10).max(1000),
      by: z.record(z.enum(['x', 'y']), z.int().positive().max(9)),
      pair: z.tuple([z.boolean()]).rest(z.null()),
    });
    const grammar = model.grammar({ jsonSchema: z.toJSONSchema(schema) });
    const prompt = model.tokenize('an order', { addSpecial: true });
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, seed) => {
        const request = { prompt, maxTokens: 400, stopTokenIds: [...model.info.endTokens], grammar };
        return engine.submit({ ...request, params: { temperature: 1.2, seed } }).result();
      }),
    );
    for (const { tokens, finishReason } of answers) {
      expect(finishReason).toBe('stop');
      const { error } = schema.safeParse(JSON.parse(textOf(model, tokens)));
      expect([textOf(model, tokens), error?.message]).toEqual([textOf(model, tokens), undefined]);
    }
  });

  it('give the tokens that the model alone gives', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model, { numBlocks: 12 });
    const alone = await Alone.create(model, EXACT, 512);
    const grammar = model.grammar({ gbnf: 'root ::= ([a-d] [0-9] " ")+' });
    const texts = await Promise.all(
      Array.from({ length: 6 }, async (_, seed) => {
        const prompt = model.tokenize(`text ${seed}`, { addSpecial: true });
        const params = { temperature: 1, seed };
        const { tokens } = await engine.submit({ prompt, maxTokens: 40, grammar, params }).result();
        return { prompt, params, tokens: [...tokens] };
      }),
    );
    for (const { prompt, params, tokens } of texts) {
      expect(textOf(model, tokens)).toMatch(/^([a-d][0-9] )*([a-d][0-9]?)?$/);
      const text = await alone.answer(prompt, tokens.length, params, { grammar: grammar.gbnf });
      expect(tokens).toEqual(text.tokens);
    }
    alone.dispose();
  });

  it('allow any object, and what GBNF says', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model);
    const prompt = model.tokenize('x');
    const any = model.grammar({ json: true });
    const { tokens } = await engine.submit({ prompt, maxTokens: 60, grammar: any }).result();
    expect(textOf(model, tokens)).toMatch(/^\{/);
  });

  it('are refused where they cannot be parsed', async () => {
    const model = await use.model();
    const code = 'ERR_BLOCKSTEP_BAD_ARG';
    expect(() => model.grammar({ gbnf: 'root ::= (' })).toThrow(expect.objectContaining({ code }));
    expect(() => model.grammar({ gbnf: 'other ::= "a"' })).toThrow(expect.objectContaining({ code }));
    expect(() => model.grammar({ gbnf: 'root ::= ("a"' })).toThrow(
      /^grammar must be GBNF with a rule root: expected \), at line 1, column 14$/,
    );
    expect(() => model.grammar({ jsonSchema: { type: 'string', pattern: '\\bword' } })).toThrow(/pattern/);
    expect(() => model.grammar({ gbnf: 'root ::= "a" [z-a]' })).toThrow(expect.objectContaining({ code }));
    expect(() => model.grammar({ gbnf: 'root ::= "a\0"' })).toThrow(expect.objectContaining({ code }));
    expect(() => model.grammar({ gbnf: 'root ::= "a" root' })).toThrow(/matches no finite text/);
    const endless = { properties: { a: { $ref: '#' } }, required: ['a'] };
    expect(() => model.grammar({ jsonSchema: endless })).toThrow(
      /schema.\$ref must be a reference to a schema that does not always contain itself/,
    );
    expect(() => model.grammar({} as never)).toThrow(expect.objectContaining({ code }));
  });
});
