import { isObject } from '../../base/checks.js';
import { BlockstepError, show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { AsideLimitError } from '../../base/scripts/aside.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import { ApiError, badField, unsupported } from './api-error.js';
import { checkText, type Fields } from './fields.js';

/** The format that a client requests for a text. */
export type TextFormat =
  /** Any JSON object. */
  | { readonly type: 'json_object' }
  /** JSON that conforms to a schema. */
  | { readonly type: 'json_schema'; readonly schema: Readonly<Record<string, unknown>> | boolean }
  /** Text that a grammar in llama.cpp's GBNF allows. */
  | { readonly type: 'gbnf'; readonly grammar: string };

const LONGEST_GRAMMAR = 2 ** 20;

/**
 * The fields that give a format: `response_format` as in OpenAI's API, `grammar` as in llama.cpp's
 * server.
 */
export const FORMAT_NAMES = { response_format: true, grammar: true };

/**
 * Reads the requested format; null if any text is allowed.
 * @param isHeeded whether the model supports formats
 * @throws ApiError, also for a format that the model does not support
 */
export function readTextFormat(fields: Fields, isHeeded: boolean): TextFormat | null {
  const format = readResponseFormat(fields);
  const grammar = fields.get('grammar');
  if (format !== null && grammar !== undefined)
    throw badField('grammar', show(grammar), 'absent where there is a response_format');
  const name = grammar === undefined ? 'response_format' : 'grammar';
  if (!isHeeded && (format !== null || grammar !== undefined))
    throw unsupported(name, 'nothing holds the texts of this model to a format');
  if (grammar === undefined) return format;
  return { type: 'gbnf', grammar: checkText('grammar', grammar, LONGEST_GRAMMAR) };
}

const FORMAT_KEYS = knownNames<Record<string, unknown>>('response_format', {
  type: true,
  json_schema: true,
  schema: true,
});
const SCHEMA_KEYS = knownNames<Record<string, unknown>>('response_format.json_schema', {
  name: true,
  description: true,
  schema: true,
  strict: true,
});
const LONGEST_NOTE = 2 ** 16;

function readResponseFormat(fields: Fields): TextFormat | null {
  const format = fields.object('response_format', FORMAT_KEYS);
  if (format === undefined) return null;
  const type = format.get('type');
  if (type !== 'text' && type !== 'json_object' && type !== 'json_schema')
    throw badField(format.nameOf('type'), show(type), '"text", "json_object" or "json_schema"');
  // Only llama.cpp's server has a schema with `json_object`.
  for (const [name, owner] of [
    ['json_schema', 'json_schema'],
    ['schema', 'json_object'],
  ] as const)
    if (type !== owner && format.get(name) !== undefined)
      throw badField(format.nameOf(name), 'a value', `absent where the type is "${type}"`);
  if (type === 'text') return null;
  if (type === 'json_object') {
    const schema = format.get('schema');
    return schema === undefined
      ? { type }
      : { type: 'json_schema', schema: checkSchema(format.nameOf('schema'), schema) };
  }
  const described = format.object('json_schema', SCHEMA_KEYS);
  described?.text('name', LONGEST_NOTE);
  described?.text('description', LONGEST_NOTE);
  // Every schema is enforced as strict.
  described?.boolean('strict');
  return { type, schema: checkSchema('response_format.json_schema.schema', described?.get('schema')) };
}

function checkSchema(name: string, schema: unknown): Readonly<Record<string, unknown>> | boolean {
  if (isObject(schema) || typeof schema === 'boolean') return schema;
  throw badField(name, show(schema), 'a JSON schema');
}

/**
 * Makes the grammars that constrain the choices to a format.
 * @param make makes one grammar
 * @param count of the choices
 * @throws ApiError by rejection, for a format that cannot be converted to a grammar
 */
export async function makeGrammars(
  format: TextFormat,
  make: (format: TextFormat) => Grammar | Promise<Grammar>,
  count: number,
): Promise<readonly Grammar[]> {
  const isGbnf = format.type === 'gbnf';
  const param = isGbnf ? 'grammar' : 'response_format';
  const grammars: Grammar[] = [];
  try {
    for (let i = 0; i < count; i++) grammars.push(await make(format));
    return grammars;
  } catch (error) {
    const isRefused = error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_BAD_ARG';
    if (!isRefused && !(error instanceof AsideLimitError)) throw error;
    const message = isRefused ? error.message : `${param} cannot be heeded: ${error.message}`;
    throw new ApiError(400, message, { param, code: isGbnf ? 'invalid_grammar' : 'invalid_schema' });
  }
}
