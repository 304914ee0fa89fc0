// The command `npm run parity`.
import { parseArgs } from 'node:util';
import { replay } from './driver.js';
import { findTraces } from './files.js';
import { faultIn } from './known-faults.js';
import { type Faults, NO_FAULTS } from './reference/kv/faults.js';
import { generateDeepTrace, generateGroupTrace, generateTrace } from './reference/recorder.js';
import { CHOICES, type Choice } from './reference/rules/draw-rules.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import { report } from './report.js';
import { LACKS, makeDecidedScheduler, makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject } from './subject.js';
import { readTrace, type Trace } from './trace.js';

const USAGE = `npm run parity -- [options] PATH...
Replays recorded traces of vLLM's scheduler (.json, .json.gz, or folders of them) and compares every field.
  --plans-only        reads no state between steps, so that updates are applied by the next schedule()
  --skip-unsupported  lists traces that need features the scheduler does not offer, instead of failing
  --authority WHO     who decides: host (default) or device, which needs a GPU, or an emulated one (npm run build:emulated), with
                      BLOCKSTEP_ADDON=native/build-emulated/Release/blockstep.node
  --reference         replays on the reference scheduler instead of the real one
  --faults NAMES      faults of vLLM that the reference is to have, also where it makes random traces, as in G2,G9 (default none)
  --random COUNT      replays as many traces made by the reference scheduler as well
  --deep              these have three batches in flight
  --groups            these have KV cache groups
  --rules WHICH       these have the rules of may (default) or august, or single ones of either
  --seed SEED         seed of the first of them (default 1)
Traces that need what the scheduler does not offer yet are left out: ${LACKS.join(', ') || 'there are none now'}.
Exit code: 0 no difference, 1 a difference or an unsupported trace, 2 bad arguments.`;

interface Arguments {
  paths: string[];
  seeds: number[];
  /** Makes the trace of a seed. */
  generate: (seed: number) => Trace;
  plansOnly: boolean;
  skipUnsupported: boolean;
  onDevice: boolean;
  /** The reference is tested, and not the real scheduler. */
  onReference: boolean;
  faults: Partial<Faults>;
}

/** Throws for bad arguments. */
function parse(): Arguments {
  const { values, positionals } = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      'plans-only': { type: 'boolean' },
      'skip-unsupported': { type: 'boolean' },
      authority: { type: 'string', default: 'host' },
      reference: { type: 'boolean', default: false },
      faults: { type: 'string' },
      random: { type: 'string', default: '0' },
      deep: { type: 'boolean', default: false },
      groups: { type: 'boolean', default: false },
      rules: { type: 'string' },
      seed: { type: 'string', default: '1' },
    },
    allowPositionals: true,
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const { authority, reference, faults = '' } = values;
  if (authority !== 'host' && authority !== 'device')
    throw new Error(`--authority takes host or device, got ${authority}`);
  if (reference && authority === 'device') throw new Error('--reference goes without a GPU');
  if (values.deep && values.groups) throw new Error('--deep and --groups are two kinds of random traces');
  const { rules = 'may' } = values;
  if (!isChoice(rules)) throw new Error(`--rules takes ${CHOICES.join(', ')}, got ${rules}`);
  if (values.rules !== undefined && values.random === '0') throw new Error('--rules goes with --random');
  if (values.faults !== undefined && !reference && !values.groups)
    throw new Error('--faults goes with --reference or --groups');
  const given = parseFaults(faults);
  const [count, seed] = [values.random, values.seed].map(Number);
  if (!Number.isSafeInteger(count) || count < 0)
    throw new Error(`--random takes a count, got ${values.random}`);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`--seed takes a whole number, got ${values.seed}`);
  if (positionals.length === 0 && count === 0) throw new Error('no path given');
  return {
    paths: findTraces(positionals),
    seeds: Array.from({ length: count }, (_, i) => seed + i),
    generate: values.groups
      ? (seed) => generateGroupTrace(seed, given, rules)
      : values.deep
        ? (seed) => generateDeepTrace(seed, rules)
        : (seed) => generateTrace(seed, rules),
    plansOnly: values['plans-only'] ?? false,
    skipUnsupported: values['skip-unsupported'] ?? false,
    onDevice: authority === 'device',
    onReference: reference,
    faults: given,
  };
}

function isChoice(name: string): name is Choice {
  return CHOICES.some((choice) => choice === name);
}

/** Throws for a name that no fault has. */
function parseFaults(list: string): Partial<Faults> {
  const names = list.split(',').filter((name) => name !== '');
  const unknown = names.find((name) => !Object.hasOwn(NO_FAULTS, name));
  if (unknown !== undefined)
    throw new Error(`--faults takes names of ${Object.keys(NO_FAULTS)}, got ${unknown}`);
  return Object.fromEntries(names.map((name) => [name, true]));
}

function* traces({ paths, seeds, generate }: Arguments): Generator<Trace> {
  for (const path of paths) yield readTrace(path);
  for (const seed of seeds) yield generate(seed);
}

function makerOf({ onDevice, onReference, faults }: Arguments): MakeSubject {
  if (onReference) return (options) => new ReferenceScheduler(options, faults);
  return onDevice ? makeDecidedScheduler : makeScheduler;
}

function main(given: Arguments): number {
  const { plansOnly, skipUnsupported } = given;
  const make = makerOf(given);
  const lacks = given.onReference ? [] : LACKS;
  const total = {
    traces: 0,
    steps: 0,
    comparisons: 0,
    differences: 0,
    unsupported: 0,
    leftOut: 0,
    faulty: 0,
  };
  for (const trace of traces(given)) {
    const result = replay(trace, make, { observe: plansOnly ? 'plans' : 'state', lacks });
    console.log(report(result).join('\n'));
    if (result.unsupported.length === 0) total.traces++;
    // The scheduler is known to lack these features for the time being.
    else if (result.unsupported.every((feature) => lacks.some((lack) => lack === feature))) total.leftOut++;
    else total.unsupported++;
    total.steps += result.steps;
    total.comparisons += result.comparisons;
    const fault = given.onReference ? null : faultIn(trace, result.differences);
    if (fault !== null)
      console.log(`  vLLM's fault ${fault.fault}, from steps[${fault.step}] on: ${fault.why}`);
    if (fault !== null) total.faulty++;
    else total.differences += result.differences.length;
  }
  const { steps, comparisons, differences, unsupported, leftOut } = total;
  console.log(
    `total: ${total.traces} traces, ${steps} steps, ${comparisons} comparisons, ${differences} differences, ` +
      `${unsupported} traces unsupported${skipUnsupported ? ' and skipped' : ''}` +
      (leftOut > 0 ? `, ${leftOut} left out` : '') +
      (total.faulty > 0 ? `, ${total.faulty} in which vLLM is at fault` : ''),
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
