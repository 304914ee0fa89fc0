// Reads the recorded traces.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readTrace, type Trace } from './trace.js';

const ENDING = '.json.gz';
const folder = new URL('fixtures/', import.meta.url);
/**
 * The folder of traces that show faults of vLLM: the reference can replay them, with the fault
 * switched on.
 */
const faultFolder = new URL('reference/fixtures/', import.meta.url);

function namesIn(of: URL): string[] {
  return readdirSync(of)
    .filter((name) => name.endsWith(ENDING))
    .map((name) => name.slice(0, -ENDING.length))
    .sort();
}

const hasGroups = (name: string): boolean => name.startsWith('h');
const isOfAugust = (name: string): boolean => name.startsWith('a');
const isOfBoth = (name: string): boolean => name.startsWith('g');

/** Names of the recorded traces of one group of full attention that the repository carries. */
export const fixtureNames: readonly string[] = namesIn(folder).filter(
  (name) => !hasGroups(name) && !isOfAugust(name) && !isOfBoth(name),
);

/** Names of those with KV cache groups. */
export const groupFixtureNames: readonly string[] = namesIn(folder).filter(hasGroups);

/** Names of those of vLLM of August 2026; `a_rule_X` cannot be replayed without the rule X. */
export const augustFixtureNames: readonly string[] = namesIn(folder).filter(isOfAugust);

/** Names of those of August with KV cache groups; `g_rule_X` cannot be replayed without the rule X. */
export const augustGroupFixtureNames: readonly string[] = namesIn(folder).filter(isOfBoth);

/** Names of the traces that show a fault of vLLM's, which a correct scheduler must not copy. */
export const faultFixtureNames: readonly string[] = namesIn(faultFolder);

/** Whether the trace was cut: to the steps around one difference that was found, or to its first ones. */
export function isCut(name: string): boolean {
  return name.startsWith('f') || name.endsWith('_cut');
}

/** Reads one of them; every call gives a copy of its own. */
export function readFixture(name: string): Trace {
  const of = faultFixtureNames.includes(name) ? faultFolder : folder;
  return readTrace(fileURLToPath(new URL(`${name}${ENDING}`, of)));
}
