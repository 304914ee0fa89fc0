import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findPlant, runPlanted } from './planted.js';
import { PLANTS } from './plants.js';
import { describe, runSeed, shrink } from './run.js';
import { FAULTS, type Fault } from './setup.js';

const USAGE = `npm run sim -- [options]
Simulates the scheduler with everything around it, seed by seed, and stops at the first seed that breaks something.
  --seeds N        how many seeds (default 300)
  --first S        the first of them (default 0)
  --steps N        events with faults in each run, before the phase without (default 2000)
  --jobs N         processes that share the seeds (default 1)
  --without A,B    leaves kinds of faults out: ${FAULTS.join(', ')}
  --shrink         makes what was found smaller
  --plant NAME     takes a guard out first, so that it must fail: ${PLANTS.map(({ name }) => name).join(', ')}
  --plants         takes every guard out, one after the other, and fails if one is not missed
Exit code: 0 nothing broke (with --plants: every plant was found), 1 something broke, 2 bad arguments.`;

function fail(message: string): never {
  console.error(`${message}\n\n${USAGE}`);
  process.exit(2);
}

function parse() {
  try {
    return parseArgs({
      options: {
        seeds: { type: 'string', default: '300' },
        first: { type: 'string', default: '0' },
        steps: { type: 'string', default: '2000' },
        jobs: { type: 'string', default: '1' },
        without: { type: 'string', default: '' },
        shrink: { type: 'boolean', default: false },
        plant: { type: 'string' },
        plants: { type: 'boolean', default: false },
        planted: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    return fail((error as Error).message);
  }
}

const values = parse();
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}

function count(name: 'seeds' | 'first' | 'steps' | 'jobs', least: number): number {
  const value = Number(values[name]);
  if (!Number.isSafeInteger(value) || value < least) {
    fail(`--${name} must be an integer from ${least} on, got ${values[name]}`);
  }
  return value;
}

const numSeeds = count('seeds', 1);
const first = count('first', 0);
const steps = count('steps', 1);
const numJobs = Math.min(count('jobs', 1), numSeeds);
const without = values.without === '' ? [] : (values.without.split(',') as Fault[]);
for (const fault of without) if (!FAULTS.includes(fault)) fail(`--without knows no fault ${fault}`);
const passedOn = ['--seeds', `${numSeeds}`, '--first', `${first}`, '--steps', `${steps}`];
if (without.length > 0) passedOn.push('--without', without.join());
if (values.shrink) passedOn.push('--shrink');

if (values.plants) process.exit(await runAllPlants());
else if (values.plant !== undefined) process.exit(await runPlant(values.plant));
else process.exit(numJobs > 1 ? await share() : runSeeds());

/** Every seed, one after the other. */
function runSeeds(): number {
  const begin = performance.now();
  for (let seed = first; seed < first + numSeeds; seed++) {
    const { failure } = runSeed(seed, { steps, without });
    if (failure === null) continue;
    console.log(describe(values.shrink ? shrink(failure) : failure, values.planted ?? null));
    console.log(`found after ${seed - first + 1} seeds`);
    return 1;
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  console.log(`${numSeeds} seeds from ${first} on, ${steps} steps each: nothing broke (${seconds} s)`);
  return 0;
}

/** The same in several processes, each with a range of seeds of its own. */
async function share(): Promise<number> {
  const each = Math.ceil(numSeeds / numJobs);
  const runs: Promise<number>[] = [];
  for (let from = first; from < first + numSeeds; from += each) {
    const seeds = Math.min(each, first + numSeeds - from);
    const args = [...passedOn, '--seeds', `${seeds}`, '--first', `${from}`];
    const child = fork(fileURLToPath(import.meta.url), args);
    runs.push(new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1))));
  }
  return Math.max(...(await Promise.all(runs)));
}

async function runPlant(name: string): Promise<number> {
  let plant: ReturnType<typeof findPlant>;
  try {
    plant = findPlant(name);
  } catch (error) {
    return fail((error as Error).message);
  }
  const { code, output } = await runPlanted(plant, passedOn);
  console.log(`${plant.name}: ${plant.why}\n${output.trimEnd()}`);
  return code;
}

/** Which plants are found, and after how many seeds. */
async function runAllPlants(): Promise<number> {
  let missed = 0;
  const waiting = [...PLANTS];
  const work = async (): Promise<void> => {
    for (let plant = waiting.shift(); plant !== undefined; plant = waiting.shift()) {
      const { output } = await runPlanted(plant, passedOn);
      const lines = output.trimEnd().split('\n');
      const found = /^found after (\d+) seeds$/.exec(lines.at(-1) ?? '');
      if (found === null) missed++;
      const how = lines.find((line) => /^seed \d+, step/.test(line)) ?? lines.at(-1);
      const after = found === null ? 'NOT FOUND' : `${found[1]} seeds`;
      console.log(`${plant.name.padEnd(4)} ${after.padEnd(10)} ${plant.why}\n     ${how?.slice(0, 160)}`);
    }
  };
  await Promise.all(Array.from({ length: numJobs }, work));
  console.log(missed === 0 ? `all ${PLANTS.length} plants were found` : `${missed} plants were not found`);
  return missed === 0 ? 0 : 1;
}
