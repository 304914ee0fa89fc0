// The command, for tests.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { packageRoot } from '../../../src/core/package-root.js';
import { type Plant, plantInto } from './plant.js';

/** Also where this file was compiled, the sources are what is planted into. */
const ROOT = packageRoot();

/** The simulator's command, as a process of its own. */
export function sim(...args: string[]) {
  const command = [...scriptArguments(import.meta.url, '../main'), ...args];
  return spawnSync(process.execPath, command, { cwd: ROOT, encoding: 'utf8' });
}

/** The guard that a plant takes out is in the source exactly once. */
export function expectGuarded(plant: Plant): void {
  const source = readFileSync(join(ROOT, plant.file), 'utf8');
  expect(plantInto(source, plant)).not.toBe(source);
}

/**
 * Plants a bug: it is found, and found again by the command that is printed.
 * @param seeds among which it is found
 * @param flags that this command has for the plant
 * @param more flags of the first command
 */
export function expectFoundAgain(name: string, seeds: number, flags: string, ...more: string[]): void {
  const found = sim('--plant', name, '--seeds', `${seeds}`, ...more);
  expect(found.status).toBe(1);
  const replay = /replay: npm run sim -- (.+)/.exec(found.stdout)?.[1] ?? '';
  expect(replay).toContain(flags);
  const [told] = /^seed \d+, step \d+: .+/m.exec(found.stdout) ?? [''];
  expect(told).not.toBe('');
  const again = sim(...replay.split(' '));
  expect(again.status).toBe(1);
  expect(again.stdout).toContain(told);
}
