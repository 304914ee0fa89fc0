// The rules of texts and numbers.
import { messageOf, show } from '../../../base/errors.js';
import { MOST_STATES, TooManyStates } from '../language/automaton.js';
import { type Bound, decimal, isFar, KEEPS, LARGEST_MULTIPLE, numberLanguage } from '../language/decimals.js';
import { FORMATS, NOTED_FORMATS } from '../language/formats.js';
import type { Language } from '../language/language.js';
import { patternLanguage } from '../language/pattern.js';
import { type Keywords, readCounts, Several } from './keywords.js';
import { refuse } from './refusal.js';
import type { GrammarRules } from './values.js';

const ENCODINGS = ['base64', 'base64url'];
/** Texts are never limited to less than this length. */
const SHORTEST = 64;

/** The patterns and formats of a text. */
interface TextForm {
  readonly language: Language;
  /** The keyword of the constraint, and its value, for messages. */
  readonly at: string;
  readonly said: string;
}

/** The rule of a schema of texts. */
export function textRule(rules: GrammarRules, schema: Keywords, at: string): string {
  const { min, max } = readCounts(schema, 'Length', at);
  const form = textForm(rules, schema, at);
  if (form === null) {
    if (min === 0 && max === Number.POSITIVE_INFINITY) return 'string';
    const name = max === Number.POSITIVE_INFINITY ? 'minLength' : 'maxLength';
    return rules.add(`"\\"" ${rules.counted('char', min, max, `${at}.${name}`)} "\\""`.replace('  ', ' '));
  }
  rules.budget.at = form.at;
  try {
    if (min === 0 && max === Number.POSITIVE_INFINITY) return quoted(rules, form.language, form.at);
    // About a quarter of the states are loops. Each length needs its own copy of these.
    const most = Math.floor((4 * MOST_STATES) / rules.numStates(form.language));
    return countedRule(
      rules,
      form,
      min,
      max === Number.POSITIVE_INFINITY ? max : Math.max(min, Math.min(max, most)),
    );
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw refuse(form.at, form.said, `one that a machine of ${MOST_STATES} states can read`);
  }
}

/**
 * The rule of texts with a bounded length. The maximum is lowered if the automaton that counts so
 * far has too many states.
 */
function countedRule(rules: GrammarRules, form: TextForm, min: number, max: number): string {
  const { languages } = rules;
  try {
    const counted = languages.both(form.language, languages.repeat(languages.anyChar, min, max));
    return quoted(rules, counted, form.at);
  } catch (error) {
    const isShortest = max <= Math.max(min, SHORTEST) || max === Number.POSITIVE_INFINITY;
    if (!(error instanceof TooManyStates) || isShortest) throw error;
    return countedRule(rules, form, min, Math.max(min, SHORTEST, Math.floor(max / 2)));
  }
}

/**
 * A language in quotes, as a rule.
 * @throws TooManyStates; ERR_BLOCKSTEP_BAD_ARG if it has no text
 */
export function quoted(rules: GrammarRules, language: Language, at: string): string {
  rules.budget.at = at;
  const rule = rules.language(language, true);
  if (rule === null) throw refuse(at, 'none', 'one that some text has');
  return rules.add(`"\\"" ${rule}`);
}

/** The texts of a schema, regardless of their length; null: all texts. */
export function textForm(rules: GrammarRules, schema: Keywords, at: string): TextForm | null {
  const { languages, budget } = rules;
  const all: Language[] = [];
  let last = '';
  let said = '';
  const add = (name: string, pattern: unknown): void => {
    last = `${at}.${name}`;
    said = show(pattern);
    budget.at = last;
    if (typeof pattern !== 'string') throw refuse(last, show(pattern), 'a regular expression');
    try {
      all.push(patternLanguage(languages, pattern));
    } catch (error) {
      if (error instanceof Error && 'code' in error) throw error;
      throw refuse(
        last,
        `${show(pattern)} with ${messageOf(error)}`,
        'a pattern that a grammar can hold a text to',
      );
    }
  };
  const patterns = Several.of(schema['pattern']);
  for (const pattern of patterns) add('pattern', pattern);
  for (const encoding of Several.of(schema['contentEncoding'])) {
    if (typeof encoding !== 'string' || !ENCODINGS.includes(encoding))
      throw refuse(`${at}.contentEncoding`, show(encoding), `absent, or ${ENCODINGS.join(' or ')}`);
    // A pattern of the encoding is more specific.
    if (patterns.length === 0) add('contentEncoding', FORMATS[encoding]);
  }
  for (const format of Several.of(schema['format'])) {
    const known = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
    if (known !== undefined && patterns.length === 0) add('format', known);
    else if (known === undefined && patterns.length === 0 && !NOTED_FORMATS.has(format as string))
      throw refuse(
        `${at}.format`,
        show(format),
        `absent, beside a pattern, or one of ${Object.keys(FORMATS).join(', ')}`,
      );
  }
  return all.length === 0 ? null : { language: languages.both(...all), at: last, said };
}

/** The rule of a schema of numbers. */
export function numberRule(rules: GrammarRules, schema: Keywords, isInteger: boolean, at: string): string {
  const { bounds, multiples } = readNumber(schema, at);
  const near = bounds.filter((bound) => !isFar(bound));
  if (near.length === 0 && multiples.length === 0) {
    if (bounds.length === 0) return isInteger ? 'integer' : 'number';
    const safe = rules.add('"-"? ("0" | [1-9] [0-9]{0,14})');
    return isInteger ? safe : rules.add(`${safe} ("." [0-9]{1,16})?`);
  }
  rules.budget.at = at;
  const name = near.length > 0 ? `${at}.${BOUND_NAMES[near[0].is]}` : `${at}.multipleOf`;
  try {
    const rule = rules.language(
      numberLanguage(rules.languages, { isInteger, bounds: near, multiples }),
      false,
    );
    if (rule !== null) return rule;
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw refuse(
      `${at}.multipleOf`,
      show(multiples),
      `one that a machine of ${MOST_STATES} states can count`,
    );
  }
  throw refuse(
    name,
    show(near.map(({ is, value }) => `${BOUND_NAMES[is]}: ${value}`)),
    'a bound that some number keeps',
  );
}

const BOUND_NAMES = { ge: 'minimum', gt: 'exclusiveMinimum', le: 'maximum', lt: 'exclusiveMaximum' } as const;

/** The bounds and multiples of a schema. @throws ERR_BLOCKSTEP_BAD_ARG */
function readNumber(
  schema: Keywords,
  at: string,
): { readonly bounds: readonly Bound[]; readonly multiples: readonly number[] } {
  const numbers = (name: string): number[] =>
    Several.of(schema[name]).map((value) => {
      if (typeof value !== 'number' || !Number.isFinite(value))
        throw refuse(`${at}.${name}`, show(value), 'a number');
      return value;
    });
  const bounds: Bound[] = [];
  for (const [name, exclusive, is, isOver] of [
    ['minimum', 'exclusiveMinimum', 'ge', 'gt'],
    ['maximum', 'exclusiveMaximum', 'le', 'lt'],
  ] as const) {
    // In JSON schema draft 4 and in OpenAPI 3.0 the keyword is a boolean about the bound beside it.
    const said = schema[exclusive];
    const isExclusive = said === true;
    for (const value of numbers(name)) bounds.push({ is: isExclusive ? isOver : is, value });
    if (typeof said !== 'boolean') for (const value of numbers(exclusive)) bounds.push({ is: isOver, value });
  }
  for (const format of Several.of(schema['format'])) {
    if (format === 'int32') bounds.push({ is: 'ge', value: -(2 ** 31) }, { is: 'le', value: 2 ** 31 - 1 });
    else if (!NOTED_FORMATS.has(format as string))
      throw refuse(`${at}.format`, show(format), 'absent, int32, int64, float or double');
  }
  const multiples = numbers('multipleOf');
  for (const each of multiples) {
    const { whole, decimals } = each > 0 ? decimal(each) : { whole: '0', decimals: '' };
    const digits = Number(whole + decimals);
    if (!(digits >= 1 && digits <= LARGEST_MULTIPLE && decimals.length <= 15))
      throw refuse(
        `${at}.multipleOf`,
        show(each),
        `above 0, and of digits that are at most ${LARGEST_MULTIPLE}`,
      );
  }
  return { bounds, multiples };
}

/**
 * Returns a function that says whether a schema allows a text or a number. The function returns
 * true for all other values.
 */
export function fitting(rules: GrammarRules, schema: Keywords, at: string): (value: unknown) => boolean {
  const { min, max } = readCounts(schema, 'Length', at);
  let form: ReturnType<typeof textForm> | undefined;
  let number: ReturnType<typeof readNumber> | undefined;
  return (value) => {
    if (typeof value === 'string') {
      form = form === undefined ? textForm(rules, schema, at) : form;
      const length = [...value].length;
      return length >= min && length <= max && (form === null || rules.languages.has(form.language, value));
    }
    if (typeof value !== 'number') return true;
    number ??= readNumber(schema, at);
    return (
      number.bounds.every(({ is, value: bound }) => KEEPS[is](value, bound)) &&
      number.multiples.every((each) => Math.abs(value / each - Math.round(value / each)) < 1e-9)
    );
  };
}
