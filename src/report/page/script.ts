// Scripts and data as elements that their content cannot end early.
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import { type Html, trusted } from '../markup/html.js';

/** A script element, and the hash by which the page's Content-Security-Policy allows it. */
export interface EmbeddedScript {
  element: Html;
  /** A source expression for the policy: 'sha256-…'. */
  hash: string;
}

/**
 * Makes a script element that its own content cannot end early. HTML looks for `</script`,
 * `<script` and `<!--` even inside string literals. Their `<` is therefore written as the escape
 * `\x3C`, which means `<` in strings, templates and regular expressions.
 * @throws SyntaxError if such a text is outside a literal, where the escape breaks the script
 */
export function embedScript(source: string, attributes: 'type="module"' | '' = ''): EmbeddedScript {
  const safe = source.replace(/<(?=\/script|script|!--)/gi, '\\x3C').replaceAll('\r\n', '\n');
  if (attributes === '' && safe !== source) new Script(safe);
  const hash = `'sha256-${createHash('sha256').update(safe).digest('base64')}'`;
  return { element: trusted(`<script${attributes && ` ${attributes}`}>${safe}</script>`), hash };
}

/**
 * A value as a data block. A script of the page reads it by its id:
 * `JSON.parse(element.textContent)`.
 */
export function embedJson(id: string, value: unknown): Html {
  const json = JSON.stringify(value).replaceAll('<', '\\u003c');
  return trusted(`<script type="application/json" id="${id}">${json}</script>`);
}
