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

/** Packages for GPUs, in the order in which they are looked for. */
const GPUS = ['cuda', 'vulkan'] as const;
/** Milliseconds that a driver is given to say whether there is a GPU. */
const FIND_MS = 60_000;

/** What computes attention on the CPU. `auto`: blockstep's own kernel where that can be; `llama`: llama.cpp's. */
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

/** Finds packages and GPUs; tests hand in others. */
export interface Finders {
  /** The folders of a package, by rejection that it is not there. */
  folders(name: string): Promise<LibraryFolders>;
  findsGpu(folders: LibraryFolders): Promise<boolean>;
}

/** What `auto` was found to mean, by whoever asked first: a process can load one variant. */
let found: Promise<LlamaVariant> | null = null;

/**
 * What `auto` means on this machine: CUDA or Vulkan, where its package is installed and its library finds a device; else Metal on a Mac of
 * Apple's, else the CPU. Each library is tried in a process of its own, since a process can load one alone.
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
      // It is not installed, of another version, or there is none for this platform.
    }
  }
  return 'auto';
}

/** Whether a library finds a GPU. One that cannot be loaded, or ends the process, finds none. */
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
 * @param folder where its libraries lie; null: in the package of this platform
 * @throws ERR_BLOCKSTEP_NO_PACKAGE if it is missing, does not load, or is another version than those that work; ERR_BLOCKSTEP_NO_NATIVE
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
