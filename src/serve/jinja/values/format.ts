import { TemplateError } from './template-error.js';
import { isFloat, numberOf, repr, str, type Value } from './values.js';

/** The maximum width of a formatted value, in characters. */
const WIDEST = 10_000;
const SPEC = /^(?:(.)?([<>^=]))?([-+ ]?)(#?)(0?)(\d*)(,?)(?:\.(\d+))?([a-zA-Z%]?)$/su;
const PERCENT = /%(?:\((\w+)\))?([-+ 0#]*)(\d*)(?:\.(\d+))?([a-zA-Z%])/g;

/** The result of `text % values`. @throws TemplateError */
export function percentFormat(text: string, values: Value): string {
  const list = Array.isArray(values) ? values : [values];
  let next = 0;
  return text.replace(
    PERCENT,
    (_, name: string | undefined, flags: string, width: string, places: string | undefined, kind: string) => {
      if (kind === '%') return '%';
      if (name === undefined && next >= list.length)
        throw new TemplateError('not enough arguments for format string');
      const value = name === undefined ? list[next++] : values instanceof Map ? values.get(name) : undefined;
      const sign = flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
      const isText = 'sra'.includes(kind);
      const body = isText
        ? cut(kind === 's' ? str(value) : repr(value), places)
        : numeric(value, kind, sign, places, false);
      if (flags.includes('-')) return padded(body, width, '<', ' ');
      return flags.includes('0') && !isText ? padded(body, width, '=', '0') : padded(body, width, '>', ' ');
    },
  );
}

/**
 * The result of `text.format(…)`. @param attribute reads an attribute or an item @throws
 * TemplateError
 */
export function braceFormat(
  text: string,
  args: readonly Value[],
  named: ReadonlyMap<string, Value>,
  attribute: (value: Value, key: string) => Value,
): string {
  let next = 0;
  return text.replace(
    /\{\{|\}\}|\{([^{}!:]*)(?:!([rs]))?(?::([^{}]*))?\}/g,
    (whole, field: string | undefined, form, spec = '') => {
      if (field === undefined) return whole[0] as string;
      const [head = '', ...path] = field.split(/[.[\]]+/).filter((part, i) => part !== '' || i === 0);
      let value = head === '' ? args[next++] : /^\d+$/.test(head) ? args[Number(head)] : named.get(head);
      if (value === undefined) throw new TemplateError(`format has no argument ${JSON.stringify(head)}`);
      for (const part of path) value = attribute(value, part);
      return formatted(form === 'r' ? repr(value) : value, spec as string);
    },
  );
}

/** Formats a value by a format specification of Python's `format`. @throws TemplateError */
export function formatted(value: Value, spec: string): string {
  if (spec === '') return str(value);
  const parts = SPEC.exec(spec);
  if (parts === null) throw new TemplateError(`${JSON.stringify(spec)} is no format`);
  const [, fill, align, sign, , zero, width, comma, places, kind] = parts;
  const isNumber = typeof value !== 'string' && numberOf(value) !== null && kind !== 's';
  const body = isNumber ? numeric(value, kind, sign, places, comma !== '') : cut(str(value), places);
  const side = align ?? (zero !== '' ? '=' : isNumber ? '>' : '<');
  return padded(body, width, side, fill ?? (zero !== '' ? '0' : ' '));
}

function cut(text: string, places: string | undefined): string {
  return places === undefined ? text : text.slice(0, Number(places));
}

function numeric(
  value: Value,
  kind: string,
  sign: string,
  places: string | undefined,
  hasCommas: boolean,
): string {
  const number = numberOf(value);
  if (number === null) throw new TemplateError(`%${kind} format: a number is required`);
  const size = Math.abs(number);
  const digits = Math.min(100, Number(places ?? 6));
  let text: string;
  if ('fF'.includes(kind) && kind !== '') text = size.toFixed(digits);
  else if (kind === '%') text = `${(100 * size).toFixed(digits)}%`;
  else if ('eE'.includes(kind) && kind !== '')
    text = size.toExponential(digits).replace(/e([+-])(\d)$/, 'e$10$2');
  else if (kind === 'x' || kind === 'X') text = Math.trunc(size).toString(16);
  else if (kind === 'o') text = Math.trunc(size).toString(8);
  else if (kind === 'b') text = Math.trunc(size).toString(2);
  else if ('diu'.includes(kind) && kind !== '') text = repr(Math.trunc(size));
  else if (places !== undefined) text = String(Number(size.toPrecision(Math.max(1, digits))));
  else text = repr(isFloat(value) && number < 0 ? -number : isFloat(value) ? value : size);
  if (kind === 'X' || kind === 'E') text = text.toUpperCase();
  if (hasCommas) text = text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(?:\d{3})+$)/g, ','));
  return (number < 0 ? '-' : sign.replace('-', '')) + text;
}

/** Pads a text to a width, at one side. */
export function padded(text: string, width: string | number, side: string, fill: string): string {
  if (Number(width) > WIDEST) throw new TemplateError(`a width may be at most ${WIDEST}`);
  const room = Number(width) - text.length;
  if (room <= 0) return text;
  if (side === '<') return text + fill.repeat(room);
  if (side === '^') return fill.repeat(Math.floor(room / 2)) + text + fill.repeat(Math.ceil(room / 2));
  const sign = side === '=' ? (/^[-+ ]/.exec(text)?.[0] ?? '') : '';
  return sign + fill.repeat(room) + text.slice(sign.length);
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

/** Formats a time by a format of C's `strftime`. */
export function timeText(date: Date, format: string): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const hour = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
  const parts: Readonly<Record<string, () => string>> = {
    Y: () => String(date.getFullYear()),
    y: () => two(date.getFullYear() % 100),
    m: () => two(date.getMonth() + 1),
    d: () => two(date.getDate()),
    e: () => String(date.getDate()).padStart(2, ' '),
    B: () => MONTHS[date.getMonth()],
    b: () => MONTHS[date.getMonth()].slice(0, 3),
    A: () => DAYS[date.getDay()],
    a: () => DAYS[date.getDay()].slice(0, 3),
    H: () => two(date.getHours()),
    I: () => two(hour),
    M: () => two(date.getMinutes()),
    S: () => two(date.getSeconds()),
    p: () => (date.getHours() < 12 ? 'AM' : 'PM'),
    j: () =>
      String(
        Math.round(
          (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) -
            Date.UTC(date.getFullYear(), 0, 0)) /
            864e5,
        ),
      ).padStart(3, '0'),
    F: () => timeText(date, '%Y-%m-%d'),
    T: () => timeText(date, '%H:%M:%S'),
    '%': () => '%',
  };
  return format.replace(/%-?([a-zA-Z%])/g, (whole, part: string) => {
    const made = parts[part]?.() ?? whole;
    return whole[1] === '-' ? made.replace(/^0(?=.)/, '') : made;
  });
}
