import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url).pathname;

/** The first program of the README, and what the README says that it prints. */
function quickStart(): { program: string; printed: string } {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const from = readme.indexOf('## Quick start');
  const section = readme.slice(from, readme.indexOf('\n#', from));
  const program = section.match(/```ts\n(.*?)```/s)?.[1] ?? '';
  const printed = [...section.slice(section.indexOf(program) + program.length).matchAll(/^ {4}(.*\n)/gm)];
  return { program, printed: printed.map(([, line]) => line).join('') };
}

it('the quick start of the README prints what the README says', () => {
  const { program, printed } = quickStart();
  expect(program).toContain('engine.submit');
  expect(printed.split('\n')).toHaveLength(3);
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, 'build', 'quick-start-'));
  try {
    const file = join(folder, 'program.mts');
    writeFileSync(file, program.replace(`'blockstep'`, JSON.stringify(join(ROOT, 'src', 'index.ts'))));
    const tsx = join(ROOT, 'node_modules', 'tsx', 'dist', 'cli.mjs');
    expect(execFileSync(process.execPath, [tsx, file], { encoding: 'utf8', timeout: 60_000 })).toBe(printed);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
