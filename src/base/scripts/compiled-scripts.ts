import { readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Name of the list in a folder of compiled scripts. */
export const LIST = 'sources.json';

/** The sources of a folder of compiled scripts. */
export interface CompiledScripts {
  /** Folder of the sources. */
  readonly root: string;
  /** For each source, by its path: the time of its last change, in milliseconds, and its bytes. */
  readonly files: Readonly<Record<string, readonly [number, number]>>;
}

const lists = new Map<string, CompiledScripts>();

/**
 * The compiled form of a script of the source. The package's own tests make it
 * (`test/support/compiled/compile-scripts.ts`), because they start hundreds of threads. All other
 * users have either `dist` alone, or the source alone.
 * @returns null if there is none, or if any source has changed since
 */
export function compiledScript(script: URL): URL | null {
  const folder = process.env['BLOCKSTEP_COMPILED'];
  if (folder === undefined) return null;
  let list = lists.get(folder);
  if (list === undefined) {
    list = JSON.parse(readFileSync(join(folder, LIST), 'utf8')) as CompiledScripts;
    lists.set(folder, list);
  }
  const path = relative(list.root, fileURLToPath(script));
  if (!Object.hasOwn(list.files, path) || !isFresh(list)) return null;
  return pathToFileURL(join(folder, path.replace(/\.ts$/, '.js')));
}

/** Whether every source is unchanged. */
export function isFresh({ root, files }: CompiledScripts): boolean {
  return Object.entries(files).every(([path, [mtimeMs, size]]) => {
    const now = statSync(join(root, path), { throwIfNoEntry: false });
    return now?.mtimeMs === mtimeMs && now.size === size;
  });
}
