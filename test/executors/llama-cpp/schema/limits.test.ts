// Schemas that would take too much are refused, with the keyword and the limit.
import { describe, expect, it } from 'vitest';
import { checkGbnf } from '../../../../src/executors/llama-cpp/sampling/gbnf.js';
import { schemaGrammar } from '../../../../src/executors/llama-cpp/sampling/json-grammar.js';
import { GbnfTexts } from './gbnf-texts.js';

const many = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));
/** Definitions, each of which asks for the next one twice. */
const doubled = (of: (next: { $ref: string }, i: number) => object): object => ({
  $defs: Object.fromEntries([
    ...many(40, (i) => [`d${i}`, of({ $ref: `#/$defs/d${i + 1}` }, i)]),
    ['d40', { type: 'array' }],
  ]),
  $ref: '#/$defs/d0',
});
const nested = (depth: number): object => {
  let schema: object = { type: 'string' };
  for (let i = 0; i < depth; i++) schema = { type: 'array', items: schema };
  return schema;
};

describe('a schema that would take too much', () => {
  it.each([
    ['nested', nested(5000), /schema\.items.* must be a schema of at most 100 schemas within each other/],
    [
      'counts',
      { type: 'string', maxLength: 2_000_000 },
      /^schema\.maxLength must be at most 1000000, got 2000000$/,
    ],
    [
      'counts in all',
      { type: 'object', properties: Object.fromEntries(many(900, (i) => [`p${i}`, { maxLength: i + 100 }])) },
      /^schema\.properties\.p\d+\.maxLength must be less: all counts of a schema together are at most 50000/,
    ],
    [
      'values',
      { enum: many(20_000, (i) => `value ${i}`) },
      /^schema must be a grammar of at most 262144 characters/,
    ],
    [
      'states',
      { pattern: '^(a|b)*a(a|b){25}$' },
      /^schema\.pattern must be one that a machine of 1500 states can read/,
    ],
    [
      'work',
      { pattern: '\\d{1000}' },
      /^schema\.pattern must be less to convert: at most 100000 steps in all/,
    ],
    ['groups', { pattern: `^${'(a'.repeat(450)}${')?'.repeat(450)}$` }, null],
    [
      'alternatives',
      {
        allOf: [
          { anyOf: many(15, (i) => ({ minLength: i })) },
          { anyOf: many(15, (i) => ({ maxLength: i })) },
        ],
      },
      /^schema\.anyOf must be of at most 200 alternatives/,
    ],
    [
      'references that double',
      doubled((next) => ({ allOf: [next, next] })),
      /less to convert: at most 100000 steps/,
    ],
    [
      'choices that double',
      doubled((next, i) => ({
        type: 'array',
        items: {
          anyOf: [
            { minItems: i, allOf: [next] },
            { minItems: i + 1, allOf: [next] },
          ],
        },
      })),
      /must be less to convert: at most 100000 steps|a grammar of at most 262144/,
    ],
    [
      'a multiple',
      { multipleOf: 1001 },
      /^schema\.multipleOf must be above 0, and of digits that are at most 1000, got 1001$/,
    ],
  ])('is refused, with the keyword and the limit: %s', (_, schema, message) => {
    const make = () => schemaGrammar(schema);
    if (message === null) expect(make).not.toThrow();
    else
      expect(make).toThrow(
        expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringMatching(message) }),
      );
  });

  it.each([
    [
      'lists in lists',
      {
        type: 'array',
        maxItems: 2000,
        items: { type: 'array', maxItems: 2000, items: { type: 'string', maxLength: 2000 } },
      },
    ],
    ['long texts', { type: 'string', minLength: 1500, maxLength: 1_000_000 }],
    ['what generators write for no bound', { type: 'string', maxLength: 2 ** 31 - 1 }],
    ['2,000 properties', { properties: Object.fromEntries(many(2000, (i) => [`p${i}`, {}])) }],
  ])('is taken where llama.cpp can bear it: %s', (_, schema) => {
    expect(() => checkGbnf(schemaGrammar(schema))).not.toThrow();
  });

  it('counts in blocks, and exactly', () => {
    const ofLength = (length: number): string => JSON.stringify('x'.repeat(length));
    const texts = new GbnfTexts(schemaGrammar({ type: 'string', minLength: 1050, maxLength: 2100 }));
    for (const [length, isAllowed] of [
      [1049, false],
      [1050, true],
      [1999, true],
      [2049, true],
      [2050, true],
      [2100, true],
      [2101, false],
    ] as const)
      expect([length, texts.allows(ofLength(length))]).toEqual([length, isAllowed]);
  });
});
