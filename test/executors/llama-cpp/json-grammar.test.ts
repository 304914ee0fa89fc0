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

  it('takes the type of a constant beside it', () => {
    const of = (schema: unknown) => /^root ::= (.*)$/m.exec(schemaGrammar(schema))![1];
    expect(of({ const: 'a', type: 'string' })).toBe('"\\"a\\""');
    expect(of({ const: 1, type: 'integer' })).toBe(of({ const: 1, type: 'number' }));
    expect(of({ const: null, type: ['string', 'null'] })).toBe('"null"');
  });

  it('is not deeper than its reader can go', () => {
    let schema: object = { type: 'string' };
    for (let i = 0; i < 99; i++) schema = { type: 'array', items: schema };
    expect(schemaGrammar(schema)).toContain('root ::=');
    for (let i = 0; i < 5000; i++) schema = { type: 'array', items: schema };
    const code = 'ERR_BLOCKSTEP_BAD_ARG';
    expect(() => schemaGrammar(schema)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining('at most 100 schemas') }),
    );
  });
});
