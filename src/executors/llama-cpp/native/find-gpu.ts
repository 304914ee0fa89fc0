/** A process that loads llama.cpp's library and says whether it finds a GPU: `node find-gpu FILES`, exit code 0 if it does. */
import { loadLlamaAddon } from './addon.js';
import type { NativeLibraryFiles } from './binding.js';

const files = JSON.parse(process.argv[2] ?? '{}') as NativeLibraryFiles;
const { devices } = loadLlamaAddon().load({ ...files, attention: 'llama' });
process.exitCode = devices.some(({ isGpu }) => isGpu) ? 0 : 3;
