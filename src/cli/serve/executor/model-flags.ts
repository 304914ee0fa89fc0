import { InvalidArgumentError, Option } from 'commander';
import type { CacheType } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import { CACHE_TYPE_NAMES } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import type { LlamaAttention, LlamaVariant } from '../../../executors/llama-cpp/index.js';
import { REASONING_PARSERS, TOOL_CALL_PARSERS } from '../../../serve/answers/parsers.js';
import { parse } from '../../terminal/flag-values.js';

/** The values of the flags that go with `--model`. */
export interface ModelFlags {
  model?: string;
  ctx?: number;
  variant: LlamaVariant;
  gpuLayers?: number;
  threads?: number;
  cacheType: CacheType;
  attention: LlamaAttention;
  memory?: number;
  chatTemplate?: string;
  toolCallParser: string;
  reasoningParser: string;
}

/** The flags that go with `--model` alone. */
export const MODEL_FLAGS = [
  'ctx',
  'variant',
  'gpuLayers',
  'threads',
  'cacheType',
  'attention',
  'memory',
  'chatTemplate',
  'toolCallParser',
  'reasoningParser',
] as const;

const VARIANTS: readonly LlamaVariant[] = ['auto', 'cpu', 'cuda', 'vulkan', 'metal'];

/** The flags that say which model is served, and how llama.cpp runs it. */
export function modelFlags(): readonly Option[] {
  return [
    new Option(
      '--model <file>',
      'a model in a GGUF file, run by llama.cpp; hf:OWNER/NAME[:QUANT] is fetched from Hugging Face',
    ),
    new Option(
      '--ctx <n>',
      'most tokens of a request, prompt and output (default: what the model was trained for, at most 8192, and what fits)',
    ).argParser(parse.count),
    new Option(
      '--variant <name>',
      'what llama.cpp computes on; auto is Metal on a Mac of Apple’s, else the CPU',
    )
      .choices([...VARIANTS])
      .default('auto'),
    new Option('--gpu-layers <n>', 'layers whose weights lie on the GPU (default: all)').argParser(layers),
    new Option(
      '--threads <n>',
      'threads that compute on the CPU (default: one less than there are processors, at most 8)',
    ).argParser(parse.count),
    new Option('--cache-type <name>', 'how keys and values are kept')
      .choices([...CACHE_TYPE_NAMES])
      .default('f16'),
    new Option(
      '--attention <name>',
      'what computes attention on the CPU; auto is blockstep’s kernel where it can be, else llama.cpp’s',
    )
      .choices(['auto', 'llama'])
      .default('auto'),
    new Option(
      '--memory <gib>',
      'GiB that weights and KV cache may take together (default: nine tenths of what is free)',
    ).argParser(parse.positive),
    new Option('--chat-template <file>', 'a chat template in Jinja, in place of the model’s own'),
    new Option(
      '--tool-call-parser <name>',
      'the form in which the model calls tools; auto is that of its template, none leaves calls as text',
    )
      .choices(['auto', 'none', ...Object.keys(TOOL_CALL_PARSERS)])
      .default('auto'),
    new Option('--reasoning-parser <name>', 'the form in which the model thinks; auto and none as above')
      .choices(['auto', 'none', ...Object.keys(REASONING_PARSERS)])
      .default('auto'),
  ];
}

function layers(text: string): number {
  const value = parse.integer(text);
  if (value >= 0) return value;
  throw new InvalidArgumentError('Expected an integer >= 0.');
}
