// The checks of a LoRA adapter's file before llama.cpp reads it.
import { describe, expect, it } from 'vitest';
import { type GgufFile as GgufModel, readGguf } from '../../../../src/executors/llama-cpp/gguf/gguf-file.js';
import { readLora } from '../../../../src/executors/llama-cpp/gguf/lora-file.js';
import { GgufFile } from '../../../support/gguf/gguf-file.js';
import { loraFile } from '../../../support/gguf/random-lora.js';
import { type RandomModel, writeRandomModel } from '../../../support/gguf/random-model.js';
import { useTempFiles } from '../../../support/temp-file.js';

const NONE = (): void => {};
const Q = 'blk.0.attn_q.weight';

/** The head of an adapter, changed. */
function head(values: Readonly<Record<string, string>> = {}): GgufFile {
  const file = new GgufFile();
  const all = {
    'general.type': 'adapter',
    'general.architecture': 'llama',
    'adapter.type': 'lora',
    ...values,
  };
  for (const [key, value] of Object.entries(all)) file.text(key, value);
  return file;
}

/** An adapter of one tensor. */
function pair(target: string, a: readonly number[], b: readonly number[], file = head()): GgufFile {
  file.tensor(`${target}.lora_a`, a, 'F32', NONE);
  file.tensor(`${target}.lora_b`, b, 'F32', NONE);
  return file;
}

function changed(change: (file: GgufFile) => void): GgufFile {
  const file = pair(Q, [64, 4], [4, 64]);
  change(file);
  return file;
}

describe('the file of a LoRA adapter', () => {
  const write = useTempFiles();
  const models = new Map<string, GgufModel>();
  const readModel = (model: RandomModel): GgufModel => {
    const path = write('model.gguf', '');
    writeRandomModel(path, model);
    return readGguf(path);
  };
  const read = (file: GgufFile, model: RandomModel = {}): number => {
    const name = JSON.stringify(model);
    const known = models.get(name) ?? readModel(model);
    models.set(name, known);
    const lora = write('a.lora', '');
    file.write(lora);
    return readLora('mine', lora, known);
  };

  it('is read where it fits its model', () => {
    expect(read(pair(Q, [64, 4], [4, 64]))).toBe(2 * 4 * 64 * 4);
    expect(read(changed((file) => file.tensor('blk.0.attn_norm.weight', [64], 'F32', NONE)))).toBeGreaterThan(
      0,
    );
    expect(read(loraFile())).toBeGreaterThan(0);
    expect(read(loraFile({ rank: 3 }, { architecture: 'mamba' }), { architecture: 'mamba' })).toBeGreaterThan(
      0,
    );
  });

  it.each<[string, GgufFile, RegExp]>([
    ['of a model', head({ 'general.type': 'model' }), /is no LoRA adapter/],
    ['of another kind of adapter', head({ 'adapter.type': 'ia3' }), /is no LoRA adapter/],
    [
      'for another architecture',
      head({ 'general.architecture': 'qwen3' }),
      /is for a model of the architecture qwen3, and the model is llama/,
    ],
    ['without tensors', head(), /has no tensors for a model/],
    [
      'that is activated by tokens',
      changed((file) => file.i32s('adapter.alora.invocation_tokens', [1])),
      /is an activated LoRA \(aLoRA\), which is not supported/,
    ],
    [
      'with an alpha of another type',
      changed((file) => file.u32('adapter.lora.alpha', 8)),
      /alpha is no finite/,
    ],
    [
      'with an alpha of no number',
      changed((file) => file.f32('adapter.lora.alpha', Number.NaN)),
      /alpha is no finite/,
    ],
    [
      'with half a pair',
      changed((file) => file.tensor('blk.1.attn_q.weight.lora_a', [64, 4], 'F32', NONE)),
      /has one of two matrices only for blk\.1\.attn_q\.weight/,
    ],
    [
      'with a matrix twice',
      changed((file) => file.tensor(`${Q}.lora_a`, [64, 4], 'F32', NONE)),
      /is damaged: it has blk\.0\.attn_q\.weight\.lora_a twice/,
    ],
    [
      'with other tensors',
      changed((file) => file.tensor('blk.0.extra', [64], 'F32', NONE)),
      /has a tensor "blk\.0\.extra", which is no part of a LoRA/,
    ],
    ['for a tensor that is not there', pair('blk.9.attn_q.weight', [64, 4], [4, 64]), /has no tensor blk\.9/],
    [
      'of other inputs',
      pair(Q, [32, 4], [4, 64]),
      /blk\.0\.attn_q\.weight has the sizes 64 x 64, and the adapter's/,
    ],
    ['of other outputs', pair(Q, [64, 4], [4, 32]), /has the sizes 64 x 64/],
    ['of two ranks', pair(Q, [64, 4], [8, 64]), /has the sizes 64 x 64/],
    ['of no rank', pair(Q, [64, 0], [0, 64]), /has the sizes 64 x 64/],
    ['of more dimensions', pair(Q, [64, 4, 2], [4, 64, 2]), /has the sizes 64 x 64/],
    ['with embeddings the wrong way', pair('token_embd.weight', [64, 4], [4, 384]), /has the sizes 64 x 384/],
    ['with embeddings of two ranks', pair('token_embd.weight', [4, 384], [8, 64]), /has the sizes 64 x 384/],
  ])('is refused %s', (_, file, message) => {
    expect(() => read(file)).toThrow(message);
    expect(() => read(file)).toThrow(/^the adapter "mine": /);
  });

  it('is refused with embeddings for a model whose output is its embeddings', () => {
    const path = write('tied.gguf', '');
    writeRandomModel(path);
    const model = readGguf(path);
    const tied = { ...model, tensors: model.tensors.filter(({ name }) => name !== 'output.weight') };
    const lora = write('a.lora', '');
    pair('token_embd.weight', [4, 384], [4, 64]).write(lora);
    expect(readLora('mine', lora, model)).toBeGreaterThan(0);
    expect(() => readLora('mine', lora, tied)).toThrow(/no output matrix of its own: unsupported/);
  });

  it('is refused with numbers that nothing can be multiplied with, and where it is cut off', () => {
    const [path, lora] = [write('model.gguf', ''), write('a.lora', '')];
    writeRandomModel(path);
    const model = readGguf(path);
    pair(Q, [64, 4], [4, 64]).write(lora);
    expect(() => readLora('mine', path, model)).toThrow(/is no LoRA adapter/);
    expect(() => readLora('mine', write('b.lora', 'GGUF'), model)).toThrow(
      /^the adapter "mine": the model \S+ is not a GGUF file: it has 4 bytes$/,
    );
  });
});
