// Finds the trace files that a command line names.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const isTrace = (name: string): boolean => name.endsWith('.json') || name.endsWith('.json.gz');

/**
 * The trace files that the paths name: files as they are, of folders every .json and .json.gz in them and below,
 * sorted by name. Throws for a path that does not exist and for a folder without traces.
 */
export function findTraces(paths: readonly string[]): string[] {
  return paths.flatMap((path) => {
    if (!existsSync(path)) throw new Error(`no such file or folder: ${path}`);
    if (!statSync(path).isDirectory()) return [path];
    const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter(isTrace).sort();
    if (names.length === 0) throw new Error(`no .json or .json.gz in folder: ${path}`);
    return names.map((name) => join(path, name));
  });
}
