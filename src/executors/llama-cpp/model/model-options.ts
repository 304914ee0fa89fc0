// The options of loading a model.
import { badArg, checkBoolean, checkName, checkOneOf, isObject } from '../../../base/checks.js';
import { checkInteger } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import type { LlamaAttention } from '../native/library.js';
import type { LlamaVariant } from '../native/packages.js';

/** Options of `openLlamaModel`. */
export interface LlamaModelOptions {
  /**
   * Path of a GGUF file, the first of several parts. `downloadLlamaModel` returns the path of a
   * model of Hugging Face.
   */
  readonly path: string;
  /**
   * The device type that llama.cpp computes on. It selects the package:
   * `@node-llama-cpp/linux-x64`, `@node-llama-cpp/linux-x64-cuda` and so on. A process can load
   * only one package. Default `auto`: CUDA or Vulkan, if its package is installed and its library
   * finds a device. Otherwise Metal on a Mac with Apple's processor, otherwise the CPU.
   */
  readonly variant?: LlamaVariant;
  /**
   * Folder with llama.cpp's libraries, in place of a package. Default: the environment variable
   * BLOCKSTEP_LLAMA_LIBRARY, else none.
   */
  readonly libraryFolder?: string;
  /**
   * The attention kernel on the CPU. `auto` (default): blockstep's kernel if it is correct and can
   * be installed, else llama.cpp's. `llama`: llama.cpp's. All models of a process share the choice.
   */
  readonly attention?: LlamaAttention;
  /** Layers whose weights lie on a GPU; -1: all. Default: all, and 0 with the variant `cpu`. */
  readonly gpuLayers?: number;
  /**
   * Maps the file into memory instead of reading it, so that processes share the memory. Default
   * true.
   */
  readonly memoryMap?: boolean;
  /**
   * LoRA adapters by name: each one a GGUF file. The `adapter` of a request names one of them.
   * Default: none.
   */
  readonly loras?: Readonly<Record<string, string>>;
  /** Checks the values of all tensors, which takes long. Default false. */
  readonly checkTensors?: boolean;
  /**
   * Called with the progress of the loading, from 0 to 1. An error that it throws is an uncaught
   * exception.
   */
  readonly onProgress?: (share: number) => void;
  /** Ends the loading; the promise is rejected with its reason. */
  readonly signal?: AbortSignal;
}

const OPTIONS = knownNames<LlamaModelOptions>('the options of openLlamaModel', {
  path: true,
  variant: true,
  libraryFolder: true,
  attention: true,
  gpuLayers: true,
  memoryMap: true,
  loras: true,
  checkTensors: true,
  onProgress: true,
  signal: true,
});

export interface ResolvedModelOptions {
  readonly path: string;
  readonly variant: LlamaVariant;
  readonly libraryFolder: string | null;
  readonly attention: LlamaAttention;
  readonly gpuLayers: number;
  readonly memoryMap: boolean;
  readonly loras: ReadonlyMap<string, string>;
  readonly checkTensors: boolean;
  readonly onProgress: (share: number) => void;
  readonly signal: AbortSignal | null;
}

/** Reads each option once. @throws ERR_BLOCKSTEP_BAD_ARG */
export function resolveModelOptions(options: LlamaModelOptions): ResolvedModelOptions {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const { path, variant, libraryFolder, attention, gpuLayers, memoryMap = true } = options;
  const { loras = {}, checkTensors = false, onProgress = () => {}, signal = null } = options;
  if (typeof path !== 'string' || path === '') throw badArg('path', path, 'the path of a GGUF file');
  const folder = libraryFolder ?? process.env['BLOCKSTEP_LLAMA_LIBRARY'] ?? null;
  if (folder !== null && typeof folder !== 'string') throw badArg('libraryFolder', folder, 'a path');
  if (typeof onProgress !== 'function') throw badArg('onProgress', onProgress, 'a function');
  if (signal !== null && !(signal instanceof AbortSignal)) throw badArg('signal', signal, 'an AbortSignal');
  const parsed = checkOneOf('variant', variant, ['auto', 'cpu', 'cuda', 'vulkan', 'metal']);
  return {
    path,
    variant: parsed,
    libraryFolder: folder === '' ? null : folder,
    attention: checkOneOf('attention', attention, ['auto', 'llama']),
    gpuLayers:
      gpuLayers === undefined
        ? parsed === 'cpu'
          ? 0
          : -1
        : checkInteger('gpuLayers', gpuLayers, -1, 2 ** 20),
    memoryMap: checkBoolean('memoryMap', memoryMap),
    loras: readLoras(loras),
    checkTensors: checkBoolean('checkTensors', checkTensors),
    onProgress,
    signal,
  };
}

function readLoras(loras: unknown): ReadonlyMap<string, string> {
  if (!isObject(loras)) throw badArg('loras', loras, 'an object of paths by name');
  const read = Object.entries(loras);
  for (const [name, path] of read) {
    checkName('the name of an adapter', name, 1);
    if (typeof path !== 'string' || path === '')
      throw badArg(`loras[${JSON.stringify(name.slice(0, 60))}]`, path, 'the path of a GGUF file');
  }
  return new Map(read as [string, string][]);
}
