import { InvalidArgumentError, Option } from 'commander';
import type { CacheType } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import { CACHE_TYPE_NAMES } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import type { LlamaAttention, LlamaVariant } from '../../../executors/llama-cpp/index.js';
import { REASONING_PARSERS, TOOL_CALL_PARSERS } from '../../../serve/answers/parsers.js';
import { parse } from '../../terminal/flag-values.js';

/** The values of the flags that are only valid with `--model`. */
export interface ModelFlags {
  model?: string;
  ctx?: number;
  lora?: Readonly<Record<string, string>>;
  /** Only known so that its refusal gives advice. */
  contextShift?: boolean;
  variant: LlamaVariant;
  gpuLayers?: number;
  threads?: number;
  cacheType: CacheType;
  attention: LlamaAttention;
  memory?: number;
  kvOffloadingSize?: number;
  kvOffloadingPath?: string;
  chatTemplate?: string;
  toolCallParser: string;
  reasoningParser: string;
}

/** The flags that are only valid with `--model`. */
export const MODEL_FLAGS = [
  'ctx',
  'lora',
  'contextShift',
  'variant',
  'gpuLayers',
  'threads',
  'cacheType',
  'attention',
  'memory',
  'kvOffloadingSize',
  'kvOffloadingPath',
  'chatTemplate',
  'toolCallParser',
  'reasoningParser',
] as const;

const VARIANTS: readonly LlamaVariant[] = ['auto', 'cpu', 'cuda', 'vulkan', 'metal'];

/** The flags for the model, and how llama.cpp runs it. */
export function modelFlags(): readonly Option[] {
  return [
    new Option(
      '--model <file>',
      'GGUF file to run with llama.cpp; hf:OWNER/NAME[:QUANT] downloads it from Hugging Face',
    ),
    new Option(
      '--ctx <n>',
      'most tokens of a request, prompt and output (default: what the model was trained for, at most 8192, and what fits)',
    ).argParser(parse.count),
    new Option(
      '--lora <name=path...>',
      'LoRA adapters in GGUF files; a request chooses one by its name in place of the model’s',
    ).argParser(addLora),
    new Option('--context-shift').hideHelp(),
    new Option(
      '--variant <name>',
      'backend of llama.cpp; auto takes CUDA or Vulkan if its package is installed and finds a GPU, Metal on Apple silicon, otherwise the CPU',
    )
      .choices([...VARIANTS])
      .default('auto'),
    new Option('--gpu-layers <n>', 'layers whose weights lie on the GPU (default: all)').argParser(layers),
    new Option(
      '--threads <n>',
      'threads that compute on the CPU (default: one less than there are processors, at most 8)',
    ).argParser(parse.count),
    new Option('--cache-type <name>', 'type of the keys and values in the cache')
      .choices([...CACHE_TYPE_NAMES])
      .default('f16'),
    new Option(
      '--attention <name>',
      'attention kernel on the CPU; auto takes blockstep’s where it works, otherwise llama.cpp’s',
    )
      .choices(['auto', 'llama'])
      .default('auto'),
    new Option(
      '--memory <gib>',
      'GiB that weights and KV cache may take together (default: nine tenths of what is free)',
    ).argParser(parse.positive),
    new Option(
      '--kv-offloading-size <gib>',
      'GiB of host memory for KV blocks beyond the cache; a prefix that left the cache is loaded from there',
    ).argParser(parse.positive),
    new Option(
      '--kv-offloading-path <folder>',
      'folder on disk for the KV blocks of prefixes that come again, also after a restart; with 1 GiB of host memory unless you set it',
    ),
    new Option('--chat-template <file>', 'Jinja chat template that replaces the model’s own'),
    new Option(
      '--tool-call-parser <name>',
      'format of the model’s tool calls; auto takes the format of its template, none leaves calls as text',
    )
      .choices(['auto', 'none', ...Object.keys(TOOL_CALL_PARSERS)])
      .default('auto'),
    new Option('--reasoning-parser <name>', 'format of the model’s reasoning; auto and none as above')
      .choices(['auto', 'none', ...Object.keys(REASONING_PARSERS)])
      .default('auto'),
  ];
}

/** Adds an adapter to those before it on the command line. */
function addLora(
  text: string,
  before: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const at = text.indexOf('=');
  const name = text.slice(0, at);
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError('Expected NAME=PATH.');
  if (before !== undefined && Object.hasOwn(before, name))
    throw new InvalidArgumentError(`There are two adapters of the name ${name}.`);
  return { ...before, [name]: text.slice(at + 1) };
}

function layers(text: string): number {
  const value = parse.integer(text);
  if (value >= 0) return value;
  throw new InvalidArgumentError('Expected an integer >= 0.');
}
