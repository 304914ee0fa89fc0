// npm run prebuild: builds the addons that a release carries for this platform, into prebuilds/, and says what they need.
//   --architecture N   with CUDA for one architecture alone: quicker, and no release
//   --check   is there one, of these sources, that other machines can load? (before npm publish)
//   --adopt   takes the addon of native/build, unless there is one of these sources: so an
//             installation from git, or a packed package, has an addon for this machine
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addonTarget, loadAddonFrom } from '../../dist/core/loader.js';
import { linksOf } from './binary.mjs';
import { buildWithCMakeJs } from './build.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = [
  'CMakeLists.txt',
  'addon',
  'base',
  'core',
  'cuda',
  'host',
  'include',
  'llama',
  'reference',
  'transfer',
];
/** Debian 12, Ubuntu 22.04 and RHEL 9 have this or newer. */
const NEWEST_GLIBC = '2.34';

const folder = join(root, 'prebuilds', addonTarget());
const path = join(folder, 'blockstep.node');
/** The addon over llama.cpp, which lies beside it and was built with it. */
const llamaPath = join(folder, 'blockstep_llama.node');
/**
 * The origin of the addon there: `{ sources, portable, backends, architecture }`; for all
 * architectures if it names none.
 */
const label = join(folder, 'build.json');

/** One text for all that the addon is compiled from, the papers beside it excepted. */
function digestOfSources() {
  const hash = createHash('sha256');
  const add = (file) => {
    if (statSync(file).isDirectory()) for (const name of readdirSync(file).sort()) add(join(file, name));
    else if (!file.endsWith('.md')) hash.update(`${file.slice(root.length)}\0`).update(readFileSync(file));
  };
  for (const name of SOURCES) add(join(root, 'native', name));
  return hash.digest('hex');
}

function readLabel() {
  return [label, path, llamaPath].every((file) => existsSync(file))
    ? JSON.parse(readFileSync(label, 'utf8'))
    : null;
}

function keep(built, portable, backends, architecture) {
  mkdirSync(folder, { recursive: true });
  copyFileSync(built, path);
  copyFileSync(join(dirname(built), 'blockstep_llama.node'), llamaPath);
  writeFileSync(
    label,
    `${JSON.stringify({ sources: digestOfSources(), portable, backends, architecture })}\n`,
  );
}

/** The faults that keep the addon from being loaded elsewhere. */
function faultsOf(addon) {
  const faults = [];
  if (process.platform !== 'linux') return faults;
  const { glibc, libraries, keepsLoaded, stripped } = linksOf(addon);
  console.log(`${addon}: needs glibc ${glibc ?? '-'} and ${libraries.join(', ')}`);
  if (glibc !== null && glibc.localeCompare(NEWEST_GLIBC, 'en', { numeric: true }) > 0)
    faults.push(`${addon} needs glibc ${glibc}, expected ${NEWEST_GLIBC} at most`);
  for (const library of ['libstdc++', 'libgcc', 'libcuda', 'libcudart'])
    if (libraries.some((name) => name.startsWith(library)))
      faults.push(`${addon} needs ${library}, expected it inside`);
  if (!keepsLoaded) faults.push(`${addon} can be unloaded, expected -z nodelete`);
  if (!stripped) faults.push(`${addon} has its symbols, expected none`);
  return faults;
}

function prebuild(architecture) {
  const cuda =
    architecture === undefined ? 'BLOCKSTEP_CUDA_ALL=ON' : `CMAKE_CUDA_ARCHITECTURES=${architecture}`;
  const target =
    architecture === undefined ? 'native/build-prebuild' : `native/build-prebuild-${architecture}`;
  if (!buildWithCMakeJs(target, [`--CD${cuda}`, '--CDBLOCKSTEP_PORTABLE=ON'])) return 1;
  const built = join(root, target, 'Release', 'blockstep.node');
  const { backends } = loadAddonFrom(built);
  keep(built, true, backends, architecture);
  console.log(`${path}: ${(statSync(path).size / 1e6).toFixed(2)} MB, back ends ${backends.join(', ')}`);
  return check(architecture);
}

/** @param architecture the only one that the addon may be for; none: all */
function check(architecture) {
  const found = readLabel();
  const faults = found === null ? [`${folder} has none`] : [...faultsOf(path), ...faultsOf(llamaPath)];
  if (found !== null && found.architecture !== architecture)
    faults.push(
      `${path} was built for ${found.architecture ?? 'every architecture'}, expected ${architecture ?? 'every one'}`,
    );
  if (found !== null && !found.portable) faults.push(`${path} was built for this machine`);
  // Only this platform has CUDA in a release.
  if (found !== null && addonTarget() === 'linux-x64' && !found.backends.includes('cuda'))
    faults.push(`${path} has the back ends ${found.backends.join(', ')}, expected cuda too`);
  if (found !== null && found.sources !== digestOfSources())
    faults.push(`${path} was built from other sources`);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) console.error('Run: npm run prebuild');
  return faults.length === 0 ? 0 : 1;
}

function adopt() {
  const built = join(root, 'native', 'build', 'Release', 'blockstep.node');
  const found = readLabel();
  const isNewest = found?.portable === true && found.sources === digestOfSources();
  if (!isNewest && existsSync(built)) keep(built, false, loadAddonFrom(built).backends);
  return 0;
}

const [command, architecture] = process.argv.slice(2);
if (command !== undefined && !['--check', '--adopt', '--architecture'].includes(command)) {
  console.error(`unknown option ${command}; expected --architecture N, --check or --adopt`);
  process.exit(2);
}
process.chdir(root);
process.exit(command === '--check' ? check() : command === '--adopt' ? adopt() : prebuild(architecture));
