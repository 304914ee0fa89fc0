import { parseArgs } from 'node:util';
import { Checkout } from './inputs.js';
import { PROOFS, type Proof, type ProofName } from './proofs.js';
import { dueProofs, NAMES, readRecord, writeRecord } from './record.js';

const ROOT = new URL('../..', import.meta.url).pathname;
const USAGE = `npm run proofs [-- OPTIONS] [NAME ...]
Says of each proof whether it must run: whether something that it is made of has changed since it was last seen to hold.
  --due        prints the names of those that must run, of NAME ... if any are given
  --suites     prints the suites of those instead
  --record     writes down that the proofs NAME ... hold as they are now`;

const { values, positionals } = parseArgs({
  options: {
    due: { type: 'boolean' },
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
const checkout = Checkout.of(ROOT);
if (values.record) writeRecord(names, checkout);
else {
  const due = dueProofs(checkout, readRecord()).filter((name) => names.includes(name));
  if (values.suites) console.log(due.flatMap((name) => (PROOFS[name] as Proof).suites).join('\n'));
  else if (values.due) console.log(due.join('\n'));
  else
    for (const name of names)
      console.log(`${name.padEnd(14)}${due.includes(name) ? 'must run' : 'holds   '}  ${PROOFS[name].what}`);
}
