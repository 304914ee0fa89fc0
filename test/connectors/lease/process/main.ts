// `npm run test:long -- lease`.
import { parseArgs } from 'node:util';
import { KillRun } from './kills.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(
    'npm run test:long -- lease [--rounds 200] [--seed 1]: one of four processes is killed or stopped per round',
  );
  process.exit(0);
}
const rounds = Number(values.rounds);
const run = new KillRun(Number(values.seed), 'fail');
const begun = Date.now();
try {
  await run.start();
  for (let i = 1; i <= rounds; i++) {
    await run.round();
    if (i % 10 === 0 || i === rounds) console.log(`${i} of ${rounds}: ${JSON.stringify(run.figures)}`);
  }
  await run.end();
} catch (error) {
  console.error(error);
  await run.giveUp();
  process.exit(1);
}
console.log(
  `${rounds} disturbances in ${Math.round((Date.now() - begun) / 1000)} s: nothing hung, leaked or wrong`,
);
