// Makes a folder with its parents, or says why it cannot be made.
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and its missing parents. `mkdirSync` with `recursive` never returns where a file
 * system refuses a folder as if its parent were missing, as /proc does.
 * @throws the error of the operating system
 */
export function makeFolder(path: string): void {
  const parent = dirname(path);
  if (parent !== path && !isFolder(parent)) makeFolder(parent);
  try {
    mkdirSync(path);
  } catch (error) {
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
