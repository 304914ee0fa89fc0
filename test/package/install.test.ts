// The install script loads, builds, or names the missing tool.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { addonTarget } from '../../src/core/loader.js';
import { addonInUse } from '../support/addon.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'blockstep-package-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let numPackages = 0;

/** The package as it lies in node_modules, without an addon. */
function installed(): string {
  const place = join(scratch, `${numPackages++}`, 'node_modules', 'blockstep');
  mkdirSync(join(place, 'native'), { recursive: true });
  for (const path of [
    'dist',
    'package.json',
    'native/tools',
    'native/gyp/binding.gyp',
    'native/CMakeLists.txt',
  ])
    cpSync(join(ROOT, path), join(place, path), { recursive: true });
  return place;
}

/** A PATH with nothing but these programs, each a script. */
function pathWith(programs: Record<string, string>): string {
  const folder = join(scratch, `bin-${numPackages++}`);
  mkdirSync(folder);
  for (const [name, script] of Object.entries(programs))
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return folder;
}

function install(place: string, path: string, env: Record<string, string> = {}) {
  const { status, stderr } = spawnSync(process.execPath, ['native/tools/install.mjs'], {
    cwd: place,
    encoding: 'utf8',
    env: { PATH: path, ...env },
  });
  return { status, stderr };
}

describe.skipIf(process.platform !== 'linux')('the install script', () => {
  it('says what is missing where there is neither compiler nor CMake', () => {
    const { status, stderr } = install(installed(), pathWith({}));
    expect(status).toBe(1);
    expect(stderr).toContain(`no native addon for ${addonTarget()}`);
    expect(stderr).toContain('There is no C++ compiler');
    expect(stderr).toContain('There is no CMake');
    expect(stderr).toContain('npm explore blockstep -- npm run build:gyp');
    expect(stderr).toContain('npm rebuild blockstep');
    expect(stderr).not.toContain('BLOCKSTEP_CUDA=OFF');
  });

  it('builds with node-gyp where there is a compiler and no CMake', () => {
    const { status, stderr } = install(
      installed(),
      pathWith({ 'c++': 'exit 0', 'node-gyp': 'echo "gyp $*" >&2; exit 1' }),
    );
    expect(status).toBe(1);
    expect(stderr).toContain('gyp rebuild');
  });

  it('does nothing where an addon loads, but if it is asked to build', () => {
    const place = installed();
    const path = pathWith({ 'c++': 'exit 0', 'node-gyp': 'echo "gyp $*" >&2; exit 1' });
    const target = join(place, 'prebuilds', addonTarget());
    mkdirSync(target, { recursive: true });
    symlinkSync(addonInUse(), join(target, 'blockstep.node'));
    expect(install(place, path)).toEqual({ status: 0, stderr: '' });
    expect(install(place, path, { BLOCKSTEP_BUILD_FROM_SOURCE: '1' }).stderr).toContain('gyp rebuild');
  });

  it('does nothing in a checkout, where prepare builds', () => {
    const place = installed();
    mkdirSync(join(place, 'src'));
    writeFileSync(join(place, 'src', 'index.ts'), '');
    expect(install(place, pathWith({}))).toEqual({ status: 0, stderr: '' });
  });

  it('builds again where the addon that the package carries does not load', () => {
    const place = installed();
    const target = join(place, 'prebuilds', addonTarget());
    mkdirSync(target, { recursive: true });
    writeFileSync(join(target, 'blockstep.node'), 'no addon');
    const { status, stderr } = install(
      place,
      pathWith({ 'c++': 'exit 0', 'node-gyp': 'echo "gyp $*" >&2; exit 1' }),
    );
    expect(status).toBe(1);
    expect(stderr).toContain('does not load');
    expect(stderr).toContain('gyp rebuild');
  });

  it('names the way without CUDA where CUDA is what can fail, and refuses other values', () => {
    const path = pathWith({ 'c++': 'exit 0', cmake: 'exit 1', nvcc: 'exit 0' });
    const place = installed();
    for (const name of ['node-addon-api', 'node-api-headers'])
      symlinkSync(join(ROOT, 'node_modules', name), join(place, '..', name));
    const { status, stderr } = install(place, path);
    expect(status).toBe(1);
    expect(stderr).toContain('set BLOCKSTEP_CUDA=OFF');
    expect(install(place, path, { BLOCKSTEP_CUDA: 'OFF' }).stderr).not.toContain('set BLOCKSTEP_CUDA=OFF');
    const { stderr: without } = install(place, path, { BLOCKSTEP_CUDA: 'OFF' });
    expect(without).toContain('-DBLOCKSTEP_CUDA=OFF');
    // The headers are named by whole paths: CMake looks from another folder.
    const [, headers] = without.match(/-DCMAKE_JS_INC=(\S+)/) ?? [];
    expect(headers.split(';').map((folder) => existsSync(folder) && folder.startsWith('/'))).toEqual([
      true,
      true,
    ]);
    expect(install(place, path, { BLOCKSTEP_CUDA: 'no' }).stderr).toContain(
      'BLOCKSTEP_CUDA must be ON or OFF, got no',
    );
  });
});
