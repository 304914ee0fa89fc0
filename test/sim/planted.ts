// Runs the simulator in a copy of the sources in which a bug was planted.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/core/package-root.js';
import { addonInUse } from '../support/addon.js';
import { compileInto } from '../support/compiled/script-compiler.js';
import { BORROW_PLANTS } from './borrow-plants.js';
import { ENGINE_PLANTS } from './engine/plants.js';
import { GROUP_PLANTS } from './group-plants.js';
import { PIPELINE_PLANTS } from './pipeline/plants.js';
import { PLANTS } from './plants.js';
import { RULE_PLANTS } from './rule-plants.js';
import { type Plant, plantInto } from './shared/plant.js';
import { WAIT_PLANTS } from './wait-plants.js';

/** Also where this file was compiled, the sources are what is planted into. */
const ROOT = packageRoot();

/** All plants: those for the simulation of the scheduler, of the engine, and of pipelines. */
export const ALL_PLANTS: readonly Plant[] = [
  ...PLANTS,
  ...WAIT_PLANTS,
  ...GROUP_PLANTS,
  ...RULE_PLANTS,
  ...BORROW_PLANTS,
  ...ENGINE_PLANTS,
  ...PIPELINE_PLANTS,
];

/** The simulation that must find a plant. */
export function loopOf(plant: Plant): 'scheduler' | 'engine' | 'pipeline' {
  if (PIPELINE_PLANTS.includes(plant)) return 'pipeline';
  return ENGINE_PLANTS.includes(plant) ? 'engine' : 'scheduler';
}

/** @throws if there is none of this name */
export function findPlant(name: string): Plant {
  const plant = ALL_PLANTS.find((each) => each.name === name);
  if (plant !== undefined) return plant;
  throw new Error(`no plant ${name}; there are ${ALL_PLANTS.map((each) => each.name).join(', ')}`);
}

/**
 * Runs the simulator, compiled from the sources with one bug planted into them.
 * @param args of the simulator, without the plant
 * @returns its exit code and its output
 */
export async function runPlanted(
  plant: Plant,
  args: readonly string[],
): Promise<{ code: number; output: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-sim-'));
  try {
    cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const text = plantInto(readFileSync(join(ROOT, plant.file), 'utf8'), plant);
    await compileInto(folder, ROOT, ['test/sim/main.ts'], { file: plant.file, text });
    const command = [join(folder, 'test', 'sim', 'main.js'), ...args, '--planted', plant.name];
    return await runNode(command, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runNode(args: readonly string[], cwd: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, BLOCKSTEP_ADDON: addonInUse() };
    const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => {
        output += text;
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? -1, output }));
  });
}
