// Finds and loads the binary of the native core.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { BlockstepError, show } from '../base/errors.js';
import type { NativeAddon } from './native/native.js';
import { packageRoot } from './package-root.js';

const ABI = 12;
const require = createRequire(import.meta.url);

/**
 * The kind of machine that this process runs on, as folders in `prebuilds/` are named: `linux-x64`,
 * `linux-x64-musl`.
 */
export function addonTarget(): string {
  return `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`;
}

/**
 * Whether this process runs on musl. Musl and glibc need different binaries; Node's report names
 * the glibc version, if there is one.
 */
function isMusl(): boolean {
  if (process.platform !== 'linux') return false;
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
  return report?.header?.glibcVersionRuntime === undefined;
}

/**
 * Paths of the addon, best first: built here by CMake, built here by node-gyp, shipped with the
 * package. If the environment variable BLOCKSTEP_ADDON is set, it is the only path (for a debug or
 * a sanitizer build).
 */
export function addonPaths(root = packageRoot()): string[] {
  if (process.env['BLOCKSTEP_ADDON']) return [process.env['BLOCKSTEP_ADDON']];
  return binaryPaths('blockstep.node', 'blockstep_host.node', root);
}

/**
 * Paths of an addon of the package, best first.
 * @param name its file as CMake builds it, and as it is shipped
 * @param byGyp its file as node-gyp builds it
 */
export function binaryPaths(name: string, byGyp: string, root = packageRoot()): string[] {
  return [
    join(root, 'native', 'build', 'Release', name),
    join(root, 'native', 'gyp', 'build', 'Release', byGyp),
    join(root, 'build', 'Release', byGyp),
    join(root, 'prebuilds', addonTarget(), name),
  ];
}

/**
 * Loads one addon binary, and lets it throw errors of the class BlockstepError.
 * @throws ERR_BLOCKSTEP_NO_NATIVE if the file does not load, or was built for another version
 * (`abi`) of the border to native code
 */
export function loadAddonFrom(path: string): NativeAddon {
  let addon: NativeAddon;
  try {
    addon = require(path) as NativeAddon;
  } catch (cause) {
    throw new BlockstepError('ERR_BLOCKSTEP_NO_NATIVE', `${path} does not load: ${String(cause)}`, { cause });
  }
  if (addon.abi !== ABI) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_NO_NATIVE',
      `${path} has abi ${show(addon.abi)}, expected ${ABI}: rebuild it with "npm run build:native"`,
    );
  }
  addon.useErrorClass(BlockstepError);
  return addon;
}

let loaded: NativeAddon | undefined;

/**
 * The addon of this process. It is loaded at the first call.
 * @throws ERR_BLOCKSTEP_NO_NATIVE if there is none; the message has the commands that get one
 */
export function loadAddon(): NativeAddon {
  if (loaded) return loaded;
  const root = packageRoot();
  const paths = addonPaths(root);
  const path = paths.find((candidate) => existsSync(candidate));
  if (!path) {
    const none = `no native addon for ${addonTarget()}. Looked for ${paths.join(', ')}.`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_NATIVE', `${none} ${waysToGetOne(root)}`);
  }
  loaded = loadAddonFrom(path);
  return loaded;
}

/** The commands that get an addon: in a checkout, or for an installed package. */
function waysToGetOne(root: string): string {
  if (process.env['BLOCKSTEP_ADDON'])
    return 'The environment variable BLOCKSTEP_ADDON names it: correct or unset it.';
  if (existsSync(join(root, 'src', 'index.ts')))
    return 'Build it: npm run build:native, or with a C++ compiler alone: npm run build:gyp';
  return (
    'Build it, with a C++20 compiler and CMake: npm rebuild blockstep. If the package manager does not run install scripts, ' +
    'approve those of blockstep first (npm approve-scripts blockstep, or pnpm approve-builds). With a compiler alone: ' +
    'npm explore blockstep -- npm run build:gyp'
  );
}
