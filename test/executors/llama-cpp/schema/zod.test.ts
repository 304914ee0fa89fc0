// Common schemas of Zod 4, by two versions of JSON Schema.
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { checkGbnf } from '../../../../src/executors/llama-cpp/sampling/gbnf.js';
import { schemaGrammar } from '../../../../src/executors/llama-cpp/sampling/json-grammar.js';
import { drawn, GbnfTexts } from './gbnf-texts.js';

interface Form {
  readonly schema: z.ZodType;
  /** Values that the grammar must allow. */
  readonly good: readonly unknown[];
  /** Values that it must not allow. */
  readonly bad: readonly unknown[];
}
const form = (schema: z.ZodType, good: readonly unknown[], bad: readonly unknown[]): Form => ({
  schema,
  good,
  bad,
});

const Tree = z.object({
  value: z.int(),
  get children() {
    return z.array(Tree);
  },
});

/** Schemas that people write with Zod. */
const FORMS: Record<string, Form> = {
  'z.int()': form(z.int(), [0, -7, 123456789012345], [1.5, '1']),
  'z.int32()': form(z.int32(), [2147483647, -2147483648, 0], [2147483648, -2147483649]),
  '.min and .max of integers': form(z.int().min(3).max(250), [3, 99, 250], [2, 251, -3]),
  '.min and .max below 0': form(z.int().min(-20).max(-3), [-20, -3, -10], [-21, -2, 3, 0]),
  '.min and .max of numbers': form(z.number().min(-0.5).max(2), [-0.5, 0, 1.25, 2], [-0.51, 2.1, 3]),
  '.gt and .lt': form(z.number().gt(0.1).lt(99.5), [0.11, 99.49, 5], [0.1, 99.5, -3]),
  '.positive()': form(z.number().positive(), [0.001, 1, 81_000_000_000], [0, -1]),
  '.nonnegative()': form(z.int().nonnegative().max(10), [0, 10], [-1, 11]),
  '.negative()': form(z.number().negative(), [-0.5, -3], [0, 1]),
  '.multipleOf of integers': form(z.int().multipleOf(7), [0, 7, -14, 70], [1, 6, 71]),
  '.multipleOf of numbers': form(z.number().multipleOf(0.25).min(1), [1, 1.25, 7.5], [1.3, 0.25]),
  'z.float32()': form(z.float32(), [1.5, -3], ['x']),
  'z.email()': form(z.email(), ['a.b@example.com'], ['a', 'a@b', '@example.com', 'a@b.c']),
  'z.uuid()': form(z.uuid(), ['550e8400-e29b-41d4-a716-446655440000'], ['550e8400', '']),
  'z.guid()': form(z.guid(), ['550e8400-e29b-f1d4-0716-446655440000'], ['x']),
  'z.url()': form(
    z.url(),
    ['https://example.com/a?b=c%20d#e', 'http://localhost:8000'],
    ['example', 'http://'],
  ),
  'z.iso.date()': form(z.iso.date(), ['2024-02-29', '2026-11-27'], ['2023-02-29', '2026-13-01']),
  'z.iso.time()': form(z.iso.time(), ['23:59:59.5'], ['24:00:00']),
  'z.iso.datetime()': form(z.iso.datetime(), ['2026-11-27T18:00:00Z'], ['2026-11-27', '2026-11-27T18:00:00']),
  'z.iso.datetime({ offset })': form(z.iso.datetime({ offset: true }), ['2026-11-27T18:00:00+02:00'], ['x']),
  'z.iso.duration()': form(z.iso.duration(), ['P1DT2H', 'P3W'], ['P', 'PT', 'P1WT1H']),
  'z.ipv4()': form(z.ipv4(), ['192.168.0.1'], ['256.1.1.1', '1.2.3']),
  'z.ipv6()': form(z.ipv6(), ['2001:db8::1', '::'], ['1:2', ':::']),
  'z.cidrv4()': form(z.cidrv4(), ['10.0.0.0/8'], ['10.0.0.0/33']),
  'z.base64()': form(z.base64(), ['YWI=', ''], ['a']),
  'z.e164()': form(z.e164(), ['+491711234567'], ['0171']),
  'z.nanoid()': form(z.nanoid(), ['V1StGXR8_Z5jdHi6B-myT'], ['x']),
  'z.ulid()': form(z.ulid(), ['01ARZ3NDEKTSV4RRFFQ69G5FAV'], ['x']),
  '.regex()': form(z.string().regex(/^[a-z]{2,5}-\d+$/), ['ab-1', 'abcde-99'], ['a-1', 'ab-', 'ab-1x']),
  '.regex() that is not anchored': form(
    z.string().regex(/foo|\d{3}/),
    ['a foo b', '123', '"foo"\n'],
    ['fo', '12'],
  ),
  '.regex() with escapes': form(z.string().regex(/^["\\\n]+$/), ['"', '\\\n"'], ['a', '']),
  '.regex() with .min and .max': form(
    z
      .string()
      .regex(/^[a-c]*$/)
      .min(2)
      .max(4),
    ['ab', 'abca'],
    ['a', 'abcab', 'ax'],
  ),
  '.startsWith().endsWith().includes()': form(
    z.string().startsWith('ab').endsWith('c').includes('x'),
    ['abxc', 'ab x .c'],
    ['abc', 'xabc'],
  ),
  '.min and .max of strings': form(z.string().min(2).max(3), ['ab', 'a"c'], ['a', 'abcd']),
  '.length()': form(z.string().length(2), ['ab'], ['a', 'abc']),
  'z.templateLiteral': form(z.templateLiteral(['a-', z.int(), z.enum(['x', 'y'])]), ['a-12x'], ['a-z']),
  'z.record': form(z.record(z.string(), z.number()), [{}, { a: 1, b: 2.5 }], [{ a: 'x' }, []]),
  'z.record of an enum': form(
    z.record(z.enum(['a', 'b']), z.int()),
    [{ a: 1, b: 2 }],
    [{ a: 1 }, { a: 1, b: 2, c: 3 }],
  ),
  'z.partialRecord': form(z.partialRecord(z.enum(['a', 'b']), z.int()), [{}, { b: 2 }], [{ c: 3 }]),
  'z.record with a pattern': form(z.record(z.string().regex(/^x\d$/), z.int()), [{ x1: 1 }, {}], [{ y: 1 }]),
  'z.record of numbers': form(z.record(z.number(), z.string()), [{ '12': 'a' }], [{ a: 'a' }]),
  'z.record of uuids': form(z.record(z.uuid(), z.int()), [{}], [{ a: 1 }]),
  'z.tuple': form(z.tuple([z.string(), z.int()]), [['a', 1]], [['a'], ['a', 1, 2], [1, 'a']]),
  'z.tuple with .rest()': form(z.tuple([z.string()]).rest(z.int()), [['a'], ['a', 1, 2]], [[], ['a', 'b']]),
  'z.tuple with an optional end': form(
    z.tuple([z.string(), z.int().optional()]),
    [['a'], ['a', 1]],
    [[], ['a', 'b']],
  ),
  'z.array': form(z.array(z.string()).min(1).max(3), [['a'], ['a', 'b', 'c']], [[], ['a', 'b', 'c', 'd']]),
  'z.object': form(
    z.object({ a: z.string().optional(), b: z.string().nullable(), c: z.boolean() }),
    [
      { b: null, c: true },
      { a: 'x', b: 'y', c: false },
    ],
    [{ a: 'x' }, { b: 'x', c: true, d: 1 }],
  ),
  'z.looseObject': form(z.looseObject({ a: z.string() }), [{ a: 'x' }, { a: 'x', b: [1] }], [{ b: 1 }]),
  '.catchall()': form(
    z.object({ a: z.string() }).catchall(z.int()),
    [{ a: 'x', b: 1 }],
    [{ a: 'x', b: 'y' }],
  ),
  '.never()': form(z.object({ a: z.never().optional(), b: z.int() }), [{ b: 1 }], [{ a: 1, b: 1 }]),
  'z.union': form(z.union([z.string(), z.int()]), ['a', 1], [null, true]),
  'z.discriminatedUnion': form(
    z.discriminatedUnion('k', [z.object({ k: z.literal('a'), x: z.int() }), z.object({ k: z.literal('b') })]),
    [{ k: 'a', x: 1 }, { k: 'b' }],
    [{ k: 'a' }, { k: 'c' }],
  ),
  'z.intersection': form(
    z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
    [{ a: 'x', b: 1 }],
    [{ a: 'x' }],
  ),
  'z.literal of several': form(z.literal(['a', 1, null]), ['a', 1, null], ['b', 2]),
  'z.enum of numbers': form(z.enum({ A: 1, B: 2 }), [1, 2], [3]),
  'z.json()': form(z.json(), [null, [1, { a: 'b' }]], []),
  'a tree': form(Tree, [{ value: 1, children: [{ value: 2, children: [] }] }], [{ value: 1 }]),
  '.meta({ id })': form(z.object({ a: z.int().meta({ id: 'count' }) }), [{ a: 1 }], [{ a: 'x' }]),
};

const TARGETS = ['draft-2020-12', 'draft-7'] as const;

describe.each(TARGETS)('schemas of Zod 4, by %s', (target) => {
  it.each(Object.entries(FORMS))('%s', (_, { schema, good, bad }) => {
    const text = schemaGrammar(z.toJSONSchema(schema, { target }));
    checkGbnf(text);
    const texts = new GbnfTexts(text);
    for (const value of good) {
      expect(schema.safeParse(value).success).toBe(true);
      expect([value, texts.allows(JSON.stringify(value))]).toEqual([value, true]);
    }
    for (const value of bad) expect([value, texts.allows(JSON.stringify(value))]).toEqual([value, false]);
    for (let seed = 0; seed < 25; seed++) {
      const made = texts.draw(drawn(seed));
      expect(texts.allows(made), made).toBe(true);
      const { success, error } = schema.safeParse(JSON.parse(made));
      expect([made, success, error?.message]).toEqual([made, true, undefined]);
    }
  });
});

describe('schemas of Zod 4 that no grammar can hold', () => {
  it.each([
    ['z.emoji()', z.emoji(), 'schema.pattern must be a pattern that a grammar can hold a text to'],
    ['z.hostname()', z.hostname(), 'schema.pattern must be one that a machine of 1500 states can read'],
    ['z.jwt()', z.jwt(), 'schema.format must be absent, beside a pattern, or one of'],
  ])('%s', (_, schema, message) => {
    expect(() => schemaGrammar(z.toJSONSchema(schema))).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringContaining(message) }),
    );
  });
});
