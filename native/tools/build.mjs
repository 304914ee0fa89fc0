// npm run build:native: builds the addon of a checkout into native/build, with cmake-js.
//   BLOCKSTEP_CUDA=OFF npm run build:native         without CUDA
//   npm run build:native -- --CDBLOCKSTEP_CUDA_ALL=ON   an option of native/CMakeLists.txt
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { advice, cudaOptions, has, run } from './toolchain.mjs';

const WITHOUT_CMAKE = 'npm run build:gyp';

/** Builds with cmake-js into a folder, and returns whether it succeeded. Without CMake it says what else there is. */
export function buildWithCMakeJs(folder, options) {
  const require = createRequire(import.meta.url);
  const cmakeJs = join(dirname(require.resolve('cmake-js/package.json')), 'bin', 'cmake-js');
  const own = cudaOptions().map((option) => option.replace(/^-D/, '--CD'));
  const step = (command) =>
    run(process.execPath, [cmakeJs, command, '-d', 'native', '-O', folder, ...own, ...options]);
  // In a folder that is configured already, `compile` alone would not look at the options.
  const built = has('cmake') && step('configure') && step('compile');
  if (!built) console.error(`\nThe native addon was not built.\n${advice(WITHOUT_CMAKE)}`);
  return built;
}

if (process.argv[1] === import.meta.filename) {
  process.exit(buildWithCMakeJs('native/build', process.argv.slice(2)) ? 0 : 1);
}
