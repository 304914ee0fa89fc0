// The addon that node-gyp builds with only a compiler keeps the contract.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { loadAddonFrom } from '../../src/core/loader.js';
import type { NativeAddon } from '../../src/core/native/native.js';
import { contractSuite } from './contract/suite.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const nodeDir = dirname(dirname(process.execPath));
const nodeGyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');

/** node-gyp would download Node's headers where they do not lie beside the binary; a test does not. */
const headers = existsSync(join(nodeDir, 'include', 'node', 'node_api.h'));
if (!headers) console.log(`no Node headers in ${nodeDir}: the node-gyp build is not tested here`);

/**
 * This suite compiles the whole addon once more, which takes longer than most of the other suites
 * together.
 */
const isAsked = process.env['BLOCKSTEP_TEST_GYP'] === '1';
if (!isAsked) console.log('skipped: the build by node-gyp, which is npm run test:long -- gyp');

describe.skipIf(!headers || !isAsked)('the addon that node-gyp builds with a compiler alone', () => {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-gyp-'));
  let addon: NativeAddon;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('builds without a warning', () => {
    for (const name of ['package.json', 'native']) {
      cpSync(join(root, name), join(folder, name), {
        recursive: true,
        filter: (from) => !/native.(gyp.)?build/.test(from),
      });
    }
    // binding.gyp asks for node-addon-api there.
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    const build = spawnSync(process.execPath, [nodeGyp, 'rebuild', `--nodedir=${nodeDir}`, '--jobs=2'], {
      cwd: join(folder, 'native', 'gyp'),
      encoding: 'utf8',
    });
    expect(build.status, build.stderr).toBe(0);
    expect(build.stderr).not.toMatch(/warning:/);
    addon = loadAddonFrom(join(folder, 'native', 'gyp', 'build', 'Release', 'blockstep_host.node'));
  }, 900_000);

  contractSuite('node-gyp', () => addon);
});
