import { TemplateError } from './template-error.js';
import { Float, numberOf, repr, truth, typeName, type Value } from './values.js';

/** The style of `tojson`. */
interface JsonStyle {
  readonly indent: string | null;
  readonly item: string;
  readonly key: string;
  readonly sorts: boolean;
  readonly isAscii: boolean;
}

const MOST_NESTING = 200;

/**
 * A value as JSON, as Python's `json.dumps` writes it, with the arguments of `tojson`. @throws
 * TemplateError
 */
export function jsonText(value: Value, named: ReadonlyMap<string, Value>): string {
  const given = named.get('indent') ?? null;
  const indent =
    typeof given === 'string'
      ? given
      : given === null
        ? null
        : ' '.repeat(Math.min(100, Number(numberOf(given))));
  const separators = named.get('separators');
  const [item, key] = Array.isArray(separators)
    ? separators.map(String)
    : [indent === null ? ', ' : ',', ': '];
  const style = {
    indent,
    item,
    key,
    sorts: truth(named.get('sort_keys') ?? false),
    isAscii: truth(named.get('ensure_ascii') ?? false),
  };
  return write(value, style, 0);
}

function write(value: Value, style: JsonStyle, depth: number): string {
  if (depth > MOST_NESTING) throw new TemplateError('values are nested too deep');
  if (typeof value === 'string') return text(value, style);
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number' || value instanceof Float) return repr(value);
  if (Array.isArray(value))
    return wrap(
      value.map((each) => write(each, style, depth + 1)),
      '[]',
      style,
      depth,
    );
  if (!(value instanceof Map))
    throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
  const entries = [...value].map(([name, each]) => [keyText(name), each] as const);
  if (style.sorts) entries.sort(([a], [b]) => (a < b ? -1 : 1));
  const members = entries.map(
    ([name, each]) => text(name, style) + style.key + write(each, style, depth + 1),
  );
  return wrap(members, '{}', style, depth);
}

function keyText(key: Value): string {
  if (typeof key === 'string') return key;
  return key === null ? 'null' : typeof key === 'boolean' ? String(key) : repr(key);
}

function wrap(
  items: readonly string[],
  [open, close]: string,
  { indent, item }: JsonStyle,
  depth: number,
): string {
  if (items.length === 0) return open + close;
  if (indent === null) return open + items.join(item) + close;
  const line = `\n${indent.repeat(depth + 1)}`;
  return `${open}${line}${items.join(item + line)}\n${indent.repeat(depth)}${close}`;
}

function text(value: string, { isAscii }: JsonStyle): string {
  const json = JSON.stringify(value);
  if (!isAscii) return json;
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
