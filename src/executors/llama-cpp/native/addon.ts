// Loads the addon, without llama.cpp.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { BlockstepError, show } from '../../../base/errors.js';
import { binaryPaths } from '../../../core/loader.js';
import type { LlamaAddon } from './binding.js';

const ABI = 7;
const require = createRequire(import.meta.url);
const FILE = 'blockstep_llama.node';

let loaded: LlamaAddon | undefined;

/**
 * Loads the addon over llama.cpp at the first call. Loading the addon loads no part of llama.cpp.
 * @throws ERR_BLOCKSTEP_NO_NATIVE if there is none for this platform
 */
export function loadLlamaAddon(): LlamaAddon {
  if (loaded !== undefined) return loaded;
  const given = process.env['BLOCKSTEP_LLAMA_ADDON'];
  const paths = given ? [given] : binaryPaths(FILE, 'blockstep_llama.node');
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) {
    const message = `no native addon over llama.cpp. Looked for ${paths.join(', ')}. Build it: npm rebuild blockstep, in a checkout npm run build:native`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_NATIVE', message);
  }
  let addon: LlamaAddon;
  try {
    addon = require(path) as LlamaAddon;
  } catch (cause) {
    throw new BlockstepError('ERR_BLOCKSTEP_NO_NATIVE', `${path} does not load: ${String(cause)}`, { cause });
  }
  if (addon.abi !== ABI) {
    const message = `${path} has abi ${show(addon.abi)}, expected ${ABI}: rebuild it with "npm run build:native"`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_NATIVE', message);
  }
  loaded = addon;
  return loaded;
}
