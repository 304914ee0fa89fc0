import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import { loadLlamaAddon } from './addon.js';
import type { LlamaAddon, NativeLibrary } from './binding.js';
import { LLAMA_VERSIONS, type LlamaVersion } from './versions.js';

/** What llama.cpp computes on. `auto`: Metal on a Mac with Apple's processor, else the CPU. */
export type LlamaVariant = 'auto' | 'cpu' | 'cuda' | 'vulkan' | 'metal';

/** What computes attention on the CPU. `auto`: blockstep's own kernel where that can be; `llama`: llama.cpp's. */
export type LlamaAttention = 'auto' | 'llama';

/** The packages with llama.cpp's libraries, by platform and variant. */
const PACKAGES: Readonly<Record<string, Partial<Record<LlamaVariant, string>>>> = {
  'linux-x64': { cpu: 'linux-x64', cuda: 'linux-x64-cuda', vulkan: 'linux-x64-vulkan' },
  'linux-arm64': { cpu: 'linux-arm64' },
  'linux-arm': { cpu: 'linux-armv7l' },
  'linux-riscv64': { cpu: 'linux-riscv64' },
  'darwin-arm64': { metal: 'mac-arm64-metal' },
  'darwin-x64': { cpu: 'mac-x64' },
  'win32-x64': { cpu: 'win-x64', cuda: 'win-x64-cuda', vulkan: 'win-x64-vulkan' },
  'win32-arm64': { cpu: 'win-arm64' },
};

/** llama.cpp in this process. */
export interface LlamaLibrary extends NativeLibrary {
  readonly addon: LlamaAddon;
  readonly folder: string;
}

/**
 * The package that has llama.cpp for this platform.
 * @throws ERR_BLOCKSTEP_NO_PACKAGE if there is none for it
 */
export function libraryPackage(variant: LlamaVariant): string {
  const platform = `${process.platform}-${process.arch}`;
  const packages = PACKAGES[platform] ?? {};
  const name = variant === 'auto' ? (packages.metal ?? packages.cpu) : packages[variant];
  if (name !== undefined) return `@node-llama-cpp/${name}`;
  const there = Object.keys(packages).join(', ') || 'none';
  const message = `there is no package of llama.cpp for ${variant} on ${platform}; for this platform there is: ${there}`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', message);
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
  const where = folder === null ? await folderOfPackage(libraryPackage(variant)) : resolve(folder);
  const files = filesIn(where);
  const [{ commit }] = LLAMA_VERSIONS;
  try {
    return {
      ...addon.load({ ...files, commit, attention: attention === 'auto' ? '' : attention }),
      addon,
      folder: where,
    };
  } catch (cause) {
    throw refused(`llama.cpp in ${where} cannot be used: ${describeError(cause)}`, cause);
  }
}

async function folderOfPackage(name: string): Promise<string> {
  const [{ packages }] = LLAMA_VERSIONS;
  const module = await optionalPackage<{ getBinsDir: () => { binsDir: string; packageVersion: string } }>(
    name,
    packages,
    'a model of llama.cpp',
  );
  const { binsDir, packageVersion } = module.getBinsDir();
  if (!LLAMA_VERSIONS.some((version) => version.packages === packageVersion))
    throw refused(`${name} is version ${packageVersion}`, null);
  const [only = ''] = readdirSync(binsDir);
  return join(binsDir, only);
}

/** The files of the libraries. Their names have the variant and the release in them, differently on each platform. */
function filesIn(folder: string): { folder: string; ggmlBase: string; ggml: string; llama: string } {
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch (cause) {
    throw refused(`${folder} cannot be read: ${describeError(cause)}`, cause);
  }
  const find = (name: string): string => {
    const pattern = new RegExp(`^(lib)?${name}(\\.(cuda|vulkan|metal))?(\\.v[\\d.]+)?\\.(so|dylib|dll)$`);
    const found = names.find((candidate) => pattern.test(candidate));
    if (found === undefined) throw refused(`${folder} has no library ${name}`, null);
    return join(folder, found);
  };
  return { folder, ggmlBase: find('ggml-base'), ggml: find('ggml'), llama: find('llama') };
}

function refused(what: string, cause: unknown): BlockstepError {
  const [{ packages, release }] = LLAMA_VERSIONS;
  const message = `${what}. What works is llama.cpp ${release}: npm install ${safePackage()}@${packages}`;
  return new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', message, cause === null ? {} : { cause });
}

function safePackage(): string {
  try {
    return libraryPackage('auto');
  } catch {
    return 'node-llama-cpp';
  }
}

export type { LlamaVersion };
