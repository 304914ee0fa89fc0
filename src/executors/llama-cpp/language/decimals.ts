// Numbers with bounds.
import { charSet } from './char-set.js';
import type { Language, Languages } from './language.js';

/** A bound of numbers. */
export interface Bound {
  readonly is: 'ge' | 'gt' | 'le' | 'lt';
  readonly value: number;
}

/** Whether a number keeps a bound, by the kind of the bound. */
export const KEEPS: Readonly<Record<Bound['is'], (value: number, bound: number) => boolean>> = {
  ge: (value, bound) => value >= bound,
  gt: (value, bound) => value > bound,
  le: (value, bound) => value <= bound,
  lt: (value, bound) => value < bound,
};

/** The limits of a number. */
export interface NumberLimits {
  readonly isInteger: boolean;
  readonly bounds: readonly Bound[];
  readonly multiples: readonly number[];
}

/** The largest value of the digits of a `multipleOf`. */
export const LARGEST_MULTIPLE = 1000;
const MOST_DECIMALS = 16;
/** Different texts of so many digits are different numbers. */
const SAFE_DIGITS = 15;
const DIGIT = charSet([[0x30, 0x39]]);
const ZERO = 0x30;
const DOT = 0x2e;
/** The point and the digits, each an edge of its own. */
const NUMBER_EDGES = [DOT, DOT + 1, ...Array.from({ length: 11 }, (_, i) => ZERO + i)];

/** A number of at least 0 as decimal digits. */
interface Decimal {
  readonly whole: string;
  readonly decimals: string;
}

/**
 * Whether a bound excludes no number of `SAFE_DIGITS` digits. Zod writes such bounds for every
 * integer.
 */
export function isFar({ is, value }: Bound): boolean {
  return is === 'ge' || is === 'gt' ? value <= -Number.MAX_SAFE_INTEGER : value >= Number.MAX_SAFE_INTEGER;
}

/**
 * The language of the numbers within limits, written without exponents. Far bounds (`isFar`) are
 * ignored.
 */
export function numberLanguage(
  languages: Languages,
  { isInteger, bounds, multiples }: NumberLimits,
): Language {
  const isLarge = bounds.some(({ value }) => Math.abs(value) >= 10 ** SAFE_DIGITS);
  const digit = languages.chars(DIGIT);
  const digits = (min: number, max: number) => languages.repeat(digit, min, max);
  const first = languages.chars([ZERO + 1, ZERO + 9]);
  const whole = languages.either(
    languages.text('0'),
    languages.sequence(first, digits(0, isLarge ? SAFE_DIGITS : SAFE_DIGITS - 1)),
  );
  const decimals = isInteger
    ? 0
    : Math.min(MOST_DECIMALS, ...multiples.map((each) => decimal(each).decimals.length));
  const fraction = languages.sequence(languages.text('.'), digits(1, decimals));
  const number =
    decimals === 0 ? whole : languages.sequence(whole, languages.either(languages.empty, fraction));
  const all = [number, ...multiples.map((each) => multipleOf(languages, decimal(each)))];
  // A text of more digits could be read as the number that a bound excludes.
  if (bounds.some(({ is, value }) => (is === 'gt' || is === 'lt') && value !== 0) && decimals > 0)
    all.push(languages.repeat(languages.anyChar, 0, SAFE_DIGITS + 1));
  const above = bounds.map((bound) => within(languages, bound, false));
  const below = bounds.map((bound) => within(languages, bound, true));
  const minus = languages.text('-');
  return languages.either(
    languages.both(...all, ...above),
    languages.sequence(minus, languages.both(...all, ...below)),
  );
}

/**
 * The absolute values of the numbers within a bound.
 * @param isBelow for the numbers below 0, which have a minus
 */
function within(languages: Languages, { is, value }: Bound, isBelow: boolean): Language {
  const isLower = is === 'ge' || is === 'gt';
  // -0 is 0, so the absolute value 0 is within the bound if 0 is.
  if (value === 0 && (is === 'gt' || is === 'lt'))
    return isLower === isBelow ? languages.nothing : compared(languages, 'gt', decimal(0));
  if (value === 0) return isLower === isBelow ? compared(languages, 'le', decimal(0)) : languages.anything;
  if (value > 0 === isBelow) return isLower === isBelow ? languages.nothing : languages.anything;
  const mirrored = { ge: 'le', gt: 'lt', le: 'ge', lt: 'gt' } as const;
  return compared(languages, isBelow ? mirrored[is] : is, decimal(Math.abs(value)));
}

/** Decimal numbers that compare in this way with a bound. */
function compared(languages: Languages, is: Bound['is'], { whole, decimals }: Decimal): Language {
  const state = (place: 'whole' | 'decimals', read: number, order: number): Language => {
    const rest = place === 'decimals' && order === 0 && /[1-9]/.test(decimals.slice(read)) ? -1 : order;
    const length = Math.sign(read - whole.length);
    const end =
      place === 'decimals'
        ? rest
        : length !== 0
          ? length
          : order === 0 && /[1-9]/.test(decimals)
            ? -1
            : order;
    const key = `${is}${whole}.${decimals},${place},${read},${order}`;
    return languages.machine(key, read > 0 && KEEPS[is](end, 0), NUMBER_EDGES, (char) => {
      const digit = char - ZERO;
      if (char === DOT) {
        if (place === 'decimals') return languages.nothing;
        return state('decimals', 0, length !== 0 ? length : order);
      }
      if (digit < 0 || digit > 9) return languages.nothing;
      const limit = place === 'whole' ? whole : decimals;
      const other = read < limit.length ? Number(limit[read]) : 0;
      const next = order !== 0 ? order : Math.sign(digit - other);
      if (place === 'whole') return state(place, Math.min(read, whole.length) + 1, next);
      return state(place, next === 0 ? read + 1 : 1, next);
    });
  };
  return state('whole', 0, 0);
}

/** Decimal numbers that are multiples of a number. */
function multipleOf(languages: Languages, { whole, decimals }: Decimal): Language {
  const of = Number(whole + decimals);
  const state = (read: number, left: number | null, isBegun: boolean): Language => {
    // Only the part of the remainder counts that the digits still to come cannot correct.
    let counts = of;
    for (let i = left ?? decimals.length; i > 0; i--)
      counts /= counts % 10 === 0 ? 10 : counts % 5 === 0 ? 5 : counts % 2 === 0 ? 2 : 1;
    const rest = read % counts;
    const key = `%${of},${decimals.length},${rest},${left},${isBegun}`;
    return languages.machine(key, isBegun && rest === 0, NUMBER_EDGES, (char) => {
      const digit = char - ZERO;
      if (char === DOT) return left === null ? state(rest, decimals.length, false) : languages.nothing;
      if (digit < 0 || digit > 9 || left === 0) return languages.nothing;
      return state((rest * 10 + digit) % of, left === null ? null : left - 1, true);
    });
  };
  return state(0, null, false);
}

/** The digits of a number of at least 0. */
export function decimal(value: number): Decimal {
  const [mantissa, exponent = '0'] = String(value).split('e');
  const [whole, decimals = ''] = mantissa.split('.');
  const shift = Number(exponent);
  const digits = whole + decimals;
  const point = whole.length + shift;
  const padded = point <= 0 ? '0'.repeat(1 - point) + digits : digits.padEnd(point, '0');
  const at = Math.max(1, point);
  return { whole: padded.slice(0, at).replace(/^0+(?=\d)/, ''), decimals: padded.slice(at) };
}
