import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import type { NativeLibraryFiles } from './binding.js';
import { LLAMA_VERSIONS } from './versions.js';

/**
 * The device type that llama.cpp computes on. `auto`: a GPU if its package is installed and its
 * library finds a device, else the CPU.
 */
export type LlamaVariant = 'auto' | 'cpu' | 'cuda' | 'vulkan' | 'metal';

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

/** The folders of llama.cpp's libraries. */
export interface LibraryFolders {
  readonly folder: string;
  /**
   * Libraries for GPUs that are too old for the package's own, in a package of their own; '': none.
   */
  readonly fallback: string;
}

/**
 * The package of llama.cpp for this platform. For `auto`, the package that every machine of the
 * platform can use.
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

/** The folders of a package and of its companion. @throws by rejection ERR_BLOCKSTEP_NO_PACKAGE */
export async function packageFolders(name: string): Promise<LibraryFolders> {
  const folder = await binsOf(name);
  try {
    return { folder, fallback: join(await binsOf(`${name}-ext`), 'fallback') };
  } catch {
    return { folder, fallback: '' };
  }
}

async function binsOf(name: string): Promise<string> {
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

/**
 * The files of the libraries. The names contain the variant and the release, differently on each
 * platform.
 */
export function filesIn({ folder, fallback }: LibraryFolders): Omit<NativeLibraryFiles, 'attention'> {
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
  const [{ commit }] = LLAMA_VERSIONS;
  return { folder, fallback, ggmlBase: find('ggml-base'), ggml: find('ggml'), llama: find('llama'), commit };
}

/** The error that refuses a library, and names the package to install. */
export function refused(what: string, cause: unknown): BlockstepError {
  const [{ packages, release }] = LLAMA_VERSIONS;
  const message = `${what}. The supported version is llama.cpp ${release}: npm install ${safePackage()}@${packages}`;
  return new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', message, cause === null ? {} : { cause });
}

function safePackage(): string {
  try {
    return libraryPackage('auto');
  } catch {
    return 'node-llama-cpp';
  }
}
