/** `npm run test:long -- offload [--seconds N] [--seed S]`: sustained traffic at each depth, with one rank and with two. */
import { parseArgs } from 'node:util';
import { Sustained } from './sustained.js';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3600' },
    seed: { type: 'string', default: '1' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  console.log(
    'npm run test:long -- offload [--seconds N] [--seed S]\n  --seconds  seconds of virtual time; default 3600\n  --seed     default 1',
  );
  process.exit(0);
}
let failed = false;
for (const pipelineDepth of [1, 2, 3] as const) {
  for (const numRanks of [1, 2]) {
    const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
    const outcome = await new Sustained({
      seconds,
      seed,
      pipelineDepth,
      numRanks,
      aborts: 37,
      failures: 1,
    }).run();
    const { wrong, ...counts } = outcome;
    console.log(`depth ${pipelineDepth}, ranks ${numRanks}: ${JSON.stringify(counts)}`);
    for (const what of wrong) console.error(`  WRONG: ${what}`);
    failed ||= wrong.length > 0;
  }
}
process.exit(failed ? 1 : 0);
