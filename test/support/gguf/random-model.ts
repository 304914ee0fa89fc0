import { GgufFile, type WeightType } from './gguf-file.js';
import { RandomWeights } from './random-weights.js';
import { SPECIAL_TOKENS, type VocabularyKind, writeVocabulary } from './vocabulary.js';

/** A model of random weights. Small enough to be made and run in a test, large enough that every token depends on those before. */
export interface RandomModel {
  /**
   * `llama`: attention alone. `gemma3`: every second layer has a sliding window. `mamba`: states alone. `lfm2`: every second layer
   * has a state, the others attention. `bert`: reads a text in both directions, and generates none. Default `llama`.
   */
  readonly architecture?: 'llama' | 'gemma3' | 'mamba' | 'lfm2' | 'bert';
  /** How matrices are stored. Default F32. */
  readonly weights?: WeightType;
  /** Default `gpt2`. */
  readonly vocabulary?: VocabularyKind;
  /** How `gpt2` cuts a text into words, by llama.cpp's name (`tokenizer.ggml.pre`). Default `default`. */
  readonly preTokenizer?: string;
  /** Tokens of the vocabulary. Default 384. */
  readonly numTokens?: number;
  /** Default 1. */
  readonly seed?: number;
  /** Numbers of a token's vector. Default 64. */
  readonly width?: number;
  /** Default 4. */
  readonly layers?: number;
  /** Heads of queries. Default 4. */
  readonly heads?: number;
  /** Heads of keys and values, each for several of queries. Default 2. */
  readonly kvHeads?: number;
  /** Default three times the width. */
  readonly feedForward?: number;
  /** Default 4,096. */
  readonly contextLength?: number;
  /** Tokens of a sliding window, with `gemma3`. Default 64. */
  readonly window?: number;
  /**
   * How vectors of tokens become one of a text, by llama.cpp's numbers: 1 mean, 2 of the first, 3
   * of the last, 4 a score. Default null: not written.
   */
  readonly pooling?: number | null;
  /** Default `CHAT_TEMPLATE`; null: none. */
  readonly chatTemplate?: string | null;
  /** Changes the weights of each matrix, in place, row after row. Default: nothing. */
  readonly change?: (name: string, shape: readonly [number, number], weights: Float32Array) => void;
}

/** A chat template as models have it: system messages, tools, and an error for what it cannot say. */
export const CHAT_TEMPLATE = `{{- bos_token }}
{%- if tools %}{{ '<|im_start|>system\\nTools: ' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('no role ' + message.role) }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{ '<call>' + (call.function | tojson) + '</call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

type Model = Required<RandomModel>;

/** Writes a model of random weights as a GGUF file. Equal models have equal bytes. */
export function writeRandomModel(path: string, model: RandomModel = {}): void {
  randomModelFile(whole(model)).write(path);
}

/** Writes such a model in several parts. @returns their paths, NAME-00001-of-0000N.gguf and so on */
export function writeModelParts(prefix: string, count: number, model: RandomModel = {}): readonly string[] {
  return randomModelFile(whole(model)).writeParts(prefix, count);
}

function whole(model: RandomModel): Model {
  const width = model.width ?? 64;
  return {
    architecture: 'llama',
    weights: 'F32',
    vocabulary: 'gpt2',
    preTokenizer: 'default',
    numTokens: 384,
    seed: 1,
    width,
    layers: 4,
    heads: 4,
    kvHeads: 2,
    feedForward: 3 * width,
    contextLength: 4096,
    window: 64,
    pooling: null,
    chatTemplate: CHAT_TEMPLATE,
    change: () => {},
    ...model,
  };
}

/** The ids of the tokens that end a generation of such a model, ascending. */
export function endTokens(vocabulary: VocabularyKind = 'gpt2'): readonly number[] {
  return vocabulary === 'llama' ? [2, 4] : [1, 3];
}

/** The text of the token that begins every prompt. */
export function beginText(vocabulary: VocabularyKind = 'gpt2'): string {
  return SPECIAL_TOKENS[vocabulary].bos;
}

/** The matrices of a model, in the order of its file: those that an adapter can change. */
export function matricesOf(model: RandomModel): { name: string; shape: readonly [number, number] }[] {
  const found: { name: string; shape: readonly [number, number] }[] = [];
  randomModelFile(whole(model), (name, shape) => found.push({ name, shape }));
  return found;
}

function randomModelFile(
  model: Model,
  onMatrix: (name: string, shape: readonly [number, number]) => void = () => {},
): GgufFile {
  const { architecture, weights, vocabulary, numTokens, width, layers, chatTemplate } = model;
  const file = new GgufFile();
  file.text('general.architecture', architecture);
  file.text('general.name', `random ${architecture}`);
  file.u32('general.file_type', weights === 'F32' ? 0 : 7);
  const key = (name: string) => `${architecture}.${name}`;
  file.u32(key('context_length'), model.contextLength);
  file.u32(key('embedding_length'), width);
  file.u32(key('block_count'), layers);
  file.u32(key('feed_forward_length'), architecture === 'mamba' ? 0 : model.feedForward);
  file.u32(key('vocab_size'), numTokens);
  file.f32(key('attention.layer_norm_rms_epsilon'), 1e-5);
  if (model.pooling !== null) file.u32(key('pooling_type'), model.pooling);
  LAYERS[architecture].head(file, model, key);
  writeVocabulary(file, vocabulary, numTokens, model.preTokenizer);
  if (chatTemplate !== null) file.text('tokenizer.chat_template', chatTemplate);
  const random = new RandomWeights(model.seed);
  const put: Put = {
    matrix: (name, shape, gain) => {
      onMatrix(name, shape);
      const fill = random.normal(gain / Math.sqrt(shape[0]));
      file.tensor(`${name}.weight`, shape, weights, (numbers) => {
        fill(numbers);
        model.change(name, shape, numbers);
      });
    },
    ones: (name, size) => file.tensor(`${name}.weight`, [size], 'F32', random.all(1)),
    small: (name, shape, least, most) => file.tensor(name, shape, 'F32', random.between(least, most)),
  };
  put.matrix('token_embd', [width, numTokens], Math.sqrt(width));
  if (architecture === 'bert') {
    putReader(put, model);
    return file;
  }
  put.ones(architecture === 'lfm2' ? 'token_embd_norm' : 'output_norm', width);
  // A model without a matrix of its own for the output would say each token again and again.
  put.matrix('output', [width, numTokens], 3);
  for (let layer = 0; layer < layers; layer++) LAYERS[architecture].layer(put, model, layer);
  return file;
}

/** Adds tensors. */
interface Put {
  /** @param gain by how much it makes a vector longer */
  matrix(name: string, shape: readonly [number, number], gain: number): void;
  ones(name: string, size: number): void;
  /** Puts a small tensor, which stays F32. @param name with its suffix */
  small(name: string, shape: readonly number[], least: number, most: number): void;
}

/** The parts that are special to an architecture. */
interface Architecture {
  head(file: GgufFile, model: Model, key: (name: string) => string): void;
  layer(put: Put, model: Model, layer: number): void;
}

const STATE = { conv: 4, size: 16, rank: 4 };

const LAYERS: Readonly<Record<Model['architecture'], Architecture>> = {
  llama: {
    head: (file, model, key) => {
      writeHeads(file, model, key);
      file.u32(key('rope.dimension_count'), model.width / model.heads);
    },
    layer: (put, model, layer) => {
      putAttention(put, model, layer, false);
      putFeedForward(put, model, layer);
    },
  },
  gemma3: {
    head: (file, model, key) => {
      writeHeads(file, model, key);
      file.u32(key('attention.key_length'), model.width / model.heads);
      file.u32(key('attention.value_length'), model.width / model.heads);
      file.u32(key('attention.sliding_window'), model.window);
      file.u32(key('attention.sliding_window_pattern'), 2);
    },
    layer: (put, model, layer) => {
      putAttention(put, model, layer, true);
      put.ones(`blk.${layer}.post_attention_norm`, model.width);
      putFeedForward(put, model, layer);
      put.ones(`blk.${layer}.post_ffw_norm`, model.width);
    },
  },
  bert: {
    head: (file, { heads }, key) => {
      file.u32(key('attention.head_count'), heads);
      file.f32(key('attention.layer_norm_epsilon'), 1e-5);
      file.bool(key('attention.causal'), false);
      file.u32('tokenizer.ggml.token_type_count', 1);
    },
    layer: (put, { width, feedForward }, layer) => {
      const at = `blk.${layer}.`;
      for (const name of ['attn_q', 'attn_k', 'attn_v', 'attn_output'])
        put.matrix(`${at}${name}`, [width, width], 2);
      put.matrix(`${at}ffn_up`, [width, feedForward], 1);
      put.matrix(`${at}ffn_down`, [feedForward, width], 1);
      for (const name of ['attn_output_norm', 'layer_output_norm']) {
        put.ones(`${at}${name}`, width);
        put.small(`${at}${name}.bias`, [width], -0.1, 0.1);
      }
    },
  },
  mamba: {
    head: (file, { width }, key) => {
      file.u32(key('attention.head_count'), 0);
      file.u32(key('ssm.conv_kernel'), STATE.conv);
      file.u32(key('ssm.inner_size'), 2 * width);
      file.u32(key('ssm.state_size'), STATE.size);
      file.u32(key('ssm.time_step_rank'), STATE.rank);
    },
    layer: putStateSpace,
  },
  lfm2: {
    head: (file, model, key) => {
      file.u32(key('attention.head_count'), model.heads);
      const kvHeads = Array.from({ length: model.layers }, (_, layer) => kvHeadsOf(model, layer));
      file.i32s(key('attention.head_count_kv'), kvHeads);
      file.f32(key('rope.freq_base'), 10_000);
      file.u32(key('shortconv.l_cache'), 3);
    },
    layer: (put, model, layer) => {
      if (kvHeadsOf(model, layer) > 0) putAttention(put, model, layer, true);
      else putShortConvolution(put, model, layer);
      putFeedForward(put, model, layer);
    },
  },
};

/** The heads of keys and values of a layer of a hybrid: a layer of states has none. */
function kvHeadsOf({ kvHeads }: Model, layer: number): number {
  return layer % 2 === 0 ? 0 : kvHeads;
}

function writeHeads(file: GgufFile, { heads, kvHeads }: Model, key: (name: string) => string): void {
  file.u32(key('attention.head_count'), heads);
  file.u32(key('attention.head_count_kv'), kvHeads);
  file.f32(key('rope.freq_base'), 10_000);
}

/**
 * The tensors that a model that reads in both directions has beside its layers: positions, and a
 * head that scores.
 */
function putReader(put: Put, model: Model): void {
  const { width, layers, contextLength, pooling } = model;
  put.matrix('position_embd', [width, contextLength], 1);
  put.ones('token_embd_norm', width);
  put.small('token_embd_norm.bias', [width], -0.1, 0.1);
  if (pooling === 4) {
    put.matrix('cls', [width, width], 1);
    put.matrix('cls.output', [width, 1], 1);
  }
  for (let layer = 0; layer < layers; layer++) LAYERS.bert.layer(put, model, layer);
}

function putAttention(put: Put, { width, heads, kvHeads }: Model, layer: number, normsHeads: boolean): void {
  const at = `blk.${layer}.`;
  const headSize = width / heads;
  put.ones(`${at}attn_norm`, width);
  // Queries and keys are long, so that attention is peaked: a token depends on single ones far in front of it.
  put.matrix(`${at}attn_q`, [width, width], 1.6);
  put.matrix(`${at}attn_k`, [width, headSize * kvHeads], 1.6);
  put.matrix(`${at}attn_v`, [width, headSize * kvHeads], 2);
  put.matrix(`${at}attn_output`, [width, width], 2);
  if (!normsHeads) return;
  put.ones(`${at}attn_q_norm`, headSize);
  put.ones(`${at}attn_k_norm`, headSize);
}

function putFeedForward(put: Put, { width, feedForward }: Model, layer: number): void {
  const at = `blk.${layer}.`;
  put.ones(`${at}ffn_norm`, width);
  put.matrix(`${at}ffn_gate`, [width, feedForward], 1);
  put.matrix(`${at}ffn_up`, [width, feedForward], 1);
  put.matrix(`${at}ffn_down`, [feedForward, width], 1);
}

function putStateSpace(put: Put, { width }: Model, layer: number): void {
  const at = `blk.${layer}.`;
  const inner = 2 * width;
  put.ones(`${at}attn_norm`, width);
  put.matrix(`${at}ssm_in`, [width, 2 * inner], 1);
  put.small(`${at}ssm_conv1d.weight`, [STATE.conv, inner], -0.5, 0.5);
  put.small(`${at}ssm_conv1d.bias`, [inner], -0.1, 0.1);
  put.matrix(`${at}ssm_x`, [inner, STATE.rank + 2 * STATE.size], 1);
  put.small(`${at}ssm_dt.weight`, [STATE.rank, inner], -0.5, 0.5);
  put.small(`${at}ssm_dt.bias`, [inner], -3, 0);
  // Negative: a state fades.
  put.small(`${at}ssm_a`, [STATE.size, inner], -4, -0.1);
  put.small(`${at}ssm_d`, [inner], 0.5, 1.5);
  put.matrix(`${at}ssm_out`, [inner, width], 2);
}

function putShortConvolution(put: Put, { width }: Model, layer: number): void {
  const at = `blk.${layer}.`;
  put.ones(`${at}attn_norm`, width);
  put.small(`${at}shortconv.conv.weight`, [3, width], -0.6, 0.6);
  put.matrix(`${at}shortconv.in_proj`, [width, 3 * width], 1);
  put.matrix(`${at}shortconv.out_proj`, [width, width], 2);
}
