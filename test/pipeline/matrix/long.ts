// `npm run test:long -- matrix`: the matrix scaled up.
import { parseArgs } from 'node:util';
import { runRow } from './rows.js';
import { AS_REPORTED, OURS, OWN, type Variant } from './variants.js';

const USAGE = `npm run test:long -- matrix [options]
The matrix scaled up: many requests, 64 at a time, half of them aborted at random moments. Stops at the first failure.
  --requests N  requests of each seed (default 10,000)
  --seeds N     seeds (default 5)
  --first S     the first seed (default 1)`;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '10000' },
    seeds: { type: 'string', default: '5' },
    first: { type: 'string', default: '1' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const [total, seeds, first] = [values.requests, values.seeds, values.first].map(Number) as [
  number,
  number,
  number,
];
if (![total, seeds, first].every((number) => Number.isInteger(number) && number >= 0)) {
  console.error(`each option takes a whole number\n\n${USAGE}`);
  process.exit(2);
}

/** The pipelines that must complete every request. */
const VARIANTS: readonly [string, Variant][] = [
  ['as reported, with all guards', AS_REPORTED.at(-1) as Variant],
  ['ours, with the borrowing adapter', OURS[0] as Variant],
  ['our own pipeline', OWN[0] as Variant],
];

for (const [name, variant] of VARIANTS) {
  for (let seed = first; seed < first + seeds; seed++) {
    const subject = variant.make({ maxNumSeqs: 8, seed, textChunks: 3 });
    const row = { name: `seed ${seed}`, total, concurrency: 64, aborts: 0.5, seed };
    const { completed, aborted, hung, wrong, died, lostPlaces, guards, complete, ticks } = await runRow(
      subject,
      row,
    );
    subject.dispose?.();
    const found = Object.keys(guards).length === 0 ? 'nothing' : JSON.stringify(guards);
    console.log(
      `${name}, seed ${seed}: ${completed} completed, ${aborted} aborted, ${hung} hang, ${wrong} wrong, ` +
        `${lostPlaces} places lost, ${ticks} ticks; guards found ${found}${died === null ? '' : `; dies: ${died}`}`,
    );
    if (!complete || lostPlaces > 0) process.exit(1);
  }
}
