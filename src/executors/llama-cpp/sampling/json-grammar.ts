import { isObject, isRecord } from '../../../base/checks.js';
import { BlockstepError, show } from '../../../base/errors.js';

/** The rules that every grammar of JSON has. Between two tokens there is one space at most, so that a text cannot go on with nothing but space. */
const RULES: Readonly<Record<string, string>> = {
  space: '" "?',
  char: '[^"\\\\\\x7F\\x00-\\x1F] | [\\\\] (["\\\\/bfnrt] | "u" [0-9a-fA-F]{4})',
  string: '"\\"" char* "\\""',
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  number: 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
  boolean: '"true" | "false"',
  null: '"null"',
  value: 'object | array | string | number | boolean | null',
  pair: 'string space ":" space value',
  object: '"{" space (pair (space "," space pair)*)? space "}"',
  array: '"[" space (value (space "," space value)*)? space "]"',
};
const COMMA = 'space "," space';

/** Keywords that describe, and constrain nothing. */
const NOTES = new Set([
  ...['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$schema', '$id'],
  ...['$comment', '$defs', 'definitions', 'format', 'strict'],
]);
/** Keywords that are heeded, by the type that has them. */
const HEEDED: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength'],
  number: [],
  integer: [],
  boolean: [],
  null: [],
};
const TYPES = Object.keys(HEEDED);
/** Most items that a grammar counts; it has a rule for each. */
const MOST_COUNTED = 2000;
/** Schemas within schemas. */
const MOST_NESTING = 100;

/** GBNF for any object in JSON. */
export function jsonObjectGrammar(): string {
  return write({ ...RULES, root: 'object' });
}

/**
 * GBNF for JSON as a schema has it. Properties come in the order of the schema; beside them there are others only where `additionalProperties`
 * allows them in words. `format` is taken as a note.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a keyword that would constrain the text and is not heeded, and for a schema that is none
 */
export function schemaGrammar(schema: unknown): string {
  return new SchemaGrammar(schema).text();
}

function write(rules: Readonly<Record<string, string>>): string {
  return `${Object.entries(rules)
    .map(([name, rule]) => `${name} ::= ${rule}`)
    .join('\n')}\n`;
}

class SchemaGrammar {
  readonly #root: unknown;
  readonly #rules: Record<string, string> = { ...RULES };
  /** The rule of each definition that was referred to. */
  readonly #references = new Map<string, string>();
  #numRules = 0;
  #nesting = 0;

  constructor(schema: unknown) {
    this.#root = schema;
  }

  text(): string {
    this.#rules['root'] = this.#rule(this.#root, 'schema');
    return write(this.#rules);
  }

  /** Adds a rule. @returns its name */
  #add(rule: string): string {
    const name = `r${this.#numRules++}`;
    this.#rules[name] = rule;
    return name;
  }

  /** What a schema allows, as the right side of a rule. @param at where the schema stands, for messages */
  #rule(schema: unknown, at: string): string {
    if (this.#nesting >= MOST_NESTING)
      throw refuse(at.slice(0, 100), 'more', `a schema of at most ${MOST_NESTING} schemas within each other`);
    this.#nesting++;
    const rule = this.#ruleWithin(schema, at);
    this.#nesting--;
    return rule;
  }

  #ruleWithin(schema: unknown, at: string): string {
    if (schema === true) return 'value';
    if (!isObject(schema)) throw refuse(at, show(schema), 'a schema that allows something');
    const { $ref, const: only, enum: several, anyOf, oneOf, allOf, type } = schema;
    if ($ref !== undefined) return this.#refer(alone(schema, '$ref', at), at);
    if (only !== undefined) return literal(this.#constant(schema, at));
    if (several !== undefined) return this.#either(list(several, `${at}.enum`), literal);
    for (const [name, choices] of Object.entries({ anyOf, oneOf, allOf })) {
      if (choices === undefined) continue;
      const all = list(alone(schema, name, at), `${at}.${name}`);
      if (name === 'allOf' && all.length !== 1) throw refuse(`${at}.allOf`, `${all.length} schemas`, 'one');
      return this.#either(all, (each, i) => this.#add(this.#rule(each, `${at}.${name}[${i}]`)));
    }
    const types = type === undefined ? impliedTypes(schema) : Array.isArray(type) ? type : [type];
    for (const each of types)
      if (!TYPES.includes(each as string)) throw refuse(`${at}.type`, show(each), TYPES.join(', '));
    const heeded = new Set(['type', ...types.flatMap((each) => HEEDED[each as string])]);
    for (const name of Object.keys(schema))
      if (!NOTES.has(name) && !heeded.has(name))
        throw refuse(
          `${at}.${name}`,
          'there',
          `absent: it is not heeded for ${types.join(', ') || 'any value'}`,
        );
    if (types.length === 0) return 'value';
    return this.#either(types, (each) => this.#typed(each as string, schema, at));
  }

  /** A constant, beside which its own type may be said, as Pydantic and Zod do. */
  #constant({ type, ...schema }: Record<string, unknown>, at: string): unknown {
    const value = alone(schema, 'const', at);
    const isInteger = Number.isInteger(value);
    const own = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
    for (const each of type === undefined ? [] : Array.isArray(type) ? type : [type])
      if (each === own || (each === 'integer' && isInteger)) return value;
    if (type === undefined) return value;
    throw refuse(`${at}.type`, show(type), `the type of its constant, ${show(value)}`);
  }

  #typed(type: string, schema: Record<string, unknown>, at: string): string {
    if (type === 'object') return this.#object(schema, at);
    if (type === 'array') return this.#array(schema, at);
    if (type !== 'string') return type;
    const { minLength = 0, maxLength } = schema;
    if (minLength === 0 && maxLength === undefined) return 'string';
    return `"\\"" char${times(minLength, maxLength, `${at}.minLength`)} "\\""`;
  }

  #object(schema: Record<string, unknown>, at: string): string {
    const { properties = {}, required = [], additionalProperties } = schema;
    if (!isObject(properties)) throw refuse(`${at}.properties`, show(properties), 'an object');
    const needed = new Set(list(required, `${at}.required`, 0));
    const names = Object.keys(properties);
    for (const name of needed)
      if (!names.includes(name as string)) throw refuse(`${at}.required`, show(name), 'names of properties');
    const others = additionalProperties ?? names.length === 0;
    let pair = '';
    if (others === true) pair = 'pair';
    else if (others !== false) {
      const value = this.#rule(others, `${at}.additionalProperties`);
      pair = this.#add(`string space ":" space (${value})`);
    }
    const pairs = names.map((name) => {
      const value = this.#rule(properties[name], `${at}.properties.${name}`);
      return this.#add(`${literal(name)} space ":" space (${value})`);
    });
    // From the last property to the first: what may follow if something stands in front, and if nothing does.
    let behind = pair === '' ? '""' : `(${COMMA} ${pair})*`;
    let first = pair === '' ? '""' : `(${pair} (${COMMA} ${pair})*)?`;
    for (let i = names.length - 1; i >= 0; i--) {
      const isNeeded = needed.has(names[i]);
      const rest = this.#add(behind);
      first = isNeeded ? `${pairs[i]} ${rest}` : `${pairs[i]} ${rest} | ${this.#add(first)}`;
      behind = isNeeded ? `${COMMA} ${pairs[i]} ${rest}` : `(${COMMA} ${pairs[i]})? ${rest}`;
    }
    return `"{" space (${first}) space "}"`;
  }

  #array(schema: Record<string, unknown>, at: string): string {
    const { items = true, prefixItems, minItems = 0, maxItems } = schema;
    if (prefixItems !== undefined) {
      const fixed = list(prefixItems, `${at}.prefixItems`).map((each, i) =>
        this.#add(this.#rule(each, `${at}.prefixItems[${i}]`)),
      );
      for (const name of ['minItems', 'maxItems'])
        if (schema[name] !== undefined && schema[name] !== fixed.length)
          throw refuse(`${at}.${name}`, show(schema[name]), `${fixed.length}, as prefixItems has`);
      if (schema['items'] !== undefined && items !== false)
        throw refuse(`${at}.items`, show(items), 'false beside prefixItems');
      return `"[" space ${fixed.join(` ${COMMA} `)} space "]"`;
    }
    if (maxItems === 0) return '"[" space "]"';
    const item = this.#add(this.#rule(items, `${at}.items`));
    const rest = maxItems === undefined ? undefined : Number(maxItems) - 1;
    const counted = times(Math.max(0, Number(minItems) - 1), rest, `${at}.minItems`);
    const some = `${item} (${COMMA} ${item})${counted}`;
    return `"[" space ${minItems === 0 ? `(${some})?` : some} space "]"`;
  }

  #refer(reference: unknown, at: string): string {
    const path = typeof reference === 'string' ? reference : '';
    const known = this.#references.get(path);
    if (known !== undefined) return known;
    if (!path.startsWith('#'))
      throw refuse(`${at}.$ref`, show(reference), 'a reference into the schema: #/$defs/NAME');
    let target: unknown = this.#root;
    for (const part of path.split('/').slice(1)) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      target = isRecord(target) && Object.hasOwn(target, name) ? target[name] : undefined;
    }
    if (target === undefined)
      throw refuse(`${at}.$ref`, show(reference), 'a reference to what the schema has');
    const name = this.#add('');
    // Before its rule is made: a definition may refer to itself.
    this.#references.set(path, name);
    this.#rules[name] = this.#rule(target, path);
    return name;
  }

  #either<T>(choices: readonly T[], ruleOf: (choice: T, i: number) => string): string {
    return choices.map((choice, i) => ruleOf(choice, i)).join(' | ');
  }
}

/** The types that a schema without one means. */
function impliedTypes(schema: Record<string, unknown>): string[] {
  return TYPES.filter((type) => HEEDED[type].some((name) => schema[name] !== undefined));
}

/** The value of a keyword beside which nothing else may constrain. */
function alone(schema: Record<string, unknown>, name: string, at: string): unknown {
  for (const other of Object.keys(schema))
    if (other !== name && !NOTES.has(other)) throw refuse(`${at}.${other}`, 'there', `absent beside ${name}`);
  return schema[name];
}

function list(value: unknown, at: string, least = 1): unknown[] {
  if (!Array.isArray(value) || value.length < least) throw refuse(at, show(value), 'a list');
  return value;
}

/** How often something may stand, in GBNF. */
function times(min: unknown, max: unknown, at: string): string {
  const isCounted = (count: unknown): boolean =>
    Number.isInteger(count) && (count as number) >= 0 && (count as number) <= MOST_COUNTED;
  if (!isCounted(min) || (max !== undefined && (!isCounted(max) || Number(max) < Number(min))))
    throw refuse(at, `${show(min)} to ${show(max)}`, `counts up to ${MOST_COUNTED}, the lower one first`);
  return min === 0 && max === undefined ? '*' : `{${min},${max ?? ''}}`;
}

/** A value as it stands in JSON, as a literal of GBNF. */
function literal(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return `"${text.replace(/[\\"]/g, (letter) => `\\${letter}`)}"`;
}

function refuse(at: string, got: string, expected: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${at} must be ${expected}, got ${got}`);
}
