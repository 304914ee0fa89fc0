import { spawnSync } from 'node:child_process';
import { readdirSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { probeBackends } from '../../src/core/placement.js';
import { EMULATED_ADDON } from './gpu.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const ROOMS = ['core', 'host', 'include', 'cuda', 'reference', 'addon', 'test/gpu_shim'];

/**
 * Before all suites: where there is no GPU, the addon on an emulated one is built, unless nothing changed since it was, and
 * the suites that need a GPU are told to take it.
 */
export default function chooseGpu(): void {
  process.env['BLOCKSTEP_TEST_GPU'] ??= probeBackends()[1].usable ? 'real' : 'emulated';
  if (process.env['BLOCKSTEP_TEST_GPU'] === 'real' || modified(EMULATED_ADDON) > newestSource()) return;
  console.log('building the addon on an emulated GPU');
  const { status, stdout, stderr } = spawnSync('npm', ['run', 'build:emulated'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`the addon on an emulated GPU was not built:\n${stdout}\n${stderr}`);
  utimesSync(EMULATED_ADDON, new Date(), new Date()); // it is not written anew where nothing had changed
}

function newestSource(): number {
  const native = join(root, 'native');
  const files = ROOMS.flatMap((room) =>
    readdirSync(join(native, room), { recursive: true, encoding: 'utf8' }).map((name) =>
      join(native, room, name),
    ),
  );
  return Math.max(...[join(native, 'CMakeLists.txt'), ...files].map(modified));
}

/** When a file was written last; before everything if it is not there. */
function modified(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
