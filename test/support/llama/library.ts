// Finds llama.cpp for tests, or installs it once into `build/`.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../../src/core/package-root.js';
import { libraryPackage } from '../../../src/executors/llama-cpp/native/packages.js';
import { LLAMA_VERSIONS } from '../../../src/executors/llama-cpp/native/versions.js';

/** llama.cpp for tests and benchmarks. */
export interface LlamaForTests {
  /** Folder of its libraries; null: there is none. */
  readonly folder: string | null;
  /** The folder `node_modules` of node-llama-cpp; null: there is none. */
  readonly modules: string | null;
  /** Why there is none. */
  readonly reason: string;
}

const [{ packages }] = LLAMA_VERSIONS;
const MODULES = join(packageRoot(), 'build', `llama-cpp-${packages}`);

let found: LlamaForTests | null = null;

/**
 * Finds llama.cpp: where BLOCKSTEP_LLAMA_LIBRARY says, or in `build`, where it is installed once, by npm. Only the package of this platform
 * is, without the large ones for GPUs, and no script of it is run. BLOCKSTEP_LLAMA_LIBRARY=none: tests that need it are skipped.
 */
export function llamaForTests(): LlamaForTests {
  found ??= find();
  if (found.folder === null) console.error(`skipped what needs llama.cpp: ${found.reason}`);
  return found;
}

function find(): LlamaForTests {
  const given = process.env['BLOCKSTEP_LLAMA_LIBRARY'];
  if (given === 'none') return none('BLOCKSTEP_LLAMA_LIBRARY=none');
  if (given) return { folder: given, modules: existing(join(MODULES, 'node_modules')), reason: '' };
  let name: string;
  try {
    name = libraryPackage('auto');
  } catch (error) {
    return none(String(error));
  }
  const modules = join(MODULES, 'node_modules');
  if (!existsSync(modules)) {
    const why = install(name);
    if (why !== null) return none(why);
  }
  const bins = join(modules, name, 'bins');
  const [only = ''] = existsSync(bins) ? readdirSync(bins) : [];
  return only === '' ? none(`${bins} is empty`) : { folder: join(bins, only), modules, reason: '' };
}

/** Installs into a folder of its own first, because several processes may do so at once. @returns why it could not be done */
function install(name: string): string | null {
  const scratch = `${MODULES}.${process.pid}`;
  mkdirSync(scratch, { recursive: true });
  try {
    const wanted = [`node-llama-cpp@${packages}`, `${name}@${packages}`];
    const options = [
      '--no-save',
      '--ignore-scripts',
      '--omit=optional',
      '--no-audit',
      '--no-fund',
      '--silent',
    ];
    const { status, error, stderr } = spawnSync(
      'npm',
      ['install', ...options, '--prefix', scratch, ...wanted],
      {
        encoding: 'utf8',
        shell: process.platform === 'win32',
        timeout: 300_000,
      },
    );
    if (status !== 0) return `npm could not install ${wanted.join(' ')}: ${error?.message ?? stderr}`;
    try {
      renameSync(scratch, MODULES);
    } catch (error) {
      if (!existsSync(MODULES)) return String(error);
    }
    return null;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function none(reason: string): LlamaForTests {
  return { folder: null, modules: null, reason };
}

function existing(path: string): string | null {
  return existsSync(path) ? path : null;
}
