import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../../base/checks.js';
import { show } from '../../../base/errors.js';
import { isNever, type Keywords, list, Several } from './keywords.js';
import { type Budget, refuse } from './refusal.js';

/** Most alternatives in the product of several lists of alternatives. */
const MOST_ALTERNATIVES = 200;

/** Merges schemas without notes into one schema of the values that all of them allow. */
export function conjunction(schemas: readonly Keywords[], at: string, budget: Budget): Keywords {
  let whole: Record<string, unknown> = Object.create(null);
  for (const schema of schemas) {
    budget.at = at;
    budget.work(Object.keys(schema).length + 1);
    whole = both(whole, schema, at);
  }
  return whole;
}

function both(a: Keywords, b: Keywords, at: string): Record<string, unknown> {
  const whole: Record<string, unknown> = Object.assign(Object.create(null), a);
  if (OBJECT.some((name) => a[name] !== undefined) && OBJECT.some((name) => b[name] !== undefined))
    Object.assign(whole, properties(a, b, at));
  for (const [name, value] of Object.entries(b)) {
    if (whole[name] === undefined) whole[name] = value;
    else if (value !== undefined && !OBJECT.includes(name) && !isDeepStrictEqual(a[name], value))
      whole[name] = joined(name, a[name], value, at);
  }
  return whole;
}

/** The keywords of objects that together determine the properties. */
const OBJECT = ['properties', 'additionalProperties', 'patternProperties'];

function joined(name: string, a: unknown, b: unknown, at: string): unknown {
  switch (name) {
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
    case 'multipleOf':
    case 'pattern':
    case 'format':
      return new Several([...Several.of(a), ...Several.of(b)]);
    case 'minLength':
    case 'minItems':
    case 'minProperties':
      return Math.max(a as number, b as number);
    case 'maxLength':
    case 'maxItems':
    case 'maxProperties':
      return Math.min(a as number, b as number);
    case 'required':
      return [...new Set([...list(a, `${at}.required`, 0), ...list(b, `${at}.required`, 0)])];
    case 'uniqueItems':
      return a === true || b === true;
    case 'nullable':
      return a === true && b === true;
    case 'items':
    case 'propertyNames':
      if (!Array.isArray(a) && !Array.isArray(b)) return { allOf: [a, b] };
      break;
    case 'type':
      return types(a, b, at);
    case 'const':
      throw refuse(`${at}.const`, `${show(a)} and ${show(b)}`, 'the same in all that is said of the value');
    case 'enum': {
      const common = list(a, `${at}.enum`).filter((each) =>
        list(b, `${at}.enum`).some((other) => isDeepStrictEqual(each, other)),
      );
      if (common.length === 0)
        throw refuse(`${at}.enum`, 'lists without a common value', 'of some common value');
      return common;
    }
    case 'anyOf':
    case 'oneOf':
      return product(list(a, `${at}.${name}`), list(b, `${at}.${name}`), `${at}.${name}`);
  }
  throw refuse(`${at}.${name}`, 'said twice', 'said once: the two cannot be joined');
}

function types(a: unknown, b: unknown, at: string): readonly unknown[] {
  const others = Array.isArray(b) ? b : [b];
  const common = (Array.isArray(a) ? a : [a]).flatMap((each) => {
    if (others.includes(each)) return [each];
    if (each === 'integer' && others.includes('number')) return [each];
    return each === 'number' && others.includes('integer') ? ['integer'] : [];
  });
  if (common.length === 0) throw refuse(`${at}.type`, `${show(a)} and ${show(b)}`, 'of some common type');
  return common;
}

function product(a: readonly unknown[], b: readonly unknown[], at: string): unknown[] {
  const count = a.length * b.length;
  if (count > MOST_ALTERNATIVES)
    throw refuse(at, `${count}`, `of at most ${MOST_ALTERNATIVES} alternatives, all of them with each other`);
  return a.flatMap((each) => b.map((other) => ({ allOf: [each, other] })));
}

/**
 * The properties of both schemas. A property that one schema does not name is an additional
 * property there.
 */
function properties(a: Keywords, b: Keywords, at: string): Record<string, unknown> {
  if (a['patternProperties'] !== undefined || b['patternProperties'] !== undefined)
    throw refuse(`${at}.patternProperties`, 'there', 'absent beside other properties of the same value');
  const of = (schema: Keywords) => {
    const { properties: named = {}, additionalProperties: others = true } = schema;
    if (!isObject(named)) throw refuse(`${at}.properties`, show(named), 'an object');
    return { named, others };
  };
  const [first, second] = [of(a), of(b)];
  const all = new Map<string, unknown>();
  for (const name of [...Object.keys(first.named), ...Object.keys(second.named)]) {
    const values = [first, second].map(({ named, others }) =>
      Object.hasOwn(named, name) ? named[name] : others,
    );
    all.set(name, allOf(values));
  }
  const others = allOf([first.others, second.others]);
  // Both schemas stay open if neither has the keyword.
  const isSaid = a['additionalProperties'] !== undefined || b['additionalProperties'] !== undefined;
  return { properties: Object.fromEntries(all), ...(isSaid && { additionalProperties: others }) };
}

function allOf(schemas: readonly unknown[]): unknown {
  if (schemas.some(isNever)) return false;
  const said = schemas.filter((each) => each !== true);
  return said.length === 0 ? true : said.length === 1 ? said[0] : { allOf: said };
}
