// The rules of arrays.
import { show } from '../../../base/errors.js';
import { isNever, type Keywords, list, readCounts } from './keywords.js';
import type { ValueRules } from './objects.js';
import { refuse } from './refusal.js';
import { COMMA } from './values.js';

/** Most values of an array with unique items. */
const MOST_UNIQUE = 100;

/**
 * The rule of arrays: first the items with their own schemas, then the items with a common schema.
 */
export function arrayRule(values: ValueRules, schema: Keywords, at: string): string {
  const { rules } = values;
  const { min, max: said } = readCounts(schema, 'Items', at);
  const { uniqueItems = false } = schema;
  if (typeof uniqueItems !== 'boolean') throw refuse(`${at}.uniqueItems`, show(uniqueItems), 'true or false');
  const { fixed, rest, at: place } = readItems(schema, at);
  if (uniqueItems && said > 1) return uniqueRule(values, { fixed, rest, min, max: said }, at);
  const first = fixed.findIndex((each) => isNever(each));
  const open = first >= 0 ? first : isNever(rest) ? fixed.length : Number.POSITIVE_INFINITY;
  const max = Math.min(said, open);
  if (min > max) throw refuse(`${at}.minItems`, `${min}`, `at most ${max}, which there may be`);
  if (max === 0) return rules.add('"[" space "]"');
  const items = fixed.slice(0, max).map((each, i) => values.value(each, `${place.fixed}[${i}]`));
  let behind = '';
  if (max > items.length) {
    const item = values.value(rest, place.rest);
    const next = rules.add(`${COMMA} ${item}`);
    const count = Number.isFinite(said) ? 'maxItems' : 'minItems';
    const counted = (by: number): string =>
      rules.counted(next, Math.max(0, min - items.length - by), max - items.length - by, `${at}.${count}`);
    if (items.length === 0) {
      const some = rules.add(`${item} ${counted(1)}`.trim());
      return rules.add(`"[" space ${some}${min === 0 ? '?' : ''} space "]"`);
    }
    behind = counted(0);
  }
  // The loop runs from the last item to the first. Items beyond the minimum may be left out,
  // together with all items behind them.
  for (let i = items.length - 1; i >= 1; i--) {
    const part = rules.add(`${COMMA} ${items[i]} ${behind}`.trim());
    behind = i >= min ? `${part}?` : part;
  }
  const some = rules.add(`${items[0]} ${behind}`.trim());
  return rules.add(`"[" space ${some}${min === 0 ? '?' : ''} space "]"`);
}

interface Items {
  readonly fixed: readonly unknown[];
  readonly rest: unknown;
  /** Paths of both schemas. */
  readonly at: { readonly fixed: string; readonly rest: string };
}

/**
 * The schemas of items. JSON schema 2020 has `prefixItems` and `items`. Older versions have a list
 * of `items`, and `additionalItems`.
 */
function readItems({ items, prefixItems, additionalItems }: Keywords, at: string): Items {
  if (prefixItems !== undefined && (Array.isArray(items) || additionalItems !== undefined))
    throw refuse(`${at}.prefixItems`, 'there', 'absent beside a list of items, or additionalItems');
  if (Array.isArray(items)) {
    const places = { fixed: `${at}.items`, rest: `${at}.additionalItems` };
    return { fixed: items, rest: additionalItems ?? true, at: places };
  }
  const places = { fixed: `${at}.prefixItems`, rest: `${at}.items` };
  // Without a list of items, `additionalItems` means nothing.
  const fixed = prefixItems === undefined ? [] : list(prefixItems, places.fixed);
  return { fixed, rest: items ?? true, at: places };
}

/** The rule of arrays with unique items: some of a list of values, in the order of the list. */
function uniqueRule(
  values: ValueRules,
  { fixed, rest, min, max }: Pick<Items, 'fixed' | 'rest'> & { readonly min: number; readonly max: number },
  at: string,
): string {
  const { rules } = values;
  const resolved = fixed.length === 0 && !isNever(rest) ? values.resolve(rest, `${at}.items`) : {};
  const all = 'const' in resolved ? [resolved['const']] : resolved['enum'];
  if (!Array.isArray(all) || all.length > MOST_UNIQUE)
    throw refuse(
      `${at}.uniqueItems`,
      'true',
      `false, or of items that are among at most ${MOST_UNIQUE} values: a grammar cannot compare`,
    );
  const known = new Set(all.map((value) => JSON.stringify(value)));
  const items = [...known].map((text) =>
    values.value({ ...resolved, enum: [JSON.parse(text)] }, `${at}.items`),
  );
  if (items.length < min) throw refuse(`${at}.minItems`, `${min}`, `at most ${items.length}, which differ`);
  const made = new Map<string, string | null>();
  /** The rule from value `i` on, behind `taken` values; null: too few values are left. */
  const from = (i: number, taken: number): string | null => {
    const count = min === 0 && max >= items.length ? Math.min(taken, 1) : taken;
    const known = made.get(`${i},${count}`);
    if (known !== undefined) return known;
    let choices: (string | null)[] = [taken >= min ? '""' : null];
    if (i < items.length && taken < max) {
      const behind = from(i + 1, taken + 1);
      const skipped = from(i + 1, taken);
      choices = [behind === null ? null : `${taken === 0 ? '' : `${COMMA} `}${items[i]} ${behind}`, skipped];
    }
    const some = choices.filter((each) => each !== null);
    const rule = some.length === 0 ? null : rules.add(some.join(' | '));
    made.set(`${i},${count}`, rule);
    return rule;
  };
  return rules.add(`"[" space ${from(0, 0)} space "]"`);
}
