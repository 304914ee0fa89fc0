import { isObject } from '../../../base/checks.js';
import { type CallForm, type ReadCall, TOOL_NAME } from './call-form.js';
import { argumentsOf, MOST_CALLS, parseJson } from './json-values.js';

const FUNCTION = '<function=';
const FUNCTION_END = '</function>';
/** The maximum number of parameters in a call. */
const MOST_PARAMETERS = 4096;

/**
 * `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`: Qwen3-Coder
 * and Nemotron.
 */
export const QWEN3_CODER: CallForm = {
  markers: [
    { begin: '<tool_call>', end: '</tool_call>' },
    // Seed-OSS has its own marker.
    { begin: '<seed:tool_call>', end: '</seed:tool_call>' },
    // Some answers omit the outer marker.
    { begin: FUNCTION, end: FUNCTION_END },
  ],
  read(body, tools, hasEnded) {
    const calls: ReadCall[] = [];
    // A body without the function marker comes after one.
    const isWithin = !body.includes(FUNCTION);
    const texts = isWithin ? ['', body] : body.split(FUNCTION);
    if (texts.shift()?.trim() !== '' || texts.length > MOST_CALLS) return null;
    for (const text of texts) {
      const [head, rest] = cut(text, '>');
      const [inside, behind] = isWithin ? [rest, hasEnded ? '' : null] : cutLast(rest ?? '', FUNCTION_END);
      const pairs = inside === null || behind === null || behind.trim() !== '' ? null : parameters(inside);
      if (pairs === null) return null;
      const name = head.trim();
      calls.push({ name, arguments: typed(pairs, tools.get(name)) });
    }
    return calls.length === 0 ? null : calls;
  },
};

/** `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`: GLM 4.5 and later. */
export const GLM45: CallForm = {
  markers: [{ begin: '<tool_call>', end: '</tool_call>' }],
  inner: ['<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  read(body, tools, hasEnded) {
    const [head, ...texts] = body.split('<arg_key>');
    const name = head.trim();
    // The name or the arguments may have been truncated.
    if (!hasEnded || !TOOL_NAME.test(name) || texts.length > MOST_PARAMETERS) return null;
    const pairs: [string, string][] = [];
    for (const text of texts) {
      const [key, rest] = cut(text, '</arg_key>');
      const [value, behind] = cut(rest?.trimStart().replace('<arg_value>', '') ?? '', '</arg_value>');
      if (rest === null || behind === null || behind.trim() !== '') return null;
      pairs.push([key.trim(), value]);
    }
    return [{ name, arguments: typed(pairs, tools.get(name)) }];
  },
};

const DSML = '｜DSML｜';
const INVOKE = `<${DSML}invoke name="`;
const DSML_PARAMETER = `<${DSML}parameter name="`;

/** `<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">TEXT</｜DSML｜parameter></｜DSML｜invoke>`: DeepSeek V3.2 and later. */
export const DEEPSEEK_DSML: CallForm = {
  markers: ['function_calls', 'tool_calls'].map((name) => ({
    begin: `<${DSML}${name}>`,
    end: `</${DSML}${name}>`,
  })),
  inner: [DSML],
  read(body, tools) {
    const [before, ...texts] = body.split(INVOKE);
    if (before.trim() !== '' || texts.length === 0 || texts.length > MOST_CALLS) return null;
    const calls: ReadCall[] = [];
    for (const text of texts) {
      const [name, rest] = cut(text, '">');
      const [inside, behind] = cutLast(rest ?? '', `</${DSML}invoke>`);
      const args = behind?.trim() === '' ? dsmlArguments(inside, tools.get(name)) : null;
      if (args === null || !TOOL_NAME.test(name)) return null;
      calls.push({ name, arguments: args });
    }
    return calls;
  },
};

/**
 * The parameters of a call as JSON; null if the text is malformed. Parameters marked as non-strings
 * are JSON. The schema decides the type of parameters without a mark.
 */
function dsmlArguments(text: string, schema: Readonly<Record<string, unknown>> | undefined): string | null {
  const [before, ...texts] = text.split(DSML_PARAMETER);
  if (before.trim() !== '' || texts.length > MOST_PARAMETERS) return null;
  const members: string[] = [];
  for (const each of texts) {
    const [, key = null, isText] = /^([^"]*)"(?: string="(true|false)")?>/.exec(each) ?? [];
    const [value, behind] = cutLast(each.slice(each.indexOf('>') + 1), `</${DSML}parameter>`);
    if (key === null || behind?.trim() !== '') return null;
    if (isText === undefined) members.push(typed([[key, value]], schema).slice(1, -1));
    else
      members.push(`${JSON.stringify(key)}:${JSON.stringify(isText === 'true' ? value : parseJson(value))}`);
  }
  return `{${members.join(',')}}`;
}

/** The parameters of a function in tags, or in JSON instead; null if the text is malformed. */
function parameters(text: string): readonly [string, string][] | null {
  const [before, ...texts] = text.split('<parameter=');
  if (texts.length === 0 && before.trim() !== '') {
    const args = argumentsOf(before);
    return args === null
      ? null
      : Object.entries(JSON.parse(args) as object).map(([key, value]) => [key, JSON.stringify(value)]);
  }
  if (before.trim() !== '' || texts.length > MOST_PARAMETERS) return null;
  const pairs: [string, string][] = [];
  for (const each of texts) {
    const [key, rest] = cut(each, '>');
    const [value, behind] = cutLast(rest ?? '', '</parameter>');
    if (behind === null || behind.trim() !== '') return null;
    pairs.push([key.trim(), value.replace(/^\n/, '').replace(/\n$/, '')]);
  }
  return pairs;
}

/** The text before a marker and the text after it; null for the latter if the marker is missing. */
function cut(text: string, at: string): [string, string | null] {
  return cutAt(text, text.indexOf(at), at.length);
}

/** The same, at the last occurrence of the marker. */
function cutLast(text: string, at: string): [string, string | null] {
  return cutAt(text, text.lastIndexOf(at), at.length);
}

function cutAt(text: string, place: number, length: number): [string, string | null] {
  return place < 0 ? [text, null] : [text.slice(0, place), text.slice(place + length)];
}

/**
 * Converts arguments that came as text to JSON. The tool's schema decides the type of each
 * argument.
 */
function typed(
  pairs: readonly (readonly [string, string])[],
  schema: Readonly<Record<string, unknown>> | undefined,
): string {
  const properties = isObject(schema?.['properties']) ? schema['properties'] : {};
  const types = new Map<string, ReadonlySet<string>>();
  const members = pairs.map(([key, text]) => {
    let known = types.get(key);
    if (known === undefined) {
      known = typesOf(Object.hasOwn(properties, key) ? properties[key] : undefined, 0);
      types.set(key, known);
    }
    return `${JSON.stringify(key)}:${jsonOf(text, known)}`;
  });
  return `{${members.join(',')}}`;
}

const PYTHON: Readonly<Record<string, unknown>> = { True: true, False: false, None: null };

/** A text as a JSON value of one of these types; of any type if none is given. */
function jsonOf(text: string, types: ReadonlySet<string>): string {
  const plain = text.trim();
  let value: unknown;
  try {
    value = Object.hasOwn(PYTHON, plain) ? PYTHON[plain] : parseJson(plain);
  } catch {
    return JSON.stringify(text);
  }
  const own = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const fits = types.has(own) || (own === 'number' && types.has('integer'));
  return fits || (types.size === 0 && own !== 'string') ? JSON.stringify(value) : JSON.stringify(text);
}

/** The types that a schema allows. */
function typesOf(schema: unknown, depth: number): ReadonlySet<string> {
  if (!isObject(schema) || depth > 8) return new Set();
  const { type, anyOf, oneOf, enum: values } = schema;
  const types = new Set((Array.isArray(type) ? type : [type]).filter((each) => typeof each === 'string'));
  for (const list of [anyOf, oneOf])
    if (Array.isArray(list))
      for (const each of list) for (const name of typesOf(each, depth + 1)) types.add(name);
  if (types.size === 0 && Array.isArray(values))
    for (const value of values) types.add(value === null ? 'null' : typeof value);
  return types;
}
