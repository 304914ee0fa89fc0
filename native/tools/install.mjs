// The install script of the package. It does nothing if the package carries an addon for this
// platform. Otherwise it builds one, with CMake (CUDA included where nvcc is) or with node-gyp.
// `npm rebuild blockstep` runs it again.
//   BLOCKSTEP_BUILD_FROM_SOURCE=1 npm rebuild blockstep   builds although there is one
//   BLOCKSTEP_CUDA=OFF                                    leaves CUDA out
import { existsSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { advice, cudaOptions, has, hasCompiler, run } from './toolchain.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const WITHOUT_CMAKE = 'npm explore blockstep -- npm run build:gyp';

/** Why no addon of the package loads; null: one does. */
async function whyNone() {
  const { loadAddon } = await import('../../dist/core/loader.js');
  try {
    loadAddon();
    return null;
  } catch (error) {
    return error.message;
  }
}

function buildWithCMake() {
  const require = createRequire(import.meta.url);
  const folderOf = (name) => dirname(require.resolve(`${name}/package.json`));
  const headers = [folderOf('node-addon-api'), join(folderOf('node-api-headers'), 'include')];
  const folder = join(root, 'native', 'build');
  const into = join(folder, 'Release');
  const options = [
    `-DCMAKE_JS_INC=${headers.join(';')}`,
    '-DCMAKE_BUILD_TYPE=Release',
    `-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${into}`,
    ...cudaOptions(),
  ];
  // Files of another machine or another version of CMake there would be in the way.
  rmSync(folder, { recursive: true, force: true });
  return (
    run('cmake', ['-S', join(root, 'native'), '-B', folder, ...options]) &&
    run('cmake', ['--build', folder, '--config', 'Release', '--parallel', `${availableParallelism()}`])
  );
}

/** npm puts node-gyp into the PATH of the scripts that it runs. */
function buildWithGyp() {
  return run('node-gyp', ['rebuild'], { cwd: join(root, 'native', 'gyp') });
}

async function install() {
  // In a checkout `prepare` builds.
  if (existsSync(join(root, 'src', 'index.ts'))) return true;
  const fromSource = Boolean(
    process.env.BLOCKSTEP_BUILD_FROM_SOURCE || process.env.npm_config_build_from_source,
  );
  const why = fromSource ? 'asked to build from source' : await whyNone();
  if (why === null) return true;
  console.error(`blockstep: ${why}\nblockstep: building the native addon`);
  // node-gyp knows where MSVC and Node's import library are.
  const withCMake = process.platform !== 'win32' && has('cmake');
  if (hasCompiler() && (withCMake ? buildWithCMake() : buildWithGyp())) {
    const still = await whyNone();
    if (still === null) return true;
    console.error(still);
  }
  console.error(
    `\nblockstep: the native addon was not built.\n${advice(WITHOUT_CMAKE)}\n` +
      '- To install without an addon, for types alone, or to build it later by `npm rebuild blockstep`:\n' +
      '    npm install --ignore-scripts blockstep',
  );
  return false;
}

process.exit((await install()) ? 0 : 1);
