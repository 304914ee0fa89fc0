// Builds the addon on the emulated GPU.
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const ROOMS = ['core', 'base', 'transfer', 'host', 'include', 'cuda', 'reference', 'addon', 'test/gpu_shim'];

/** The path of the addon on the emulated GPU (`npm run build:emulated`). */
export const EMULATED_ADDON = join(root, 'native/build-emulated/Release/blockstep.node');
/** Held by the process that builds it; holds its pid. */
const LOCK = join(root, 'native/build-emulated.lock');

/** Builds the addon on an emulated GPU, unless nothing changed since it was built. One process builds, the others wait. */
export function buildEmulatedGpu(): void {
  // While it is built it may be there in part.
  while (existsSync(LOCK) || modified(EMULATED_ADDON) <= newestSource()) {
    if (!acquireLock()) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      continue;
    }
    try {
      if (modified(EMULATED_ADDON) <= newestSource()) build();
    } finally {
      rmSync(LOCK, { recursive: true, force: true });
    }
  }
}

function build(): void {
  console.log('building the addon on an emulated GPU');
  const { status, stdout, stderr } = spawnSync('npm', ['run', 'build:emulated'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`the addon on an emulated GPU was not built:\n${stdout}\n${stderr}`);
  utimesSync(EMULATED_ADDON, new Date(), new Date()); // it is not written anew where nothing had changed
}

/** Whether this process may build. The lock of a process that was killed is nobody's. */
function acquireLock(): boolean {
  try {
    mkdirSync(LOCK, { recursive: false });
    writeFileSync(join(LOCK, 'pid'), String(process.pid));
    return true;
  } catch {
    if (holderLives()) return false;
    // The builder may have been killed while it wrote.
    rmSync(EMULATED_ADDON, { force: true });
    rmSync(LOCK, { recursive: true, force: true });
    return false;
  }
}

function holderLives(): boolean {
  try {
    const pid = readFileSync(join(LOCK, 'pid'), 'utf8');
    // Not written yet: its holder is about to.
    return pid === '' || process.kill(Number(pid), 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
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
