/**
 * A piece of HTML. Only `html` and `trusted` make it. Every other value in a page is text, and is
 * escaped.
 */
export class Html {
  /** @internal */
  constructor(readonly source: string) {}
}

/**
 * A value in a template. Text and numbers are escaped, lists are joined, null and false become
 * nothing.
 */
export type HtmlValue = Html | string | number | null | false | readonly HtmlValue[];

/** Template tag: the literal parts are HTML, every value is text unless it is `Html` itself. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let source = parts[0];
  for (let i = 0; i < values.length; i++) source += render(values[i]) + parts[i + 1];
  return new Html(source);
}

/**
 * Takes `source` as HTML without escaping it. For constants, and for text that was escaped by other
 * rules.
 */
export function trusted(source: string): Html {
  return new Html(source);
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text escaped for a place between tags or inside a quoted attribute. */
export function escapeText(text: string): string {
  // Lone surrogates cannot be written as UTF-8; control characters are not allowed in HTML, not
  // even as entities.
  return printable(text).replace(/[&<>"']/g, (character) => ENTITIES[character]);
}

function printable(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd').replace(/(?![\t\n])\p{Control}/gu, '\ufffd');
}

function render(value: HtmlValue): string {
  if (value === null || value === false) return '';
  if (value instanceof Html) return value.source;
  if (Array.isArray(value)) return value.map(render).join('');
  return escapeText(String(value));
}
