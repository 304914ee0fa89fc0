import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CompiledScripts, isFresh, LIST } from '../../../src/base/scripts/compiled-scripts.js';
import { entryPoints } from '../entry-points.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const FOLDERS = join(ROOT, 'build', 'compiled');
/**
 * With another list of scripts, another compiler or other options, all is compiled again too. The
 * bundle for GPU hosts has no options.
 */
const MADE_BY = [
  'test/support/compiled/compile-scripts.ts',
  'test/support/compiled/script-compiler.ts',
  'package.json',
  'tsconfig.json',
].filter((path) => existsSync(join(ROOT, path)));
const DAY_MS = 86_400_000;
/** How far the clock of files may be behind, generously. */
const CLOCK_MS = 100;
/** The folder of a folder of compiled scripts in which they are bundled. */
const TOGETHER = 'together';
/** The scripts that are started in threads and processes of their own, and never imported. */
const STARTED = [
  'bench/cases/lives-process.ts',
  'bench/docs/main.ts',
  'bench/main.ts',
  'bench/peers/main.ts',
  'bench/peers/ours.ts',
  'bench/tail/life.ts',
  'bench/vs/pair.ts',
  'examples/pipeline.ts',
  'src/base/scripts/aside-process.ts',
  'src/cli/main.ts',
  'src/connectors/store/client/thread-main.ts',
  'test/connectors/lease/process/child.ts',
  'test/connectors/offload/disk-writer.ts',
  'test/connectors/store/support/writer.ts',
  'test/connectors/support/ends.ts',
  'test/engine/loop/process/alive.ts',
  'test/guards/process/async-connector.ts',
  'test/parity/main.ts',
  'test/pipeline/process/alive.ts',
  'test/pipeline/process/child.ts',
];
/** The package, and the scripts with which tests compute much or which they start. */
const SCRIPTS = [
  ...sources('src'),
  ...sources('test/parity/reference'),
  ...sources('test/sim'),
  ...STARTED.filter((path) => !path.startsWith('src/')),
];

/**
 * Before all suites: compiles the package, which they import so (`compiled-package.ts`), and the
 * scripts of threads and processes with everything that they import. Compiled they start in a tenth
 * of the processor time that `tsx` takes. The starter of a script checks whether a source has
 * changed since (`isFresh`), so that no test runs an old build.
 */
export default async function compileScripts(): Promise<void> {
  process.env['BLOCKSTEP_COMPILED'] = await compiledFolder();
}

/** The folder in which a program finds the compiled package, in few files: `src/index.js`, and the other faces. */
export async function facesFolder(): Promise<string> {
  return join(await compiledFolder(), TOGETHER);
}

/** The folder of the compiled scripts, as the sources are now. */
export async function compiledFolder(): Promise<string> {
  return latest() ?? (await compile());
}

/** The folder of an earlier run, if no source has changed since. */
function latest(): string | null {
  if (!existsSync(FOLDERS)) return null;
  const folders = readdirSync(FOLDERS).map((name) => join(FOLDERS, name));
  return folders.find(isLatest) ?? null;
}

function isLatest(folder: string): boolean {
  try {
    const list = JSON.parse(readFileSync(join(folder, LIST), 'utf8')) as CompiledScripts;
    // A copy of the whole tree has the folders of the tree that it was copied from, which are of
    // other sources.
    return list.root === ROOT && MADE_BY.every((path) => path in list.files) && isFresh(list);
  } catch {
    // Another run is making it, or was ended while it did.
    return false;
  }
}

async function compile(): Promise<string> {
  const { bundleTogether, compileInto } = await import('./script-compiler.js');
  mkdirSync(FOLDERS, { recursive: true });
  const making = mkdtempSync(join(FOLDERS, 'making-'));
  const begin = Date.now();
  const made = [...MADE_BY, ...(await compileInto(making, ROOT, SCRIPTS))];
  await bundleTogether(making, TOGETHER, STARTED, [
    ...entryPoints(readFileSync(join(ROOT, 'package.json'), 'utf8')).values(),
  ]);
  const files = Object.fromEntries(made.map((path) => [path, stampOf(path)] as const));
  // A source that was written meanwhile may have been read before. Then the list fits no source,
  // and the next run compiles again.
  for (const [path, [mtimeMs, size]] of Object.entries(files))
    if (mtimeMs > begin - CLOCK_MS) files[path] = [0, size];
  writeFileSync(join(making, LIST), JSON.stringify({ root: ROOT, files } satisfies CompiledScripts));
  for (const name of readdirSync(FOLDERS)) {
    const folder = join(FOLDERS, name);
    if (Date.now() - statSync(folder).mtimeMs > DAY_MS) rmSync(folder, { recursive: true, force: true });
  }
  const folder = join(FOLDERS, `scripts-${Date.now()}-${process.pid}`);
  renameSync(making, folder);
  return folder;
}

/** The sources below a folder; none where it is not there, as in a copy of a part of the repository. */
function sources(folder: string): string[] {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /(?<!\.test|\.d)\.ts$/.test(path))
    .map((path) => join(folder, path));
}

function stampOf(path: string): readonly [number, number] {
  const { mtimeMs, size } = statSync(join(ROOT, path));
  return [mtimeMs, size];
}
