import { isObject } from '../../../base/checks.js';
import { show } from '../../../base/errors.js';
import { refuse } from './refusal.js';

/** A schema that is an object. */
export type Keywords = Readonly<Record<string, unknown>>;

/**
 * Keywords that describe, and constrain nothing. `discriminator` names the schema that applies,
 * which the schemas also say themselves.
 */
const NOTES: ReadonlySet<string> = new Set([
  ...['title', 'description', 'default', 'example', 'examples', 'deprecated', 'readOnly', 'writeOnly'],
  ...['$schema', '$id', '$comment', '$defs', 'definitions', 'discriminator', 'strict'],
]);

/** Supported keywords, by their type. */
const HEEDED: Readonly<Record<string, readonly string[]>> = {
  object: [
    ...['properties', 'required', 'additionalProperties', 'propertyNames', 'patternProperties'],
    ...['minProperties', 'maxProperties'],
  ],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format', 'contentEncoding'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'format'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'format'],
  boolean: [],
  null: [],
};
export const TYPES = Object.keys(HEEDED);

/**
 * The keywords of a schema, without its notes.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a schema that is invalid or allows nothing
 */
export function keywordsOf(schema: unknown, at: string): Keywords {
  if (isNever(schema) || !isObject(schema)) throw refuse(at, show(schema), 'a schema that allows something');
  return Object.fromEntries(
    Object.entries(schema).filter(([name]) => !NOTES.has(name) && !name.startsWith('x-')),
  );
}

/** Whether a schema explicitly allows nothing. */
export function isNever(schema: unknown): boolean {
  if (schema === false) return true;
  if (!isObject(schema)) return false;
  const { not } = schema;
  return not === true || (isObject(not) && Object.keys(not).length === 0);
}

/**
 * The types of a schema without notes. Without `type`, the types follow from its keywords: other
 * values would be allowed too, but nobody means them.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an unknown type, and for a keyword that none of the types
 * supports
 */
export function typesOf(schema: Keywords, at: string): readonly string[] {
  const { type, nullable } = schema;
  const names = Object.keys(schema).filter((name) => name !== 'type' && name !== 'nullable');
  const implied = TYPES.filter(
    (each) => each !== 'integer' && names.some((name) => HEEDED[each].includes(name)),
  );
  // A format alone means a text.
  const meant = names.every((name) => name === 'format') && names.length > 0 ? ['string'] : implied;
  const types = type === undefined ? meant : Array.isArray(type) ? type : [type];
  if (type !== undefined && types.length === 0) throw refuse(`${at}.type`, '[]', 'a type, or a list of some');
  for (const each of types)
    if (!TYPES.includes(each as string)) throw refuse(`${at}.type`, show(each), TYPES.join(', '));
  if (nullable !== undefined && typeof nullable !== 'boolean')
    throw refuse(`${at}.nullable`, show(nullable), 'true or false');
  for (const name of names)
    if (!types.some((each) => HEEDED[each as string].includes(name)))
      throw refuse(
        `${at}.${name.slice(0, 100)}`,
        'there',
        `absent: it is not supported for ${types.join(', ') || 'any value'}`,
      );
  const all = nullable === true && !types.includes('null') ? [...types, 'null'] : types;
  return all.includes('number') ? all.filter((each) => each !== 'integer') : all;
}

/** Different values of one keyword from several schemas. All of them apply. */
export class Several {
  readonly values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    this.values = values;
  }

  static of(value: unknown): readonly unknown[] {
    return value === undefined ? [] : value instanceof Several ? value.values : [value];
  }
}

/** A list. @throws ERR_BLOCKSTEP_BAD_ARG */
export function list(value: unknown, at: string, least = 1): readonly unknown[] {
  if (!Array.isArray(value) || value.length < least)
    throw refuse(at, show(value), least === 0 ? 'a list' : 'a list of at least one');
  return value;
}

/** Reads a count; undefined: not given. @throws ERR_BLOCKSTEP_BAD_ARG */
function readCount(schema: Keywords, name: string, at: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
    throw refuse(`${at}.${name}`, show(value), 'an integer of at least 0');
  return value;
}

/**
 * The minimum and the maximum of a count; Infinity without a maximum.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function readCounts(
  schema: Keywords,
  of: 'Items' | 'Length' | 'Properties',
  at: string,
): { readonly min: number; readonly max: number } {
  const min = readCount(schema, `min${of}`, at) ?? 0;
  const said = readCount(schema, `max${of}`, at);
  // Generators write such a maximum for no bound, and no text is as long.
  const max = said === undefined || said >= 2 ** 31 - 1 ? Number.POSITIVE_INFINITY : said;
  if (max < min) throw refuse(`${at}.min${of}`, `${min}`, `at most max${of}, which is ${max}`);
  return { min, max };
}
