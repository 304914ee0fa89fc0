// The first program of the main README prints what that README says.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { quickStart } from '../support/quick-start.js';
import { PATIENCE_MS } from '../support/waiting.js';

const ROOT = new URL('../../', import.meta.url).pathname;

it('the quick start of the README prints what the README says', () => {
  const { program, printed } = quickStart();
  expect(program).toContain('engine.submit');
  expect(printed.split('\n')).toHaveLength(3);
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, 'build', 'quick-start-'));
  try {
    const file = join(folder, 'program.mjs');
    writeFileSync(file, program.replace(`'blockstep'`, JSON.stringify(join(ROOT, 'src', 'index.ts'))));
    const tsx = join(ROOT, 'node_modules', 'tsx', 'dist', 'cli.mjs');
    expect(execFileSync(process.execPath, [tsx, file], { encoding: 'utf8', timeout: PATIENCE_MS })).toBe(
      printed,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
