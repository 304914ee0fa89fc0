// Schemas as GBNF, and refusals.
import { describe, expect, it } from 'vitest';
import { checkGbnf } from '../../../src/executors/llama-cpp/sampling/gbnf.js';
import { jsonObjectGrammar, schemaGrammar } from '../../../src/executors/llama-cpp/sampling/json-grammar.js';
import { GbnfTexts } from './schema/gbnf-texts.js';

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
    [
      { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } },
      'schema.properties.a.uniqueItems must be false, or of',
    ],
    [
      { type: 'text' },
      'schema.type must be object, array, string, number, integer, boolean, null, got "text"',
    ],
    [{ type: [] }, 'schema.type must be a type, or a list of some, got []'],
    [{ $ref: '#/$defs/none' }, 'schema.$ref must be a reference to what the schema has'],
    [{ $ref: 'https://example.com' }, 'schema.$ref must be a reference into the schema: #/$defs/NAME'],
    [{ anyOf: [] }, 'schema.anyOf must be a list of at least one'],
    [{ anyOf: [false] }, 'schema.anyOf must be a list with a schema that allows something'],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, 'schema.type must be of some common type'],
    [{ const: 1, type: 'string' }, 'schema.const must be a value that type allows'],
    [{ enum: ['a', 'b'], maxLength: 0 }, 'schema.enum must be a value that maxLength allows'],
    [
      { enum: ['a'], multipleOf: -1, uniqueItems: 3, foo: 1 },
      'schema.foo must be absent: it is not supported for',
    ],
    [
      { enum: [{ a: 1 }], required: ['a'] },
      'schema.required must be absent beside the objects and arrays of enum',
    ],
    [
      { type: 'string', minLength: 3, maxLength: 2 },
      'schema.minLength must be at most maxLength, which is 2, got 3',
    ],
    [{ type: 'string', maxLength: -1 }, 'schema.maxLength must be an integer of at least 0, got -1'],
    [
      { type: 'array', minItems: 5, maxItems: 2 },
      'schema.minItems must be at most maxItems, which is 2, got 5',
    ],
    [
      { type: 'array', prefixItems: [{}], items: false, minItems: 2 },
      'schema.minItems must be at most 1, which there may be, got 2',
    ],
    [{ prefixItems: [{}], additionalItems: false }, 'schema.prefixItems must be absent beside'],
    [{ minimum: 3, maximum: 2 }, 'schema.minimum must be a bound that some number keeps'],
    [{ minimum: '3' }, 'schema.minimum must be a number, got "3"'],
    [{ multipleOf: 0 }, 'schema.multipleOf must be above 0'],
    [{ type: 'integer', format: 'email' }, 'schema.format must be absent, int32, int64, float or double'],
    [{ format: 'something' }, 'schema.format must be absent, beside a pattern, or one of date, '],
    [{ format: 3 }, 'schema.format must be absent'],
    [{ contentEncoding: 'binary' }, 'schema.contentEncoding must be absent, or base64 or base64url'],
    [
      { pattern: '(' },
      'schema.pattern must be a pattern that a grammar can hold a text to, got "(" with what is no regular',
    ],
    [{ pattern: 'a(?!a*)' }, 'schema.pattern must be one that some text has'],
    [{ pattern: ['a'] }, 'schema.pattern must be a regular expression'],
    [
      { type: 'object', required: ['a'], additionalProperties: false },
      'schema.required must be of names that the schema allows, got "a"',
    ],
    [{ required: 'a' }, 'schema.required must be a list, got "a"'],
    [
      { propertyNames: { maxLength: 1 }, required: ['ab'], additionalProperties: true },
      'schema.required must be of names that the schema allows, got "ab"',
    ],
    [{ propertyNames: { type: 'number' } }, 'schema.propertyNames.type must be string'],
    [
      { minProperties: 2 },
      'schema.minProperties must be at most 1: a grammar cannot count names that differ, got 2',
    ],
    [
      { properties: { a: {} }, maxProperties: 0 },
      'schema.maxProperties must be absent where properties are optional',
    ],
    [{ if: {} }, 'schema.if must be absent: it is not supported for any value'],
    [
      { type: 'object', dependentRequired: {} },
      'schema.dependentRequired must be absent: it is not supported for object',
    ],
    [{ type: 'string', not: { const: 'a' } }, 'schema.not must be absent: it is not supported for string'],
    [{ contains: {} }, 'schema.contains must be absent'],
    [JSON.parse('{"type":"object","__proto__":{"a":1}}'), 'schema.__proto__ must be absent'],
    [
      { allOf: [{ $ref: '#/allOf/0' }, { type: 'string' }] },
      '$ref must be a reference that does not lead to itself',
    ],
    [{ $ref: '#' }, 'schema.$ref must be a reference that does not lead to itself'],
    [
      { properties: { a: { $ref: '#' } }, required: ['a'] },
      'schema.$ref must be a reference to a schema that does not always contain itself, got "#"',
    ],
    [
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { items: { $ref: '#/$defs/b' }, minItems: 1 },
          b: { items: { $ref: '#/$defs/a' }, minItems: 1 },
        },
      },
      'to a schema that does not always contain itself',
    ],
    [{ title: 'notes', not: {} }, 'schema must be a schema that allows something'],
    [false, 'schema must be a schema that allows something, got false'],
    ['text', 'schema must be a schema that allows something, got "text"'],
  ])('refuses what it would not heed: %j', (schema, message) => {
    expect(() => schemaGrammar(schema)).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringContaining(message) }),
    );
  });

  it.each<[unknown, readonly unknown[], readonly unknown[]]>([
    [{ const: 'a', type: 'string' }, ['a'], ['b']],
    [{ const: null, type: ['string', 'null'] }, [null], ['a']],
    [
      { enum: ['a', 'bb', 3, 4.5, null], type: ['string', 'integer'], maxLength: 1 },
      ['a', 3],
      ['bb', 4.5, null],
    ],
    [{ enum: [1, 2, 3], const: 2 }, [2], [1, 3]],
    [{ enum: ['ab', 'c'], pattern: '^a' }, ['ab'], ['c']],
    [{ type: 'string', nullable: true }, ['a', null], [1]],
    [{ type: ['number', 'integer'] }, [1.5], ['a']],
    [{ minimum: 1, exclusiveMinimum: true }, [1.5], [1]],
    [{ format: 'int32', type: 'integer' }, [2 ** 31 - 1], [2 ** 31]],
    [{ format: 'date' }, ['2026-11-27'], ['2026-11-31', 1]],
    [{ type: 'string', contentEncoding: 'base64' }, ['YWI='], ['a']],
    [{ $ref: '#/$defs/a~1b%20c', $defs: { 'a/b c': { type: 'null' } } }, [null], [1]],
    [{ $ref: '#/$defs/a', minLength: 2, $defs: { a: { type: 'string' } } }, ['ab'], ['a']],
    [{ type: 'object', required: ['a'] }, [{ a: 1 }, { a: 1, b: 2 }], [{}, { b: 1 }]],
    [
      { properties: { a: { type: 'null' } }, additionalProperties: { type: 'integer' } },
      [{ a: null, ab: 1 }],
      [{ a: 1 }],
    ],
    [{ properties: { a: {}, b: {} }, minProperties: 1 }, [{ a: 1 }, { b: 2 }], [{}]],
    [
      { additionalProperties: { type: 'null' }, minProperties: 1, maxProperties: 2 },
      [{ a: null }],
      [{}, { a: null, b: null, c: null }],
    ],
    [
      { patternProperties: { '^a': { type: 'null' }, z$: { type: 'integer' } }, additionalProperties: false },
      [{ ab: null, bz: 1 }],
      [{ az: 1 }, { c: 1 }],
    ],
    [{ items: [{ type: 'null' }], additionalItems: { type: 'integer' } }, [[null, 1], [], [null]], [[1]]],
    [{ items: { enum: ['a', 'b', 'c'] }, uniqueItems: true }, [[], ['a', 'c'], ['b']], [['a', 'a']]],
    [
      { items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 2, maxItems: 2 },
      [['a', 'c']],
      [['a'], ['a', 'b', 'c']],
    ],
    [{ items: { type: 'string' }, uniqueItems: true, maxItems: 1 }, [['a']], [['a', 'b']]],
    [
      {
        allOf: [
          { properties: { a: {} }, required: ['a'] },
          { properties: { b: {} }, required: ['b'] },
        ],
      },
      [{ a: 1, b: 1 }],
      [{ a: 1 }],
    ],
    [
      { allOf: [{ properties: { a: {}, b: {} }, additionalProperties: false }, { properties: { c: {} } }] },
      [{ a: 1, b: 1 }],
      [{ c: 1 }],
    ],
    [
      {
        type: 'object',
        properties: { a: { type: 'null' } },
        anyOf: [{ required: ['a'] }, { properties: { b: { type: 'null' } } }],
      },
      [{ a: null }, { a: null, b: null }],
      [{ c: null }],
    ],
    [{ oneOf: [{ const: 1 }, { type: 'string' }] }, [1, 'a'], [2]],
    [{ anyOf: [{ minLength: 2 }, false] }, ['ab'], ['a']],
    [{ properties: { a: false, b: { type: 'null' } } }, [{ b: null }, {}], [{ a: 1 }]],
    [{ 'x-order': 1, title: 't', discriminator: {}, type: 'boolean' }, [true], [1]],
    [
      JSON.parse('{"properties":{"__proto__":{"type":"null"}},"required":["__proto__"]}'),
      [JSON.parse('{"__proto__":null}')],
      [{}],
    ],
  ])('holds texts to %j', (schema, good, bad) => {
    const text = schemaGrammar(schema);
    checkGbnf(text);
    const texts = new GbnfTexts(text);
    for (const value of good) expect([value, texts.allows(JSON.stringify(value))]).toEqual([value, true]);
    for (const value of bad) expect([value, texts.allows(JSON.stringify(value))]).toEqual([value, false]);
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
