// Loads the library of llama.cpp; resolves `auto`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { describeError } from '../../../base/errors.js';
import { scriptArguments } from '../../../base/scripts/script-file.js';
import { loadLlamaAddon } from './addon.js';
import type { LlamaAddon, NativeLibrary } from './binding.js';
import {
  filesIn,
  type LibraryFolders,
  type LlamaVariant,
  libraryPackage,
  packageFolders,
  refused,
} from './packages.js';

/** Packages for GPUs, in the order of the search. */
const GPUS = ['cuda', 'vulkan'] as const;
/** Milliseconds that a driver has to report a GPU. */
const FIND_MS = 60_000;

/** The attention kernel on the CPU. `auto`: blockstep's own if possible; `llama`: llama.cpp's. */
export type LlamaAttention = 'auto' | 'llama';

/** llama.cpp in this process. */
export interface LlamaLibrary extends NativeLibrary {
  readonly addon: LlamaAddon;
  readonly folder: string;
}

/** Whether a library found a GPU. */
export function hasGpu({ devices }: Pick<NativeLibrary, 'devices'>): boolean {
  return devices.some(({ isGpu }) => isGpu);
}

/** Finds packages and GPUs; tests pass others. */
export interface Finders {
  /** The folders of a package. The promise is rejected if the package is missing. */
  folders(name: string): Promise<LibraryFolders>;
  findsGpu(folders: LibraryFolders): Promise<boolean>;
}

/**
 * The variant that `auto` stands for. The first caller decides, because a process can load only one
 * variant.
 */
let found: Promise<LlamaVariant> | null = null;

/**
 * The variant that `auto` stands for on this machine. It is CUDA or Vulkan, if its package is
 * installed and its library finds a device. Otherwise it is Metal on a Mac with Apple's processor,
 * otherwise the CPU. Each library is tried in its own process, because a process can load only one.
 */
export function findLlamaVariant(): Promise<LlamaVariant> {
  found ??= chooseVariant({ folders: packageFolders, findsGpu });
  return found;
}

/** See `findLlamaVariant`. */
export async function chooseVariant({ folders, findsGpu: finds }: Finders): Promise<LlamaVariant> {
  for (const variant of GPUS) {
    try {
      if (await finds(await folders(libraryPackage(variant)))) return variant;
    } catch {
      // The package is not installed, has another version, or does not exist for this platform.
    }
  }
  return 'auto';
}

/** Whether a library finds a GPU. False if the library cannot be loaded, or ends the process. */
export async function findsGpu(folders: LibraryFolders): Promise<boolean> {
  const files = JSON.stringify(filesIn(folders));
  const child = spawn(process.execPath, [...scriptArguments(import.meta.url, './find-gpu'), files], {
    stdio: 'ignore',
    timeout: FIND_MS,
    killSignal: 'SIGKILL',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code === 0;
}

/**
 * Loads llama.cpp.
 * @param folder the folder of its libraries; null: in the package of this platform
 * @throws ERR_BLOCKSTEP_NO_PACKAGE if it is missing, does not load, or has a version that does not
 * work; ERR_BLOCKSTEP_NO_NATIVE
 */
export async function loadLibrary(
  variant: LlamaVariant,
  folder: string | null,
  attention: LlamaAttention,
): Promise<LlamaLibrary> {
  const addon = loadLlamaAddon();
  const folders =
    folder === null
      ? await packageFolders(libraryPackage(variant))
      : { folder: resolve(folder), fallback: '' };
  const files = filesIn(folders);
  try {
    return {
      ...addon.load({ ...files, attention: attention === 'auto' ? '' : attention }),
      addon,
      folder: folders.folder,
    };
  } catch (cause) {
    throw refused(`llama.cpp in ${folders.folder} cannot be used: ${describeError(cause)}`, cause);
  }
}
