/** The element with this id. @throws TypeError if the document has none of that kind */
export function element<T extends Element>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (found instanceof kind) return found;
  throw new TypeError(`the page has no ${kind.name} "${id}"`);
}

/**
 * Shows a text in an element. A text that is already shown is left alone, to avoid a new layout.
 */
export function say(id: string, text: string): void {
  const place = document.getElementById(id);
  if (place !== null && place.textContent !== text) place.textContent = text;
}

/** A description of the error. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
