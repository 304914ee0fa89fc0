// The whole proof as a command.
import { parseArgs } from 'node:util';
import { Run, type RunTotals } from './proof-run.js';

const USAGE = `npm run test:long -- executors [options]
Drives engines over the paged executor with random work and compares every text with an unpaged computation.
  --configs N  how many configurations (default 10000)
  --first S    the first of them (default 0)
  --seconds T  as many as fit into so many seconds instead
  --verbose    prints each
Exit code: 0 every text was right, 1 one was not.`;

/** The whole proof; `npm test` has a share of it. */
const { values } = parseArgs({
  options: {
    configs: { type: 'string', default: '10000' },
    first: { type: 'string', default: '0' },
    seconds: { type: 'string', default: '0' },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const first = Number(values.first);
const seconds = Number(values.seconds);
const begun = performance.now();
const totals: Partial<Record<keyof RunTotals, number>> = {};
let done = 0;
let wrongRuns = 0;
let slowest = 0;

// With --seconds as many as fit; else as many as were asked for.
for (
  let seed = first;
  seconds > 0 ? performance.now() - begun < seconds * 1000 : seed < first + Number(values.configs);
  seed++
) {
  const at = performance.now();
  const { wrong, totals: run, config } = await new Run(seed).run();
  slowest = Math.max(slowest, performance.now() - at);
  for (const key of Object.keys(run) as (keyof RunTotals)[]) {
    totals[key] =
      key === 'mostInFlight' ? Math.max(totals[key] ?? 0, run[key]) : (totals[key] ?? 0) + run[key];
  }
  done++;
  // Promises of the engine and of readers end in turns of the event loop.
  if (done % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  if (values.verbose) console.log(seed, config, run);
  if (wrong.length === 0) continue;
  wrongRuns++;
  if (wrongRuns > 20) continue;
  const { pipelineDepth, numSpeculativeTokens, speculativeMethod } = config.options;
  console.log(
    `seed ${seed} (depth ${pipelineDepth}, drafts ${numSpeculativeTokens} ${speculativeMethod}): ${wrong.length} wrong`,
  );
  for (const what of wrong.slice(0, 6)) console.log(`  ${what}`);
}

const ms = (performance.now() - begun) / done;
console.log(
  `${done} configurations from ${first}, ${wrongRuns} wrong, ${ms.toFixed(1)} ms each, slowest ${slowest.toFixed(0)} ms`,
);
console.log(totals);
process.exitCode = wrongRuns > 0 ? 1 : 0;
