import { describe, expect, it } from 'vitest';
import { jsonObjectGrammar, schemaGrammar } from '../../../src/executors/llama-cpp/sampling/json-grammar.js';

describe('a schema as GBNF', () => {
  it('has a rule for every name that it uses', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: ['string', 'null'] }, b: { anyOf: [{ const: 1 }, { type: 'number' }] } },
      additionalProperties: { type: 'array', prefixItems: [{ type: 'integer' }, true] },
    };
    for (const text of [schemaGrammar(schema), jsonObjectGrammar(), schemaGrammar(true)]) {
      const names = new Set([...text.matchAll(/^(\S+) ::=/gm)].map(([, name]) => name));
      const right = text
        .replace(/^\S+ ::=/gm, '')
        .replace(/"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]|\{[\d,]*\}/g, '');
      for (const [name] of right.matchAll(/[a-z]\w*/g)) expect(names).toContain(name);
      expect(names).toContain('root');
    }
  });

  it.each([
    [{ type: 'string', pattern: '^a$' }, 'schema.pattern'],
    [{ type: 'integer', minimum: 3 }, 'schema.minimum'],
    [
      { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } },
      'schema.properties.a.uniqueItems',
    ],
    [{ type: 'text' }, 'schema.type'],
    [{ $ref: '#/$defs/none' }, 'schema.$ref'],
    [{ $ref: 'https://example.com' }, 'schema.$ref'],
    [{ anyOf: [] }, 'schema.anyOf'],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, 'schema.allOf'],
    [{ const: 1, type: 'string' }, 'schema.type'],
    [{ type: 'object', required: ['a'] }, 'schema.required'],
    [{ type: 'string', minLength: 3, maxLength: 2 }, 'schema.minLength'],
    [false, 'schema'],
    ['text', 'schema'],
  ])('refuses what it would not heed: %j', (schema, at) => {
    expect(() => schemaGrammar(schema)).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringContaining(at) }),
    );
  });
});
