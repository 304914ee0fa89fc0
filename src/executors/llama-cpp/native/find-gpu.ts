/**
 * A process that loads llama.cpp's library and looks for a GPU: `node find-gpu FILES` exits with
 * code 0 if it finds one.
 */
import { loadLlamaAddon } from './addon.js';
import type { NativeLibraryFiles } from './binding.js';

const files = JSON.parse(process.argv[2] ?? '{}') as NativeLibraryFiles;
const { devices } = loadLlamaAddon().load({ ...files, attention: 'llama' });
process.exitCode = devices.some(({ isGpu }) => isGpu) ? 0 : 3;
