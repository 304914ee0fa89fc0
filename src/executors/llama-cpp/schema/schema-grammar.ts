import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../../../base/checks.js';
import { show } from '../../../base/errors.js';
import { arrayRule } from './arrays.js';
import { conjunction } from './conjunction.js';
import { isNever, type Keywords, keywordsOf, list, TYPES, typesOf } from './keywords.js';
import { literal, objectRule, type ValueRules } from './objects.js';
import { refuse } from './refusal.js';
import { fitting as fittingFor, numberRule, textRule } from './scalars.js';
import { GrammarRules } from './values.js';

/** Most nested schemas. */
const MOST_NESTING = 100;

/** The grammar of a schema, under construction. */
export class SchemaGrammar implements ValueRules {
  readonly rules = new GrammarRules();
  readonly #root: unknown;
  /** The rule of each referenced definition. */
  readonly #references = new Map<string, string>();
  #nesting = 0;

  constructor(schema: unknown) {
    this.#root = schema;
  }

  /** The grammar, in GBNF. */
  text(): string {
    return this.rules.text(this.value(this.#root, 'schema'));
  }

  /** The references that have rules, by the names of these rules. */
  get references(): ReadonlyMap<string, string> {
    return new Map([...this.#references].map(([reference, name]) => [name, reference]));
  }

  value(schema: unknown, at: string): string {
    if (this.#nesting >= MOST_NESTING)
      throw refuse(at, 'more', `a schema of at most ${MOST_NESTING} schemas within each other`);
    this.rules.budget.at = at;
    this.rules.budget.work(1);
    this.#nesting++;
    const rule = this.#within(schema, at);
    this.#nesting--;
    return rule;
  }

  #within(schema: unknown, at: string): string {
    if (schema === true) return 'value';
    const said = keywordsOf(schema, at);
    const names = Object.keys(said);
    // A definition has a rule of its own, so that it may refer to itself.
    if (names.length === 1 && names[0] === '$ref') return this.#refer(said['$ref'], at);
    if (
      names.length === 1 &&
      names[0] === 'allOf' &&
      Array.isArray(said['allOf']) &&
      said['allOf'].length === 1
    )
      return this.value(said['allOf'][0], `${at}.allOf[0]`);
    const whole = this.resolve(said, at);
    for (const name of ['anyOf', 'oneOf']) {
      const { [name]: choices, ...rest } = whole;
      if (choices !== undefined) return this.#choices(list(choices, `${at}.${name}`), rest, `${at}.${name}`);
    }
    if ('enum' in whole || 'const' in whole) return this.#enumerated(whole, at);
    const types = typesOf(whole, at);
    if (types.length === 0) return 'value';
    return this.#either(types.map((type) => this.#typed(type, whole, at)));
  }

  resolve(schema: unknown, at: string): Keywords {
    const parts: Keywords[] = [];
    this.#collect(schema, at, [], parts);
    return parts.length === 1 ? parts[0] : conjunction(parts, at, this.rules.budget);
  }

  /** Collects the keywords that apply to a value, through references and joined schemas. */
  #collect(schema: unknown, at: string, open: readonly string[], parts: Keywords[]): void {
    this.rules.budget.at = at;
    this.rules.budget.work(5);
    if (schema === true) return;
    const { $ref, allOf, ...rest } = keywordsOf(schema, at);
    parts.push(rest);
    if ($ref !== undefined) {
      const { path, target } = this.#target($ref, at);
      if (open.includes(path) || open.length >= MOST_NESTING)
        throw refuse(`${at}.$ref`, show($ref), 'a reference that does not lead to itself');
      this.#collect(target, path, [...open, path], parts);
    }
    if (allOf === undefined) return;
    const all = list(allOf, `${at}.allOf`);
    if (open.length >= MOST_NESTING)
      throw refuse(`${at}.allOf`, 'more', `at most ${MOST_NESTING} schemas within each other`);
    for (const [i, each] of all.entries()) this.#collect(each, `${at}.allOf[${i}]`, [...open, ''], parts);
  }

  #choices(choices: readonly unknown[], rest: Keywords, at: string): string {
    const isAlone = Object.keys(rest).length === 0;
    const rules: string[] = [];
    choices.forEach((choice, i) => {
      if (isNever(choice)) return;
      const place = `${at}[${i}]`;
      rules.push(this.value(isAlone ? choice : { allOf: [rest, choice] }, place));
    });
    if (rules.length === 0) throw refuse(at, show(choices), 'a list with a schema that allows something');
    return this.#either(rules);
  }

  /** The rule of listed values. Only values that the other keywords allow count. */
  #enumerated(schema: Keywords, at: string): string {
    const { const: only, enum: several, ...rest } = schema;
    const name = several === undefined ? 'const' : 'enum';
    let values = several === undefined ? [only] : list(several, `${at}.enum`);
    if (several !== undefined && 'const' in schema)
      values = values.filter((each) => isDeepStrictEqual(each, only));
    const types = rest['type'] === undefined && rest['nullable'] === undefined ? TYPES : typesOf(rest, at);
    const others = Object.keys(rest).filter((each) => each !== 'type' && each !== 'nullable');
    if (others.length > 0) typesOf({ ...rest, type: types }, at);
    const fits = fittingFor(this.rules, rest, at);
    const fitting = values.filter((value) => {
      const type = typeOf(value);
      if (!types.includes(type) && !(type === 'integer' && types.includes('number'))) return false;
      if ((type === 'object' || type === 'array') && others.length > 0)
        throw refuse(`${at}.${others[0]}`, 'there', `absent beside the objects and arrays of ${name}`);
      this.rules.budget.work(1);
      return fits(value);
    });
    if (fitting.length === 0)
      throw refuse(
        `${at}.${name}`,
        show(values),
        `a value that ${Object.keys(rest).join(' and ') || 'it'} allows`,
      );
    return this.#either(fitting.map((value) => literal(value)));
  }

  #typed(type: string, schema: Keywords, at: string): string {
    switch (type) {
      case 'object':
        return objectRule(this, schema, at);
      case 'array':
        return arrayRule(this, schema, at);
      case 'string':
        return textRule(this.rules, schema, at);
      case 'number':
      case 'integer':
        return numberRule(this.rules, schema, type === 'integer', at);
      default:
        return type;
    }
  }

  #refer(reference: unknown, at: string): string {
    const { path, target } = this.#target(reference, at);
    const known = this.#references.get(path);
    if (known !== undefined) return known;
    const name = this.rules.name();
    // The name is registered before its rule exists, because a definition may refer to itself.
    this.#references.set(path, name);
    const rule = this.value(target, path);
    if (rule === name)
      throw refuse(`${at}.$ref`, show(reference), 'a reference that does not lead to itself');
    this.rules.set(name, rule);
    return name;
  }

  #target(reference: unknown, at: string): { readonly path: string; readonly target: unknown } {
    const path = typeof reference === 'string' ? reference : '';
    if (path !== '#' && !path.startsWith('#/'))
      throw refuse(`${at}.$ref`, show(reference), 'a reference into the schema: #/$defs/NAME');
    let target: unknown = this.#root;
    for (const part of path.split('/').slice(1)) {
      const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
      target = isRecord(target) && Object.hasOwn(target, name) ? target[name] : undefined;
    }
    if (target === undefined)
      throw refuse(`${at}.$ref`, show(reference), 'a reference to what the schema has');
    return { path, target };
  }

  #either(rules: readonly string[]): string {
    const all = [...new Set(rules)];
    return all.length === 1 && !all[0].startsWith('"') ? all[0] : this.rules.add(all.join(' | '));
  }
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
