// A file's description of its model.
import { describe, expect, it } from 'vitest';
import { readGguf } from '../../../../src/executors/llama-cpp/gguf/gguf-file.js';
import { readModelCard } from '../../../../src/executors/llama-cpp/gguf/model-card.js';
import { GgufFile } from '../../../support/gguf/gguf-file.js';
import { CHAT_TEMPLATE, type RandomModel, writeRandomModel } from '../../../support/gguf/random-model.js';
import { useTempFiles } from '../../../support/temp-file.js';

const write = useTempFiles();

function cardOf(model: RandomModel) {
  const path = write('model.gguf', '');
  writeRandomModel(path, model);
  return readModelCard(readGguf(path));
}

function cardOfValues(edit: (file: GgufFile) => void) {
  const path = write('values.gguf', '');
  const file = new GgufFile();
  edit(file);
  file.write(path);
  return readModelCard(readGguf(path));
}

const SIZES = { numLayers: 4, width: 64, feedForward: 192, numTokens: 384, contextLength: 4096 };

describe('a model’s file says of the model', () => {
  it('its sizes, its template and the type of its weights', () => {
    expect(cardOf({ weights: 'Q8_0', vocabulary: 'llama' })).toMatchObject({
      ...SIZES,
      architecture: 'llama',
      name: 'random llama',
      // 2 heads of 16 numbers in 4 layers.
      kvNumbers: { keys: 128, values: 128 },
      stateNumbers: 0,
      window: 0,
      weightType: 'Q8_0',
      chatTemplate: CHAT_TEMPLATE,
      sampling: {},
    });
    expect(cardOf({ chatTemplate: null }).chatTemplate).toBeNull();
  });

  it('its sliding window', () => {
    expect(cardOf({ architecture: 'gemma3', window: 32 })).toMatchObject({
      ...SIZES,
      window: 32,
      stateNumbers: 0,
    });
  });

  it('its states, where it has them in place of keys and values', () => {
    expect(cardOf({ architecture: 'mamba' })).toMatchObject({
      kvNumbers: { keys: 0, values: 0 },
      // 128 inner numbers: 3 before the convolution's last, and 16 of the state, in 4 layers.
      stateNumbers: 4 * (3 * 128 + 16 * 128),
    });
  });

  it('its states and its keys, where layers differ', () => {
    expect(cardOf({ architecture: 'lfm2' })).toMatchObject({
      kvNumbers: { keys: 2 * 32, values: 2 * 32 },
      stateNumbers: 2 * 64 * 2,
    });
  });

  it('its states, where one layer in so many has attention', () => {
    const card = cardOfValues((file) => {
      file.text('general.architecture', 'qwen35');
      const sizes = { block_count: 8, embedding_length: 64, context_length: 100, full_attention_interval: 4 };
      const heads = { 'attention.head_count': 4, 'attention.head_count_kv': 2, 'attention.key_length': 32 };
      const state = { 'ssm.inner_size': 16, 'ssm.state_size': 4, 'ssm.conv_kernel': 3, 'ssm.group_count': 1 };
      for (const [key, value] of Object.entries({ ...sizes, ...heads, ...state }))
        file.u32(`qwen35.${key}`, value);
    });
    expect(card.kvNumbers).toEqual({ keys: 2 * 2 * 32, values: 2 * 2 * 16 });
    expect(card.stateNumbers).toBe(6 * (2 * (16 + 2 * 4) + 4 * 16));
  });

  it('how its makers want tokens picked', () => {
    const path = write('sampling.gguf', '');
    const file = new GgufFile();
    file.text('general.architecture', 'llama');
    for (const key of ['block_count', 'embedding_length', 'context_length']) file.u32(`llama.${key}`, 8);
    file.f32('general.sampling.temp', 0.5);
    file.u32('general.sampling.top_k', 20);
    file.write(path);
    expect(readModelCard(readGguf(path)).sampling).toEqual({ temperature: 0.5, top_k: 20 });
  });
});

describe('a file at which llama.cpp would abort the process', () => {
  const sizes = { block_count: 4, embedding_length: 8, context_length: 8 };
  it.each<[string, (file: GgufFile) => void, RegExp]>([
    [
      'two tokens that are the same',
      (file) => file.texts('tokenizer.ggml.tokens', ['a', '', '', 'b', 'a']),
      /is damaged: its tokens 0 and 4 are the same$/,
    ],
    [
      'too many layers',
      (file) => file.u32('llama.block_count', 513),
      /has 513 layers, and llama\.cpp has room for 512 at most$/,
    ],
    [
      'an epsilon that is no number',
      (file) => file.f32('llama.attention.layer_norm_rms_epsilon', Number.NaN),
      /llama\.attention\.layer_norm_rms_epsilon is NaN, not a number from 0 on$/,
    ],
    [
      'a window that no layer has',
      (file) => {
        file.u32('llama.attention.sliding_window', 32);
        file.u32('llama.attention.sliding_window_pattern', 1);
      },
      /it has a sliding window, and no layer that has it$/,
    ],
    [
      'a context longer than positions go',
      (file) => file.u32('llama.context_length', 2 ** 31),
      /does not say its context_length/,
    ],
  ])('is refused: %s', (_, edit, says) => {
    const make = () =>
      cardOfValues((file) => {
        file.text('general.architecture', 'llama');
        for (const [key, value] of Object.entries(sizes)) file.u32(`llama.${key}`, value);
        edit(file);
      });
    expect(make).toThrow(says);
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_MODEL' }));
  });
});

describe('a file of another kind than a language model', () => {
  it.each([
    ['an adapter', { 'general.type': 'adapter' }, /is not a model, but "adapter"/],
    ['a vision encoder', { 'general.architecture': 'clip' }, /architecture clip, which generates no text/],
    ['an encoder of texts', { 'general.architecture': 't5encoder' }, /architecture t5encoder, which/],
    ['a model without an architecture', {}, /does not name its architecture/],
    ['a model without sizes', { 'general.architecture': 'llama' }, /\(llama\.block_count\)/],
  ])('is refused: %s', (_, texts, says) => {
    const make = () =>
      cardOfValues((file) => {
        for (const [key, value] of Object.entries(texts)) file.text(key, value);
      });
    expect(make).toThrow(says);
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_MODEL' }));
  });
});
