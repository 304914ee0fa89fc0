// Reads, compares and writes `record.json`.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Checkout, hashOf, toolsHere } from './inputs.js';
import { PROOFS, type ProofName } from './proofs.js';

const FILE = fileURLToPath(new URL('record.json', import.meta.url));

/** Of proofs, the hash of what they are made of. */
export type Hashes = Partial<Record<ProofName, string>>;

export const NAMES = Object.keys(PROOFS) as ProofName[];

/**
 * The present hashes of the inputs of proofs. Taken before the proofs run, because inputs that
 * change meanwhile were not proven.
 */
export function hashesNow<Name extends ProofName>(
  names: readonly Name[],
  checkout: Checkout,
  tools = toolsHere(),
): Record<Name, string> {
  const hashes = names.map((name) => [name, hashOf(PROOFS[name], checkout, tools)]);
  return Object.fromEntries(hashes) as Record<Name, string>;
}

/**
 * The hashes of the inputs with which proofs last held; none where the file is gone or damaged, so
 * that every proof runs.
 */
export function readRecord(file = FILE): Hashes {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Hashes;
  } catch {
    return {};
  }
}

/** The proofs that must run. */
export function dueProofs(now: Hashes, record: Hashes): ProofName[] {
  return NAMES.filter((name) => name in now && record[name] !== now[name]);
}

/** Records that proofs held, with the hashes of their inputs in `held`. */
export function writeRecord(held: Hashes, file = FILE): void {
  const record = { ...readRecord(file), ...held };
  const sorted = NAMES.filter((name) => name in record).map((name) => [name, record[name]]);
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
}
