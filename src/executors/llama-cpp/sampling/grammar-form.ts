// The forms of a grammar, as parsed GBNF.
import { badArg, isObject } from '../../../base/checks.js';
import { BlockstepError, messageOf } from '../../../base/errors.js';
import { checkGbnf } from './gbnf.js';
import { jsonObjectGrammar, schemaGrammar } from './json-grammar.js';

/** A grammar, in one of these forms. */
export type LlamaGrammarForm =
  | { readonly gbnf: string }
  | { readonly jsonSchema: Readonly<Record<string, unknown>> | boolean }
  | { readonly json: true };

/** A parsed grammar in GBNF. The model must still check its tokens. */
export interface ReadGrammar {
  readonly gbnf: string;
  /** Texts that must each be one token of the model, and their places. */
  readonly tokens: ReadonlyMap<string, string>;
}

/**
 * Converts a form to GBNF, and checks it. This takes up to some hundred milliseconds, so another
 * process reads strangers' grammars.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function readGrammar(form: LlamaGrammarForm): ReadGrammar {
  const gbnf = gbnfOf(form);
  try {
    return { gbnf, tokens: checkGbnf(gbnf) };
  } catch (error) {
    throw badGrammar(error);
  }
}

/** The error that refuses a grammar. @param why the thrown value */
export function badGrammar(why: unknown): BlockstepError {
  const message = `grammar must be GBNF with a rule root: ${messageOf(why)}`;
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message);
}

function gbnfOf(form: LlamaGrammarForm): string {
  if (isObject(form) && Object.keys(form).length === 1) {
    if ('gbnf' in form && typeof form.gbnf === 'string') return form.gbnf;
    if ('jsonSchema' in form) return schemaGrammar(form.jsonSchema);
    if ('json' in form && form.json === true) return jsonObjectGrammar();
  }
  throw badArg('grammar', form, 'an object with one of gbnf, jsonSchema, json: true');
}
