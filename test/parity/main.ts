import { parseArgs } from 'node:util';
import { replay } from './driver.js';
import { findTraces } from './files.js';
import { generateDeepTrace, generateTrace } from './reference/recorder.js';
import { report } from './report.js';
import { makeDecidedScheduler, makeScheduler } from './scheduler-under-test.js';
import { readTrace, type Trace } from './trace.js';

const USAGE = `npm run parity -- [options] PATH...
Replays recorded traces of vLLM's scheduler (.json, .json.gz, or folders of them) and compares every field.
  --plans-only        reads no state between steps, so that updates are applied by the next schedule()
  --skip-unsupported  lists traces that need features the scheduler does not offer, instead of failing
  --authority WHO     who decides: host (default) or device, which needs a GPU, or an emulated one (npm run build:emulated), with
                      BLOCKSTEP_ADDON=native/build-emulated/Release/blockstep.node
  --random COUNT      replays as many traces made by the reference scheduler as well
  --deep              these have three batches in flight
  --seed SEED         seed of the first of them (default 1)
Exit code: 0 no difference, 1 a difference or an unsupported trace, 2 bad arguments.`;

interface Arguments {
  paths: string[];
  seeds: number[];
  deep: boolean;
  plansOnly: boolean;
  skipUnsupported: boolean;
  onDevice: boolean;
}

/** Throws for bad arguments. */
function parse(): Arguments {
  const { values, positionals } = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      'plans-only': { type: 'boolean' },
      'skip-unsupported': { type: 'boolean' },
      authority: { type: 'string', default: 'host' },
      random: { type: 'string', default: '0' },
      deep: { type: 'boolean' },
      seed: { type: 'string', default: '1' },
    },
    allowPositionals: true,
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const { authority } = values;
  if (authority !== 'host' && authority !== 'device')
    throw new Error(`--authority takes host or device, got ${authority}`);
  const [count, seed] = [values.random, values.seed].map(Number);
  if (!Number.isSafeInteger(count) || count < 0)
    throw new Error(`--random takes a count, got ${values.random}`);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`--seed takes a whole number, got ${values.seed}`);
  if (positionals.length === 0 && count === 0) throw new Error('no path given');
  return {
    paths: findTraces(positionals),
    seeds: Array.from({ length: count }, (_, i) => seed + i),
    deep: values.deep ?? false,
    plansOnly: values['plans-only'] ?? false,
    skipUnsupported: values['skip-unsupported'] ?? false,
    onDevice: authority === 'device',
  };
}

function* traces({ paths, seeds, deep }: Arguments): Generator<Trace> {
  for (const path of paths) yield readTrace(path);
  for (const seed of seeds) yield deep ? generateDeepTrace(seed) : generateTrace(seed);
}

function main(given: Arguments): number {
  const { plansOnly, skipUnsupported } = given;
  const make = given.onDevice ? makeDecidedScheduler : makeScheduler;
  const total = { traces: 0, steps: 0, comparisons: 0, differences: 0, unsupported: 0 };
  for (const trace of traces(given)) {
    const result = replay(trace, make, { observe: plansOnly ? 'plans' : 'state' });
    console.log(report(result).join('\n'));
    if (result.unsupported.length > 0) total.unsupported++;
    else total.traces++;
    total.steps += result.steps;
    total.comparisons += result.comparisons;
    total.differences += result.differences.length;
  }
  const { steps, comparisons, differences, unsupported } = total;
  console.log(
    `total: ${total.traces} traces, ${steps} steps, ${comparisons} comparisons, ${differences} differences, ` +
      `${unsupported} traces unsupported${skipUnsupported ? ' and skipped' : ''}`,
  );
  // A run that compared nothing has shown nothing.
  const failed = differences > 0 || comparisons === 0 || (unsupported > 0 && !skipUnsupported);
  return failed ? 1 : 0;
}

let parsed: Arguments | null = null;
try {
  parsed = parse();
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n${USAGE}`);
  process.exitCode = 2;
}
if (parsed) process.exitCode = main(parsed);
