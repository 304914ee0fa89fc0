import { badModel } from './bad-model.js';
import type { GgufFile, GgufValue } from './gguf-file.js';

/** The facts of a model's file that can be read without loading the model. */
export interface ModelCard {
  readonly path: string;
  /** The name in the file; null: none. */
  readonly name: string | null;
  readonly architecture: string;
  /** Tokens that the model was trained for, prompt and output together. */
  readonly contextLength: number;
  readonly numLayers: number;
  /** Length of a token's vector, and of the widest vector within a layer. */
  readonly width: number;
  readonly feedForward: number;
  /** Tokens of the vocabulary. */
  readonly numTokens: number;
  /** Keys and values that all layers together keep for each token, in numbers. */
  readonly kvNumbers: { readonly keys: number; readonly values: number };
  /**
   * Numbers that all layers keep of a text of any length: the states of recurrent layers. 0: there
   * are none.
   */
  readonly stateNumbers: number;
  /** Tokens of the sliding window of some layers; 0: no layer has a window. */
  readonly window: number;
  readonly weightBytes: number;
  /** The type of most weights, by bytes. */
  readonly weightType: string;
  /** Whether the model generates text, token by token. */
  readonly generates: boolean;
  /**
   * How an embedding model pools the vectors of tokens. `rank`: the model scores documents. Null:
   * the file does not say.
   */
  readonly pooling: Pooling | null;
  /** The chat template; null: none. */
  readonly chatTemplate: string | null;
  /** Sampling parameters that the makers of the model recommend; empty: none. */
  readonly sampling: Readonly<Partial<Record<'temperature' | 'top_k' | 'top_p' | 'min_p', number>>>;
}

/**
 * Ways to pool the vectors of a text's tokens into one vector, in the order of llama.cpp's numbers.
 */
export const POOLINGS = ['none', 'mean', 'cls', 'last', 'rank'] as const;

/** A way to pool vectors. */
export type Pooling = (typeof POOLINGS)[number];

/** Architectures that make vectors of texts, and generate no text. */
const EMBEDDERS = /^(.*bert.*|gemma-embedding|llama-embed)$/;
/** Architectures that neither generate text nor make vectors. */
const NO_GENERATORS = /^(clip|t5encoder|t5|eagle3|dflash|dream|llada.*|rnd1|wavtokenizer-dec)$/;
/** LLAMA_MAX_LAYERS. */
const MOST_LAYERS = 512;
const SAMPLING = { temperature: 'temp', top_k: 'top_k', top_p: 'top_p', min_p: 'min_p' } as const;

/**
 * Reads the facts of a model from its file.
 * @throws ERR_BLOCKSTEP_BAD_MODEL for a file that is no language model, or lacks a fact that every
 * model has
 */
export function readModelCard({ path, values, tensors, weightBytes }: GgufFile): ModelCard {
  const text = (key: string): string | null => {
    const value = values.get(key);
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const kind = text('general.type') ?? 'model';
  if (kind !== 'model') throw badModel(path, `is not a model, but ${JSON.stringify(kind.slice(0, 60))}`);
  const architecture = text('general.architecture');
  if (architecture === null) throw badModel(path, 'does not name its architecture (general.architecture)');
  if (NO_GENERATORS.test(architecture))
    throw badModel(path, `has the architecture ${architecture}, which generates no text token by token`);
  const { needed, number, perLayer } = numbersOf(path, architecture, values);
  const numLayers = needed('block_count');
  checkAsserted(path, architecture, values, numLayers);
  const width = needed('embedding_length');
  const heads = perLayer('attention.head_count', numLayers, 0);
  const kvHeads = perLayer('attention.head_count_kv', numLayers, null).map(
    (each, i) => each ?? heads[i] ?? 0,
  );
  const headSize = Math.max(...heads) > 0 ? width / Math.max(...heads) : 0;
  const states = stateNumbers(number, width);
  // A hybrid that lists no layers has attention in every `interval`th layer, and states in the
  // others.
  const interval = number('full_attention_interval') ?? 1;
  const hasAttention = kvHeads.map((each, i) => each > 0 && (i + 1) % interval === 0);
  const total = kvHeads.reduce((sum: number, each, i) => sum + (hasAttention[i] ? each : 0), 0);
  const recurrent = states === 0 ? 0 : hasAttention.filter((has) => !has).length || numLayers;
  const listed = values.get('tokenizer.ggml.tokens');
  return {
    path,
    name: text('general.name'),
    architecture,
    contextLength: needed('context_length'),
    numLayers,
    width,
    feedForward: Math.max(0, ...perLayer('feed_forward_length', numLayers, 0).map((each) => each ?? 0)),
    numTokens: number('vocab_size') ?? (typeof listed === 'object' ? listed.length : 0),
    kvNumbers: {
      keys: total * (number('attention.key_length') ?? headSize),
      values: total * (number('attention.value_length') ?? headSize),
    },
    stateNumbers: recurrent * states,
    window: number('attention.sliding_window') ?? 0,
    weightBytes,
    generates: !EMBEDDERS.test(architecture),
    pooling: POOLINGS[number('pooling_type') ?? -1] ?? null,
    weightType: mostOf(tensors),
    chatTemplate: text('tokenizer.chat_template'),
    sampling: Object.fromEntries(
      Object.entries(SAMPLING).flatMap(([name, key]) => {
        const value = values.get(`general.sampling.${key}`);
        return typeof value === 'number' ? [[name, value]] : [];
      }),
    ),
  };
}

/** Refuses values at which an assertion of llama.cpp would abort the process. */
function checkAsserted(
  path: string,
  architecture: string,
  values: ReadonlyMap<string, GgufValue>,
  numLayers: number,
): void {
  if (numLayers > MOST_LAYERS)
    throw badModel(path, `has ${numLayers} layers, and llama.cpp has room for ${MOST_LAYERS} at most`);
  for (const [key, value] of values)
    if (key.endsWith('_epsilon') && typeof value === 'number' && !(value >= 0))
      throw badModel(path, `is damaged: ${key} is ${value}, not a number from 0 on`);
  // The pattern says that the last of so many layers has no window.
  const of = (key: string) => values.get(`${architecture}.attention.${key}`);
  if (Number(of('sliding_window') ?? 0) > 0 && of('sliding_window_pattern') === 1)
    throw badModel(path, 'is damaged: it has a sliding window, and no layer that has it');
}

function numbersOf(path: string, architecture: string, values: ReadonlyMap<string, GgufValue>) {
  const number = (key: string): number | null => {
    const value = values.get(`${architecture}.${key}`);
    return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? value : null;
  };
  const needed = (key: string): number => {
    const value = number(key);
    if (value === null || value < 1 || value >= 2 ** 31)
      throw badModel(path, `does not say its ${key} (${architecture}.${key})`);
    return value;
  };
  /** One value for each layer, from a list or from one number for all layers. */
  const perLayer = <Other>(key: string, numLayers: number, otherwise: Other): (number | Other)[] => {
    const value = values.get(`${architecture}.${key}`);
    const list = Array.isArray(value) ? (value as readonly unknown[]) : null;
    return Array.from({ length: Math.min(numLayers, 2 ** 16) }, (_, layer) => {
      const each = list === null ? value : list[layer];
      return typeof each === 'number' && each >= 0 ? each : otherwise;
    });
  };
  return { needed, number, perLayer };
}

/** Whether a model gives vectors or scores of texts, and generates no text. */
export function isEmbeddingModel({ generates, pooling }: ModelCard): boolean {
  return !generates || (pooling ?? 'none') !== 'none';
}

/** Numbers in the state of one recurrent layer, for Mamba, LFM2 and RWKV. */
function stateNumbers(number: (key: string) => number | null, width: number): number {
  const heads = number('wkv.head_size');
  if (heads !== null) return width * (heads + (number('token_shift_count') ?? 2));
  const short = number('shortconv.l_cache');
  if (short !== null) return width * Math.max(0, short - 1);
  const inner = number('ssm.inner_size') ?? 0;
  const size = number('ssm.state_size') ?? 0;
  const kernel = Math.max(0, (number('ssm.conv_kernel') ?? 0) - 1);
  return kernel * (inner + 2 * (number('ssm.group_count') ?? 0) * size) + size * inner;
}

function mostOf(tensors: GgufFile['tensors']): string {
  const bytes = new Map<string, number>();
  for (const { type, bytes: more } of tensors) bytes.set(type.name, (bytes.get(type.name) ?? 0) + more);
  const [most] = [...bytes].sort(([, a], [, b]) => b - a);
  return most?.[0] ?? 'none';
}
