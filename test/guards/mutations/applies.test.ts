// Each mutation, and each native mutant, applies to the source as it is.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { packageRoot } from '../../../src/core/package-root.js';
import type { Mutation } from './mutation.js';

const HERE = dirname(fileURLToPath(import.meta.url));
const LISTS = readdirSync(HERE).filter((name) => name !== 'mutation.ts' && !name.includes('.test.'));

it.each(LISTS.filter((name) => name.endsWith('.ts')))(
  'every mutation of %s applies to the source',
  async (name) => {
    const { mutations } = (await import(join(HERE, name))) as { mutations: readonly Mutation[] };
    const edits = mutations.flatMap((mutation) => [mutation, ...(mutation.also ?? [])]);
    expect(edits.length).toBeGreaterThan(0);
    const stale = edits.filter(({ file, find }) => {
      return readFileSync(join(packageRoot(), file), 'utf8').split(find).length !== 2;
    });
    expect(stale.map(({ file, find }) => `${file}: ${find}`)).toEqual([]);
    // The tests of a mutation are the tests that name its failure.
    const untested = mutations.filter(({ failure, test }) => {
      return !new RegExp(`['"\`]${failure} `).test(readFileSync(join(packageRoot(), test), 'utf8'));
    });
    expect(untested.map(({ failure, test }) => `${test} has no ${failure}`)).toEqual([]);
  },
);

const hasPython = spawnSync('python3', ['--version']).status === 0;

it.skipIf(!hasPython)('every native mutant applies to the source', () => {
  // The texts of all mutants are looked up before the mutants of that name are built.
  const program = join(packageRoot(), 'native/test/mutate.py');
  const { stdout, stderr } = spawnSync('python3', [program, 'a name of no mutant'], { encoding: 'utf8' });
  expect(stderr + stdout).toBe('0 passed, 0 failed\n');
});
