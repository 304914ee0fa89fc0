import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BlockstepError, show } from './errors.js';
import type { NativeAddon } from './native.js';

const ABI = 4;
const require = createRequire(import.meta.url);

/** Musl and glibc need different binaries; Node's own report tells which of the two this process runs on. */
function isMusl(): boolean {
  if (process.platform !== 'linux') return false;
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
  return report?.header?.glibcVersionRuntime === undefined;
}

/**
 * Where a binary may lie, best first: shipped with the package, built by cmake-js, built by node-gyp. If the environment
 * variable BLOCKSTEP_ADDON is set, only there (a debug or a sanitizer build).
 */
export function addonPaths(root = packageRoot()): string[] {
  if (process.env['BLOCKSTEP_ADDON']) return [process.env['BLOCKSTEP_ADDON']];
  const target = `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`;
  return [
    join(root, 'prebuilds', target, 'blockstep.node'),
    join(root, 'native', 'build', 'Release', 'blockstep.node'),
    join(root, 'build', 'Release', 'blockstep_host.node'),
  ];
}

/** The nearest folder upwards that holds package.json: the same from src/, from dist/ and from an install. */
function packageRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json'))) {
    const up = dirname(dir);
    if (up === dir) break;
    dir = up;
  }
  return dir;
}

/**
 * Loads one addon binary and makes it throw BlockstepError.
 * @throws ERR_BLOCKSTEP_NO_NATIVE if the file does not load or speaks another version of the border.
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
 * The addon of this process, loaded at the first call.
 * @throws ERR_BLOCKSTEP_NO_NATIVE naming the three ways to get one.
 */
export function loadAddon(): NativeAddon {
  if (loaded) return loaded;
  const paths = addonPaths();
  const path = paths.find((candidate) => existsSync(candidate));
  if (!path) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_NO_NATIVE',
      `no native addon for ${process.platform}-${process.arch}. Looked for ${paths.join(', ')}. Three ways out: ` +
        'install a release that carries prebuilds for this platform; build with CMake by "npm run build:native"; ' +
        'build with a compiler alone by "npm run build:gyp".',
    );
  }
  loaded = loadAddonFrom(path);
  return loaded;
}
