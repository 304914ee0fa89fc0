// Checks a checkout; copies each build into a separate folder.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addonTarget } from '../../src/core/loader.js';

/** A build that is measured: copied into a folder of its own, so that no two are one and none changes meanwhile. */
export interface Build {
  /** The copy. Beside the build (`src/`) it has the workloads (`bench/`). */
  readonly folder: string;
  /** Where it comes from, for readers: checkout, commit, when the addon was built. */
  readonly about: string;
}

/** The compiled benchmark, and the sources that were compiled with it. */
const COMPILED = fileURLToPath(new URL('../..', import.meta.url));

/** Addons of a checkout, as its loader looks for them. */
const ADDONS = [
  'native/build/Release/blockstep.node',
  'build/Release/blockstep_host.node',
  `prebuilds/${addonTarget()}/blockstep.node`,
];

/**
 * Copies what another checkout has built.
 * @throws Error that says in one sentence why it cannot be measured, and names the command to run
 */
export function stageOther(checkout: string, folder: string): Build {
  if (!existsSync(join(checkout, 'package.json')))
    throw new Error(`${checkout} has no package.json: --vs wants a checkout of blockstep`);
  const { name } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { name?: unknown };
  if (name !== 'blockstep')
    throw new Error(
      `${checkout} is the package ${JSON.stringify(name)}: --vs wants a checkout of "blockstep"`,
    );
  if (!existsSync(join(checkout, 'dist', 'index.js')))
    throw new Error(`${checkout} has no dist/index.js: run "npm install" there, or "npm run build:ts"`);
  return stage(checkout, join(checkout, 'dist'), folder);
}

/** Copies the build that this benchmark was compiled with. */
export function stageOwn(checkout: string, folder: string): Build {
  return stage(checkout, join(COMPILED, 'src'), folder);
}

function stage(checkout: string, compiled: string, folder: string): Build {
  const addon = ADDONS.find((path) => existsSync(join(checkout, path)));
  if (addon === undefined)
    throw new Error(`${checkout} has no addon (${ADDONS.join(', ')}): run "npm run build:native" there`);
  mkdirSync(folder, { recursive: true });
  cpSync(join(checkout, 'package.json'), join(folder, 'package.json'));
  // Copies of files, never links: a library that is the same file is loaded once for both.
  cpSync(realpathSync(join(checkout, addon)), join(folder, ADDONS[0]), { recursive: true });
  copyScripts(compiled, join(folder, 'src'));
  for (const part of ['bench', '_virtual'])
    if (existsSync(join(COMPILED, part))) copyScripts(join(COMPILED, part), join(folder, part));
  const modules = join(checkout, 'node_modules');
  if (existsSync(modules)) symlinkSync(realpathSync(modules), join(folder, 'node_modules'));
  const built = statSync(join(checkout, addon)).mtime.toISOString().slice(0, 16).replace('T', ' ');
  return { folder, about: `${checkout} at ${commitOf(checkout)}, ${addon} of ${built}` };
}

/** Copies what is run, without maps and declarations. */
function copyScripts(from: string, to: string): void {
  const filter = (path: string): boolean => !/\.(map|d\.ts|html|css)$/.test(path);
  cpSync(from, to, { recursive: true, dereference: true, filter });
}

function commitOf(checkout: string): string {
  try {
    const args = ['describe', '--always', '--dirty=, with changes', '--abbrev=8', '--exclude=*'];
    return execFileSync('git', args, {
      cwd: checkout,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return 'no commit';
  }
}
