// The command `npm run proofs`.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Checkout } from './inputs.js';
import { PROOFS, type Proof, type ProofName } from './proofs.js';
import { dueProofs, hashesNow, NAMES, readRecord, writeRecord } from './record.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const USAGE = `npm run proofs [-- OPTIONS] [NAME ...]
Says of each proof whether it must run: whether something that it is made of has changed since it was last seen to hold.
  --due        prints the names of those that must run, of NAME ... if any are given
  --names      prints the names of all
  --suites     prints the suites of NAME ...
  --record     writes down that the proofs NAME ... hold as they are now`;

const { values, positionals } = parseArgs({
  options: {
    due: { type: 'boolean' },
    names: { type: 'boolean' },
    suites: { type: 'boolean' },
    record: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  },
  allowPositionals: true,
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const unknown = positionals.filter((name) => !Object.hasOwn(PROOFS, name));
if (unknown.length > 0) {
  console.error(`no proof ${unknown.join(', ')}; expected ${NAMES.join(', ')}`);
  process.exit(2);
}
const names = (positionals.length > 0 ? positionals : NAMES) as ProofName[];
if (values.names) console.log(names.join('\n'));
else if (values.suites) print(positionals.flatMap((name) => (PROOFS[name as ProofName] as Proof).suites));
else {
  const now = hashesNow(names, Checkout.of(ROOT));
  const due = dueProofs(now, readRecord());
  if (values.record) writeRecord(now);
  else if (values.due) print(due);
  else
    for (const name of names)
      console.log(`${name.padEnd(14)}${due.includes(name) ? 'must run' : 'holds   '}  ${PROOFS[name].what}`);
}

function print(lines: readonly string[]): void {
  if (lines.length > 0) console.log(lines.join('\n'));
}
