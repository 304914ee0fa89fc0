// The rules of objects.
import { isObject } from '../../../base/checks.js';
import { show } from '../../../base/errors.js';
import { TooManyStates } from '../language/automaton.js';
import type { Language } from '../language/language.js';
import { isNever, type Keywords, list, readCounts } from './keywords.js';
import { refuse } from './refusal.js';
import { quoted, textForm } from './scalars.js';
import { COMMA, type GrammarRules } from './values.js';

/** Makes the rules of nested values. */
export interface ValueRules {
  readonly rules: GrammarRules;
  /** The name of the rule of a schema. */
  value(schema: unknown, at: string): string;
  /** Resolves the references of a schema into one object. */
  resolve(schema: unknown, at: string): Keywords;
}

/** A value in JSON, as a literal of GBNF. */
export function literal(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return `"${text.replace(/[\\"]/g, (letter) => `\\${letter}`)}"`;
}

/**
 * The rule of objects. Properties come in the order of the schema. Other properties are allowed
 * only if the schema says so explicitly, or names none.
 */
export function objectRule(values: ValueRules, schema: Keywords, at: string): string {
  const { rules } = values;
  const members = readMembers(values, schema, at);
  const pairs = [...members.named].map(([name, { schema: value, at: place }]) =>
    rules.add(`${literal(name)} space ":" space ${values.value(value, place)}`),
  );
  const other = otherPair(values, members, schema, at);
  const { min, max } = readCounts(schema, 'Properties', at);
  const isNeeded = [...members.named.values()].map(({ isRequired }) => isRequired);
  const numNeeded = isNeeded.filter(Boolean).length;
  const most = other === null ? pairs.length : Number.POSITIVE_INFINITY;
  if (max < numNeeded)
    throw refuse(`${at}.maxProperties`, `${max}`, `at least ${numNeeded}, which are required`);
  if (min > most) throw refuse(`${at}.minProperties`, `${min}`, `at most ${most}, which there are`);
  // An additional property may come twice and count once, so at most one can be required.
  if (min > Math.max(1, numNeeded) && min < most)
    throw refuse(
      `${at}.minProperties`,
      `${min}`,
      `at most ${Math.max(1, numNeeded)}: a grammar cannot count names that differ`,
    );
  if (max < most && pairs.length > numNeeded)
    throw refuse(
      `${at}.maxProperties`,
      `${max}`,
      'absent where properties are optional: a grammar cannot count them',
    );
  if (min === most) isNeeded.fill(true);
  const rest = max - pairs.length;
  const more = (least: number, limit: number): string =>
    rules.counted(rules.add(`${COMMA} ${other}`), least, limit, `${at}.maxProperties`);
  // The loop runs from the last property to the first. It builds two continuations: behind another
  // property, and at the begin.
  let behind = other === null || rest === 0 ? '' : more(0, rest);
  let first: string | null = null;
  if (other !== null && rest > 0) first = [other, more(0, rest - 1)].join(' ').trim();
  let isEmpty = min === 0;
  for (let i = pairs.length - 1; i >= 0; i--) {
    const tail = behind === '' ? '' : ` ${rules.add(behind)}`;
    if (isNeeded[i]) {
      first = `${pairs[i]}${tail}`;
      behind = `${COMMA} ${pairs[i]}${tail}`;
      isEmpty = false;
    } else {
      first = first === null ? `${pairs[i]}${tail}` : `${pairs[i]}${tail} | ${rules.add(first)}`;
      behind = `${rules.add(`${COMMA} ${pairs[i]}`)}?${tail}`;
    }
  }
  if (first === null) return rules.add('"{" space "}"');
  return rules.add(`"{" space ${rules.add(first)}${isEmpty ? '?' : ''} space "}"`);
}

interface Member {
  readonly schema: unknown;
  readonly at: string;
  readonly isRequired: boolean;
}

interface Members {
  readonly named: ReadonlyMap<string, Member>;
  /** Names that no other property may have. */
  readonly taken: readonly string[];
  /** The schema of other properties; false: there are none. */
  readonly others: unknown;
  /** The language of property names. */
  readonly names: Language;
}

function readMembers(values: ValueRules, schema: Keywords, at: string): Members {
  const { properties = {}, required = [], propertyNames, patternProperties } = schema;
  if (!isObject(properties)) throw refuse(`${at}.properties`, show(properties), 'an object');
  const needed = new Set(list(required, `${at}.required`, 0));
  for (const name of needed)
    if (typeof name !== 'string') throw refuse(`${at}.required`, show(name), 'a list of names');
  const declared = Object.keys(properties);
  const isOpen = declared.length === 0 && patternProperties === undefined;
  let { additionalProperties: others = isOpen } = schema;
  const { names, listed } = readNames(values, propertyNames, `${at}.propertyNames`);
  const named = new Map<string, Member>();
  const add = (name: string, value: unknown, place: string): void => {
    const isRequired = needed.has(name);
    const isAllowed = !isNever(value) && values.rules.languages.has(names, name);
    values.rules.budget.at = place;
    values.rules.budget.work(1);
    if (isAllowed) named.set(name, { schema: value, at: place, isRequired });
    else if (isRequired) throw refuse(`${at}.required`, show(name), 'of names that the schema allows');
  };
  for (const name of declared) add(name, properties[name], `${at}.properties.${name}`);
  // A list of names is complete. Required properties exist, whatever keyword names them.
  const further = [...(listed ?? []), ...(needed as Set<string>)];
  for (const name of further)
    if (!Object.hasOwn(properties, name) && !named.has(name)) {
      if (isNever(others) && needed.has(name))
        throw refuse(`${at}.required`, show(name), 'of names that the schema allows');
      add(name, others, `${at}.additionalProperties`);
    }
  if (listed !== null) others = false;
  return { named, taken: [...new Set([...declared, ...further])], others, names };
}

/** Reads `propertyNames`. */
function readNames(
  values: ValueRules,
  schema: unknown,
  at: string,
): { readonly names: Language; readonly listed: readonly string[] | null } {
  const { rules } = values;
  const { languages } = rules;
  if (schema === undefined || schema === true) return { names: languages.anything, listed: null };
  const resolved = values.resolve(schema, at);
  const { type, const: only, enum: several, ...rest } = resolved;
  if (type !== undefined && type !== 'string') throw refuse(`${at}.type`, show(type), 'string');
  for (const name of Object.keys(rest))
    if (!['minLength', 'maxLength', 'pattern', 'format'].includes(name))
      throw refuse(`${at}.${name}`, 'there', 'absent: it is not supported for names');
  const { min, max } = readCounts(rest, 'Length', at);
  const form = textForm(rules, rest, at)?.language ?? languages.anything;
  const names = languages.both(form, languages.repeat(languages.anyChar, min, max));
  const given = only !== undefined ? [only] : several === undefined ? null : list(several, `${at}.enum`);
  const listed = given?.filter((name): name is string => typeof name === 'string') ?? null;
  return { names, listed };
}

/** The rule of a property without a name in the schema; null: there is none. */
function otherPair(
  values: ValueRules,
  { taken, others, names }: Members,
  schema: Keywords,
  at: string,
): string | null {
  const { rules } = values;
  const { languages } = rules;
  const { patternProperties = {} } = schema;
  if (!isObject(patternProperties))
    throw refuse(`${at}.patternProperties`, show(patternProperties), 'an object');
  const free = languages.both(
    names,
    languages.not(languages.either(...taken.map((name) => languages.text(name)))),
  );
  const patterns = Object.entries(patternProperties).map(([pattern, value]) => {
    const place = `${at}.patternProperties[${show(pattern)}]`;
    return { language: textForm(rules, { pattern }, place)!.language, value, place };
  });
  const choices: string[] = [];
  const add = (language: Language, value: unknown, place: string): void => {
    if (isNever(value)) return;
    const name = language === languages.anything ? 'string' : key(rules, language, place);
    choices.push(rules.add(`${name} space ":" space ${values.value(value, place)}`));
  };
  patterns.forEach(({ language, value, place }, i) => {
    // A name that matches two patterns would need a value of both, so such names are excluded.
    const foreign = patterns.filter((_, j) => j !== i).map((each) => languages.not(each.language));
    add(languages.both(free, language, ...foreign), value, place);
  });
  const unnamed = languages.both(free, ...patterns.map(({ language }) => languages.not(language)));
  add(unnamed, others, `${at}.additionalProperties`);
  return choices.length === 0 ? null : rules.add(choices.join(' | '));
}

function key(rules: GrammarRules, language: Language, at: string): string {
  try {
    return quoted(rules, language, at);
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw refuse(at, 'names of many kinds', 'of names that a machine of fewer states can read');
  }
}
