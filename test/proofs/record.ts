import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Checkout, hashOf, toolsHere } from './inputs.js';
import { PROOFS, type ProofName } from './proofs.js';

const FILE = fileURLToPath(new URL('record.json', import.meta.url));

/** Of each proof that was seen to hold, the hash of what it was made of. */
export type Record = Partial<globalThis.Record<ProofName, string>>;

export const NAMES = Object.keys(PROOFS) as ProofName[];

/** What is written down; nothing where the file is gone or damaged, so that every proof runs. */
export function readRecord(file = FILE): Record {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Record;
  } catch {
    return {};
  }
}

/** The proofs that must run: what they are made of is not what was written down, or nothing was. */
export function dueProofs(checkout: Checkout, record: Record, tools = toolsHere()): ProofName[] {
  return NAMES.filter((name) => record[name] !== hashOf(PROOFS[name], checkout, tools));
}

/** Writes down that proofs hold as they are now. */
export function writeRecord(names: readonly ProofName[], checkout: Checkout, file = FILE): void {
  const tools = toolsHere();
  const record: Record = { ...readRecord(file) };
  for (const name of names) record[name] = hashOf(PROOFS[name], checkout, tools);
  const sorted = Object.fromEntries(
    NAMES.filter((name) => name in record).map((name) => [name, record[name]]),
  );
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`);
}
