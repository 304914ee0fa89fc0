// JSON and its schemas as GBNF, for models.
import { refuse } from '../schema/refusal.js';
import { SchemaGrammar } from '../schema/schema-grammar.js';
import { GrammarRules } from '../schema/values.js';
import { endlessRule } from './gbnf.js';

/** GBNF for any JSON object. */
export function jsonObjectGrammar(): string {
  return new GrammarRules().text('object');
}

/**
 * GBNF for the JSON of a schema. Properties come in the order of the schema. Other properties are
 * allowed only if `additionalProperties` says so explicitly. docs/llama-cpp.md lists the supported
 * keywords.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a constraining keyword that is not supported, or a schema that
 * is invalid, allows nothing or is too large
 */
export function schemaGrammar(schema: unknown): string {
  const grammar = new SchemaGrammar(schema);
  const text = grammar.text();
  const { references } = grammar;
  if (references.size === 0) return text;
  const endless = endlessRule(text, (name) => references.has(name));
  if (endless !== null)
    throw refuse(
      'schema.$ref',
      `"${references.get(endless)}"`,
      'a reference to a schema that does not always contain itself',
    );
  return text;
}
