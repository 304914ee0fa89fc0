import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readTrace, type Trace } from './trace.js';

const folder = new URL('fixtures/', import.meta.url);

/** Names of the recorded traces that the repository carries. */
export const fixtureNames: readonly string[] = readdirSync(folder)
  .filter((name) => name.endsWith('.json.gz'))
  .map((name) => name.slice(0, -'.json.gz'.length))
  .sort();

/** Whether the trace was cut to the steps around one difference that was found. */
export function isCut(name: string): boolean {
  return name.startsWith('f');
}

/** Reads one of them; every call gives a copy of its own. */
export function readFixture(name: string): Trace {
  return readTrace(fileURLToPath(new URL(`${name}.json.gz`, folder)));
}
