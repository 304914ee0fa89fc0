// The command: seeds, failures, smaller failures.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadAddon } from '../../src/core/loader.js';
import { ENGINE_LOOP } from './engine/run.js';
import { NativeCopy } from './native-planted.js';
import { NATIVE_PLANTS } from './native-plants.js';
import { PIPELINE_LOOP } from './pipeline/run.js';
import { ALL_PLANTS, findPlant, loopOf, runPlanted } from './planted.js';
import { SCHEDULER_LOOP } from './scheduler/run.js';
import type { Plant } from './shared/plant.js';

const SIMULATORS = [SCHEDULER_LOOP, ENGINE_LOOP, PIPELINE_LOOP] as const;
const LOOPS: readonly string[] = [...SIMULATORS.map(({ name }) => name), 'both'];
const ALL_FAULTS = [...new Set(SIMULATORS.flatMap(({ faults }) => faults))];

const USAGE = `npm run sim -- [options]
Simulates the scheduler, an engine with its own loop, or pipelines, with everything around them, seed by seed, and stops at
the first seed that breaks something.
  --loop NAME      scheduler, engine, pipeline, or both: even seeds the scheduler, odd ones the engine (default both)
  --seeds N        how many seeds (default 300)
  --first S        the first of them (default 0)
  --steps N        events with faults in each run, before the phase without (default 2000)
  --jobs N         processes that share the seeds (default 1)
  --without A,B    leaves kinds of faults out: ${ALL_FAULTS.join(', ')}
  --shrink         makes what was found smaller
  --plant NAME     takes a guard out first, so that it must fail: ${ALL_PLANTS.map(({ name }) => name).join(', ')}
  --native-plants  plants every bug of native-plants.ts in the native code of KV cache groups, and fails if one is not found
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
        loop: { type: 'string' },
        shrink: { type: 'boolean', default: false },
        plant: { type: 'string' },
        plants: { type: 'boolean', default: false },
        'native-plants': { type: 'boolean', default: false },
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

// Without it every seed would break, and every plant be found.
try {
  loadAddon();
} catch (error) {
  console.error((error as Error).message);
  process.exit(2);
}

const numSeeds = count('seeds', 1);
const first = count('first', 0);
const steps = count('steps', 1);
const numJobs = Math.min(count('jobs', 1), numSeeds);
const without = values.without === '' ? [] : values.without.split(',');
for (const each of without) if (!ALL_FAULTS.includes(each)) fail(`--without knows no fault ${each}`);
const loop = values.loop ?? 'both';
if (!LOOPS.includes(loop)) fail(`--loop must be one of ${LOOPS.join(', ')}, got ${loop}`);
const passedOn = ['--seeds', `${numSeeds}`, '--first', `${first}`, '--steps', `${steps}`];
if (without.length > 0) passedOn.push('--without', without.join());
if (values.shrink) passedOn.push('--shrink');
/** The options that the command for repeating a failure needs beside the loop and the seed. */
const flags = values.planted === undefined ? [] : ['--plant', values.planted];

if (values.plants) process.exit(await runAllPlants());
else if (values['native-plants']) process.exit(await runNativePlants());
else if (values.plant !== undefined) process.exit(await runPlant(values.plant));
else process.exit(numJobs > 1 ? await share() : await runSeeds());

/** Every seed, one after the other. */
async function runSeeds(): Promise<number> {
  const begin = performance.now();
  for (let seed = first; seed < first + numSeeds; seed++) {
    const told = await simulator(seed).tell(seed, { steps, without }, values.shrink, flags);
    if (told === null) continue;
    console.log(told);
    console.log(`found after ${seed - first + 1} seeds`);
    return 1;
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  console.log(`${numSeeds} seeds from ${first} on, ${steps} steps each: nothing broke (${seconds} s)`);
  return 0;
}

/** Both: even seeds the scheduler, odd ones the engine. */
function simulator(seed: number): (typeof SIMULATORS)[number] {
  const chosen = SIMULATORS.find(({ name }) => name === loop);
  return chosen ?? SIMULATORS[seed % 2];
}

/** The same in several processes, each with a range of seeds of its own. */
async function share(): Promise<number> {
  const each = Math.ceil(numSeeds / numJobs);
  const runs: Promise<number>[] = [];
  for (let from = first; from < first + numSeeds; from += each) {
    const seeds = Math.min(each, first + numSeeds - from);
    const args = [...passedOn, '--loop', loop, '--seeds', `${seeds}`, '--first', `${from}`];
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
  const { code, output } = await runPlanted(plant, [...passedOn, '--loop', values.loop ?? loopOf(plant)]);
  console.log(`${plant.name}: ${plant.why}\n${output.trimEnd()}`);
  return code;
}

/** Runs all plants, and prints which are found, and after how many seeds. */
async function runAllPlants(): Promise<number> {
  let missed = 0;
  const plants = ALL_PLANTS.filter((plant) => loop === 'both' || loopOf(plant) === loop);
  const waiting = [...plants];
  const work = async (): Promise<void> => {
    for (let plant = waiting.shift(); plant !== undefined; plant = waiting.shift()) {
      const { output } = await runPlanted(plant, [...passedOn, '--loop', loopOf(plant)]);
      if (!isFound(plant, output)) missed++;
    }
  };
  await Promise.all(Array.from({ length: numJobs }, work));
  console.log(missed === 0 ? `all ${plants.length} plants were found` : `${missed} plants were not found`);
  return missed === 0 ? 0 : 1;
}

/** Prints after how many seeds a plant was found. @returns whether it was */
function isFound({ name, why }: Plant, output: string): boolean {
  const lines = output.trimEnd().split('\n');
  const found = /^found after (\d+) seeds$/.exec(lines.at(-1) ?? '');
  const how = lines.find((line) => /^seed \d+, step/.test(line)) ?? lines.at(-1);
  const after = found === null ? 'NOT FOUND' : `${found[1]} seeds`;
  console.log(`${name.padEnd(4)} ${after.padEnd(10)} ${why}\n     ${how?.slice(0, 160)}`);
  return found !== null;
}

/** The same of plants in native code: each is built into an addon of its own. */
async function runNativePlants(): Promise<number> {
  let missed = 0;
  const copy = new NativeCopy();
  try {
    for (const plant of NATIVE_PLANTS.filter(
      ({ name }) => values.plant === undefined || values.plant.split(',').includes(name),
    )) {
      const output = await copy.with(plant, (addon) => runSelf(addon));
      if (!isFound(plant, output)) missed++;
    }
  } finally {
    copy.dispose();
  }
  console.log(
    missed === 0 ? `all ${NATIVE_PLANTS.length} plants were found` : `${missed} plants were not found`,
  );
  return missed === 0 ? 0 : 1;
}

/** The output of the simulation of the scheduler with this addon. */
function runSelf(addon: string): Promise<string> {
  const args = [...passedOn, '--loop', 'scheduler'];
  const env = { ...process.env, BLOCKSTEP_ADDON: addon };
  const child = fork(fileURLToPath(import.meta.url), args, { env, silent: true });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  return new Promise((resolve) => child.on('close', () => resolve(output)));
}
