import { isObject } from '../../base/checks.js';
import { BlockstepError, show } from '../../base/errors.js';
import { AsideLimitError } from '../../base/scripts/aside.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import { ApiError, badField, unsupported } from './api-error.js';
import { checkText, type Fields } from './fields.js';

/** The format that a client wants a text to have. */
export type TextFormat =
  /** Any object in JSON. */
  | { readonly type: 'json_object' }
  /** JSON as a schema has it. */
  | { readonly type: 'json_schema'; readonly schema: Readonly<Record<string, unknown>> | boolean }
  /** What a grammar in llama.cpp's GBNF allows. */
  | { readonly type: 'gbnf'; readonly grammar: string };

const LONGEST_GRAMMAR = 2 ** 20;

/** What a body says of the format: `response_format` as in OpenAI's API, `grammar` as llama.cpp's server has it. */
export const FORMAT_NAMES = { response_format: true, grammar: true };

/**
 * Reads the format that is wanted; null: any text.
 * @param isHeeded whether the model can be held to a format
 * @throws ApiError, also for a format that the model cannot be held to
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

function readResponseFormat(fields: Fields): TextFormat | null {
  const format = fields.get('response_format');
  if (format === undefined) return null;
  const type = isObject(format) ? format['type'] : undefined;
  if (type === 'text') return null;
  if (type === 'json_object') return { type };
  if (type !== 'json_schema')
    throw badField(
      'response_format',
      show(format),
      'an object of type "text", "json_object" or "json_schema"',
    );
  const described = (format as { json_schema?: unknown }).json_schema;
  const schema = isObject(described) ? described['schema'] : undefined;
  if (!isObject(schema) && typeof schema !== 'boolean')
    throw badField('response_format.json_schema.schema', show(schema), 'a JSON schema');
  return { type, schema };
}

/**
 * Makes the grammars of choices, which hold their texts to a format.
 * @param make makes one
 * @param count of the choices
 * @throws by rejection ApiError for a format that no grammar can be made of
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
