import { GgufFile } from './gguf-file.js';
import { matricesOf, type RandomModel } from './random-model.js';
import { RandomWeights } from './random-weights.js';

/** A LoRA adapter of random weights for each matrix of a model, as strong as the model's own weights. */
export interface RandomLora {
  /** Default 1. */
  readonly seed?: number;
  /** Default 4. */
  readonly rank?: number;
  /** Default half the rank. */
  readonly alpha?: number;
}

/** The two matrices of an adapter for one matrix of a model, row after row. */
interface Matrices {
  /** [rank, inputs]; of the embeddings [tokens, rank] */
  readonly a: Float32Array;
  /** [outputs, rank]; of the embeddings [width, rank] */
  readonly b: Float32Array;
}

const EMBEDDING = 'token_embd';

/** Writes an adapter for a model. Equal adapters have equal bytes. */
export function writeRandomLora(path: string, lora: RandomLora = {}, model: RandomModel = {}): void {
  loraFile(lora, model).write(path);
}

/** The file of an adapter, for tests that change it. */
export function loraFile(lora: RandomLora = {}, model: RandomModel = {}): GgufFile {
  const file = new GgufFile();
  const { rank = 4, alpha = rank / 2 } = lora;
  file.text('general.type', 'adapter');
  file.text('general.architecture', model.architecture ?? 'llama');
  file.text('adapter.type', 'lora');
  file.f32('adapter.lora.alpha', alpha);
  for (const { name, shape } of matricesOf(model)) {
    const [inputs, outputs] = shape;
    const { a, b } = matrices(lora, name, shape);
    const isEmbedding = name === EMBEDDING;
    file.tensor(`${name}.weight.lora_a`, isEmbedding ? [rank, outputs] : [inputs, rank], 'F32', (to) =>
      to.set(a),
    );
    file.tensor(`${name}.weight.lora_b`, [rank, isEmbedding ? inputs : outputs], 'F32', (to) => to.set(b));
  }
  return file;
}

/** The change of a model's weights by a merged adapter: `RandomModel.change`. */
export function merged(lora: RandomLora): NonNullable<RandomModel['change']> {
  return (name, [inputs, outputs], weights) => {
    const { rank = 4, alpha = rank / 2 } = lora;
    const { a, b } = matrices(lora, name, [inputs, outputs]);
    for (let o = 0; o < outputs; o++)
      for (let i = 0; i < inputs; i++)
        for (let r = 0; r < rank; r++)
          weights[o * inputs + i] +=
            (alpha / rank) *
            (name === EMBEDDING ? b[i * rank + r] * a[o * rank + r] : b[o * rank + r] * a[r * inputs + i]);
  };
}

function matrices(
  { seed = 1, rank = 4 }: RandomLora,
  name: string,
  [inputs, outputs]: readonly [number, number],
): Matrices {
  const own = [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 2 ** 31, seed);
  const random = new RandomWeights(own);
  const isEmbedding = name === EMBEDDING;
  const a = new Float32Array(rank * (isEmbedding ? outputs : inputs));
  const b = new Float32Array(rank * (isEmbedding ? inputs : outputs));
  random.normal(1 / Math.sqrt(isEmbedding ? 1 : inputs))(a);
  random.normal(1)(b);
  return { a, b };
}
