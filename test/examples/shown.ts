// Reads a class out of an example or a page.
import { readFileSync } from 'node:fs';

/** The text of a class that an example exports and a page shows. @param path from the root of the repository */
export function shownClass(path: string, name: string): string {
  const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  const from = text.indexOf(`export class ${name}`);
  return text.slice(from, text.indexOf('\n}\n', from));
}
