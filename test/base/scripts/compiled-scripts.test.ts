// A compiled script is used only while no source has changed.
import { mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it, onTestFinished, vi } from 'vitest';
import { compiledScript, LIST } from '../../../src/base/scripts/compiled-scripts.js';

it('a compiled script is used only while no source of any has changed', () => {
  const root = mkdtempSync(join(tmpdir(), 'blockstep-compiled-'));
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(root, { recursive: true, force: true });
  });
  const folder = join(root, 'compiled');
  mkdirSync(folder);
  const files: Record<string, readonly [number, number]> = {};
  for (const name of ['script.ts', 'imported.ts']) {
    writeFileSync(join(root, name), 'export {};');
    const { mtimeMs, size } = statSync(join(root, name));
    files[name] = [mtimeMs, size];
  }
  writeFileSync(join(folder, LIST), JSON.stringify({ root, files }));
  const script = pathToFileURL(join(root, 'script.ts'));
  vi.stubEnv('BLOCKSTEP_COMPILED', undefined);
  expect(compiledScript(script)).toBe(null);
  vi.stubEnv('BLOCKSTEP_COMPILED', folder);
  expect(compiledScript(script)?.href).toBe(pathToFileURL(join(folder, 'script.js')).href);
  expect(compiledScript(pathToFileURL(join(root, 'another.ts')))).toBe(null);
  utimesSync(join(root, 'imported.ts'), 1, 1);
  expect(compiledScript(script)).toBe(null);
  rmSync(join(root, 'imported.ts'));
  expect(compiledScript(script)).toBe(null);
});
