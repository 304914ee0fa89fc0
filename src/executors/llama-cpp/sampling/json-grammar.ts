import { refuse } from '../schema/refusal.js';
import { SchemaGrammar } from '../schema/schema-grammar.js';
import { GrammarRules } from '../schema/values.js';
import { endlessRule } from './gbnf.js';

/** GBNF for any object in JSON. */
export function jsonObjectGrammar(): string {
  return new GrammarRules().text('object');
}

/**
 * GBNF for JSON as a schema has it. Properties come in the order of the schema; beside them there are others only where `additionalProperties`
 * allows them in words. docs/llama-cpp.md has the keywords that are heeded.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a keyword that would constrain the text and is not heeded, for a schema that is none or allows nothing,
 * and for one that is too large
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
      'a reference to what can end, and not always has itself in it',
    );
  return text;
}
