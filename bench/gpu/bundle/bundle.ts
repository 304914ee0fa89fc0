// The command `npm run gpu:bundle`: collects and packs the files, and limits the bundle's size.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../../usage.js';
import { SUITES } from '../checks/suites.js';
import { MANIFEST, readBuild, TREE } from '../host/tree.js';
import { type Lock, packageClosure } from './closure.js';
import { newestGlibc } from './glibc.js';
import { followImports } from './imports.js';
import { filesBelow, pack, Stage } from './stage.js';

const USAGE = `npm run gpu:bundle -- [options]
Makes one folder with everything that a GPU host without network and without Node needs to run the checks and benchmarks there:
the program run, two archives, a manifest and a list of what is in them. Needs tar, xz, cmake and nvcc.
  --out DIR     where it goes (default: build/gpu-bundle); what is there is replaced
  --addon FILE  an addon with CUDA to take in the place of the one that npm run prebuild makes
  --level N     of xz, 0 to 9 (default: 9)
Exit code: 0 made, 1 failed, or larger than it may be.`;

/** Bytes that a bundle may have. */
const LIMIT = 38 * 2 ** 20;
/**
 * The newest glibc that anything in a bundle may need: Ubuntu 22.04 has 2.35. Programs that are
 * built on the host need the host's glibc.
 */
const NEWEST_GLIBC = '2.34';
const ADDON = 'native/build/Release/blockstep.node';
const EMULATED = 'native/build-emulated/Release/blockstep.node';
const PREBUILT = `prebuilds/${process.platform}-${process.arch}/blockstep.node`;

/** Beside what the programs import. */
const FOLDERS = [
  'dist',
  'build/bench',
  'src',
  'native/core',
  'native/base',
  'native/transfer',
  'native/host',
  'native/cuda',
  'native/test',
  'native/include',
  'native/reference',
  'native/addon',
];
/**
 * The parts of packages that no test runs: the compiler's command, its messages in other languages,
 * and types.
 */
const UNUSED = [
  /^node_modules\/typescript\/lib\/(?:_tsc|_typingsInstaller|tsc)\.js$/,
  /^node_modules\/typescript\/lib\/[a-z]{2}(?:-[a-z]{2})?\//,
  /^node_modules\/.*\.d\.[cm]?ts$/,
  /^node_modules\/.*\.map$/,
];
const FILES = [
  'package.json',
  'LICENSE',
  'native/package.json',
  'native/CMakeLists.txt',
  'test/vitest.config.ts',
];

function npm(...args: string[]): void {
  execFileSync('npm', ['run', '--silent', ...args], { cwd: TREE, stdio: 'inherit' });
}

/** Every file that (b) runs, and the files that those read. */
function testFiles(): string[] {
  const without = new Set(
    SUITES.flatMap(({ room, without }) => without.map((file) => `test/${room}/${file}.test.ts`)),
  );
  return SUITES.flatMap(({ room }) =>
    filesBelow(join(TREE, 'test', room))
      .map((file) => `test/${room}/${file}`)
      .filter((file) => !without.has(file)),
  );
}

/** Fills the stage with the tree of a checkout, as far as a run reads it. */
function fill(stage: Stage, addon: string): void {
  const tests = testFiles();
  // The configuration of the suites names its modules as strings.
  const support = ['vitest.config.ts', 'support/backend.ts', 'support/choose-gpu.ts'].map(
    (file) => `test/${file}`,
  );
  const programs = [...tests, ...support, 'bench/main.ts', 'bench/gpu/main.ts'];
  const { files, packages } = followImports(TREE, programs);
  const lock = JSON.parse(readFileSync(join(TREE, 'package-lock.json'), 'utf8')) as Lock;
  const platform = { os: process.platform, cpu: process.arch, libc: libc() };
  const folders = packageClosure(lock, packages, platform);
  // Packages inside of another package's folder come with that folder.
  const outer = folders.filter((folder) => !folders.some((other) => folder.startsWith(`${other}/`)));
  for (const path of [
    ...FOLDERS.filter((folder) => existsSync(join(TREE, folder))),
    ...FILES,
    ...files,
    ...tests,
    ...outer,
  ])
    stage.add(path);
  for (const pattern of UNUSED) stage.remove(pattern);
  stage.add(addon, ADDON);
  stage.add(EMULATED);
  const node = join(stage.folder, 'node');
  copyFileSync(process.execPath, node);
  execFileSync('strip', [node, join(stage.folder, ADDON), join(stage.folder, EMULATED)]);
  chmodSync(node, 0o755);
}

/** The version of glibc that each program and addon needs. @throws Error if one needs a newer one than a bundle may */
function glibcOf(stage: Stage): Record<string, string> {
  const found: Record<string, string> = {};
  for (const path of ['node', ADDON, EMULATED]) {
    const listing = execFileSync('readelf', ['--wide', '--version-info', join(stage.folder, path)], {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    const newest = newestGlibc(listing);
    if (newest === null) continue;
    if (newest.localeCompare(NEWEST_GLIBC, 'en', { numeric: true }) > 0)
      throw new Error(`${path} needs glibc ${newest}, a bundle may need ${NEWEST_GLIBC} at most`);
    found[path] = newest;
  }
  return found;
}

function libc(): 'glibc' | 'musl' | null {
  if (process.platform !== 'linux') return null;
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime === undefined ? 'musl' : 'glibc';
}

/** Prints how large everything is, and returns the bytes of it all. */
function weigh(folder: string): number {
  let bytes = 0;
  for (const file of filesBelow(folder)) {
    const { size } = statSync(join(folder, file));
    bytes += size;
    console.log(`${(size / 2 ** 20).toFixed(2).padStart(8)} MiB  ${file}`);
  }
  console.log(`${(bytes / 2 ** 20).toFixed(2).padStart(8)} MiB  in all, of ${LIMIT / 2 ** 20}`);
  return bytes;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: 'build/gpu-bundle' },
      addon: { type: 'string' },
      level: { type: 'string', default: '9' },
    },
  });
  if (!/^[0-9]$/.test(values.level)) throw new Error(`--level must be from 0 to 9, got ${values.level}`);
  const out = resolve(values.out);
  if (values.addon === undefined) npm('prebuild');
  else npm('build:ts');
  npm('build:emulated');
  const stage = new Stage(`${out}.stage`, TREE);
  try {
    fill(stage, values.addon ?? PREBUILT);
    const glibc = glibcOf(stage);
    console.log(`needs glibc: ${JSON.stringify(glibc)}`);
    const build = readBuild();
    writeFileSync(join(stage.folder, MANIFEST), `${JSON.stringify(build, null, 2)}\n`);
    const contents = stage.list();
    rmSync(out, { recursive: true, force: true });
    mkdirSync(out, { recursive: true });
    const parts = [...new Set(contents.map(({ path }) => path.split('/')[0]))].filter(
      (part) => part !== 'node',
    );
    await Promise.all([
      pack(stage.folder, ['node'], join(out, 'node.tar.xz'), values.level),
      pack(stage.folder, parts, join(out, 'tree.tar.xz'), values.level),
    ]);
    copyFileSync(join(TREE, 'bench', 'gpu', 'run.sh'), join(out, 'run'));
    chmodSync(join(out, 'run'), 0o755);
    const listing = contents.map(
      ({ path, bytes, sha256 }) => `${sha256}  ${String(bytes).padStart(9)}  ${path}\n`,
    );
    writeFileSync(join(out, 'contents.txt'), listing.join(''));
    writeFileSync(
      join(out, 'manifest.json'),
      `${JSON.stringify({ ...build, glibc, platform: `${process.platform}-${process.arch}` }, null, 2)}\n`,
    );
    if (weigh(out) > LIMIT) throw new Error(`the bundle is larger than ${LIMIT / 2 ** 20} MiB`);
    console.log(`written to ${out}`);
  } finally {
    rmSync(stage.folder, { recursive: true, force: true });
  }
}

answerHelp(USAGE);
try {
  await main();
} catch (error) {
  console.error(`gpu:bundle: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
