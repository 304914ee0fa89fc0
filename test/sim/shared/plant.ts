/** A bug to be planted: one guard, taken out of a copy of the real source. The simulator must find it. */
export interface Plant {
  readonly name: string;
  /** The fault that appears without the guard. */
  readonly why: string;
  /** The source file, from the root of the repository on. */
  readonly file: string;
  /** The guard's text, which is in the file exactly once. */
  readonly text: string;
  /** The text in place of the guard. */
  readonly replacement: string;
}

/** The source with a bug in it. @throws if the text that it replaces is not there exactly once */
export function plantInto(source: string, { name, file, text, replacement }: Plant): string {
  const parts = source.split(text);
  if (parts.length !== 2)
    throw new Error(`plant ${name}: ${file} has its text ${parts.length - 1} times, not once`);
  return parts.join(replacement);
}
