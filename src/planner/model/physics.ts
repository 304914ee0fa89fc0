import { checkNumber, isObject } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { Gpu } from './gpus.js';

/**
 * The bytes and operations of a step on one of the GPUs that share a model, and the peak speeds of
 * that GPU.
 */
export interface Physics {
  /** Bytes of weights that every step reads. */
  weightBytes: number;
  /** Bytes of all experts, their number, and how many a token uses; all 0 in a dense model. */
  expertBytes: number;
  experts: number;
  expertsPerToken: number;
  /**
   * Operations for a token, for a sampled request, and for a pair of a token and a token that it
   * attends to.
   */
  flopsPerToken: number;
  flopsPerRow: number;
  flopsPerPair: number;
  /** Bytes of KV cache of a token. */
  kvBytesPerToken: number;
  /** Bytes that a token costs between GPUs; 0 with a single GPU. */
  commBytesPerToken: number;
  memoryBytesPerSecond: number;
  flopsPerSecond: number;
  linkBytesPerSecond: number;
}

const PHYSICS = knownNames<Physics>('the physics of a profile', {
  weightBytes: true,
  expertBytes: true,
  experts: true,
  expertsPerToken: true,
  flopsPerToken: true,
  flopsPerRow: true,
  flopsPerPair: true,
  kvBytesPerToken: true,
  commBytesPerToken: true,
  memoryBytesPerSecond: true,
  flopsPerSecond: true,
  linkBytesPerSecond: true,
});
const SPEEDS: readonly string[] = ['memoryBytesPerSecond', 'flopsPerSecond', 'linkBytesPerSecond'];

/**
 * A checked copy.
 * @throws ERR_BLOCKSTEP_BAD_ARG unless all are finite, none is negative, and speeds are not 0
 */
export function parsePhysics(value: unknown): Physics {
  if (!isObject(value)) throw badArgument('physics', show(value), 'an object');
  checkNames(value, PHYSICS);
  const parsed: Record<string, number> = {};
  for (const name of PHYSICS.names) {
    parsed[name] = checkNumber(`physics.${name}`, value[name], SPEEDS.includes(name) ? 1 : 0);
  }
  return parsed as unknown as Physics;
}

/**
 * The fields that are read from a model's `config.json`, as Hugging Face's transformers write it.
 */
interface ModelConfig {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  readonly isTied: boolean;
  readonly experts: number;
  readonly expertsPerToken: number;
  readonly expertIntermediate: number;
  readonly weightBits: number;
}

/**
 * A model on GPUs: its costs, and the tokens of KV cache that fit beside the weights in nine tenths
 * of the memory.
 */
export interface ModelOnGpus {
  readonly physics: Physics;
  /** Below 0 if the weights do not fit. */
  readonly kvTokens: number;
}

/** Bytes of an activation and of a number of the KV cache. */
const BYTES = 2;
const USED_MEMORY = 0.9;

/**
 * A model on GPUs, by its `config.json` and their data sheet. Models shaped like Llama, Qwen,
 * Mistral or Mixtral are supported.
 * @param config the parsed `config.json`
 * @param gpus how many GPUs share the model by tensor parallelism
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the field that is missing or wrong
 */
export function physicsOf(config: unknown, gpu: Gpu, gpus: number): ModelOnGpus {
  checkInteger('gpus', gpus, 1, 64);
  const model = parseConfig(config);
  const { layers, hidden, heads, kvHeads, headSize, intermediate, vocabulary, experts } = model;
  if (heads % gpus !== 0)
    throw badArgument('gpus', show(gpus), `a divisor of num_attention_heads (${heads})`);
  const attention = 2 * hidden * heads * headSize + 2 * hidden * kvHeads * headSize;
  const expert = 3 * hidden * model.expertIntermediate;
  const dense = experts > 0 ? hidden * experts : 3 * hidden * intermediate;
  const head = hidden * vocabulary;
  const bytes = model.weightBits / 8;
  const perToken = layers * (attention + dense + model.expertsPerToken * expert);
  // If there are more GPUs than KV heads, GPUs hold copies of the heads.
  const kvShare = Math.max(1 / gpus, 1 / kvHeads);
  const kvBytesPerToken = 2 * layers * kvHeads * headSize * BYTES * kvShare;
  // The output head stays in 16 bits if weights are quantised.
  const weightBytes = (layers * (attention + dense) * bytes + head * BYTES) / gpus;
  const expertBytes = (layers * experts * expert * bytes) / gpus;
  const embedding = model.isTied ? 0 : (head * BYTES) / gpus;
  const free = USED_MEMORY * gpu.memoryBytes - weightBytes - expertBytes - embedding;
  return {
    physics: {
      weightBytes,
      expertBytes,
      experts,
      expertsPerToken: model.expertsPerToken,
      flopsPerToken: (2 * perToken) / gpus,
      flopsPerRow: (2 * head) / gpus,
      flopsPerPair: (4 * layers * heads * headSize) / gpus,
      kvBytesPerToken,
      commBytesPerToken: gpus === 1 ? 0 : ((2 * layers * 2 * (gpus - 1)) / gpus) * hidden * BYTES,
      memoryBytesPerSecond: gpu.memoryBytesPerSecond,
      flopsPerSecond: gpu.flopsPerSecond * (model.weightBits < 16 ? 2 : 1),
      linkBytesPerSecond: gpu.linkBytesPerSecond,
    },
    kvTokens: Math.floor(free / kvBytesPerToken),
  };
}

const MOST = 2 ** 31;

function parseConfig(config: unknown): ModelConfig {
  if (!isObject(config)) throw badArgument('config.json', show(config), 'an object');
  // Vision models describe their language model separately.
  const text = isObject(config['text_config']) ? config['text_config'] : config;
  const read = (names: readonly string[], otherwise?: number): number => {
    const name = names.find((each) => text[each] !== undefined && text[each] !== null);
    if (name === undefined && otherwise !== undefined) return otherwise;
    return checkInteger(`config.json: ${names[0]}`, text[name ?? names[0]], 1, MOST);
  };
  const heads = read(['num_attention_heads']);
  const hidden = read(['hidden_size']);
  const experts = read(['num_local_experts', 'num_experts', 'n_routed_experts'], 0);
  const intermediate = read(['intermediate_size'], experts > 0 ? 0 : undefined);
  return {
    layers: read(['num_hidden_layers']),
    hidden,
    heads,
    kvHeads: read(['num_key_value_heads'], heads),
    headSize: read(['head_dim'], Math.floor(hidden / heads)),
    intermediate,
    vocabulary: read(['vocab_size']),
    isTied: text['tie_word_embeddings'] === true,
    experts,
    expertsPerToken: experts === 0 ? 0 : read(['num_experts_per_tok']),
    expertIntermediate: experts === 0 ? 0 : read(['moe_intermediate_size'], intermediate),
    weightBits: weightBitsOf(config),
  };
}

function weightBitsOf(config: Record<string, unknown>): number {
  const quantised = config['quantization_config'];
  if (!isObject(quantised)) return 16;
  if (typeof quantised['bits'] === 'number')
    return checkNumber('config.json: bits', quantised['bits'], 1, 16);
  const method = String(quantised['quant_method']);
  if (/fp8|int8|w8a8/i.test(method)) return 8;
  if (/fp4|awq|gptq/i.test(method)) return 4;
  throw badArgument('config.json: quantization_config', show(method), 'bits, or a method of 8 or 4 bits');
}
