import type { SamplingParams } from '../../../../src/engine/executor/sampling-params.js';
import { LlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import type { NativeContext } from '../../../../src/executors/llama-cpp/native/binding.js';
import { LIKELIEST, readChoice } from '../../../../src/executors/llama-cpp/sampling/token-choice.js';
import type { NumberType } from './numbers.js';

/** A text of the model alone. */
export interface TextAlone {
  readonly tokens: readonly number[];
  /** How much more likely the likeliest token was than the second one, in logarithms, before each token. */
  readonly gaps: readonly number[];
}

/**
 * A model without blockstep: one text after the other in a context of its own, the prompt in one call, then token by token. It knows nothing
 * of blocks, sequences, batches and moves.
 */
export class Alone {
  readonly #model: LlamaModel;
  readonly #context: NativeContext;

  private constructor(model: LlamaModel, context: NativeContext) {
    this.#model = model;
    this.#context = context;
  }

  static async create(model: LlamaModel, { type, flash }: NumberType, length: number): Promise<Alone> {
    const { native } = LlamaModel.nativeOf(model);
    const context = await native.createContext({
      cells: length,
      batch: length,
      microBatch: length,
      sequences: 1,
      outputs: 1,
      threads: 1,
      batchThreads: 1,
      typeK: type,
      typeV: type,
      flashAttention: flash,
      offloadCache: false,
      blockSize: 0,
      origin: new BigUint64Array(5),
    });
    return new Alone(model, context);
  }

  /** The answer to a prompt, of so many tokens. */
  async answer(
    prompt: ArrayLike<number>,
    numTokens: number,
    params?: SamplingParams,
    { grammar = '', adapter = '' }: { readonly grammar?: string; readonly adapter?: string } = {},
  ): Promise<TextAlone> {
    const choice = readChoice(params, this.#model.info.vocabSize) ?? LIKELIEST;
    const sampler = this.#context.addSampler({
      ...choice,
      numLogprobs: 2,
      prompt: Int32Array.from(prompt),
      grammar,
    });
    const number = this.#model.info.loras.indexOf(adapter);
    const tokens: number[] = [];
    const gaps: number[] = [];
    let next = Array.from(prompt);
    let at = 0;
    while (tokens.length < numTokens) {
      // Of the first call everything that was there before is removed.
      const moves = at === 0 ? [0, 0, 0, 0, -1] : [];
      const positions = next.map((_, i) => at + i);
      const samples = [next.length - 1, 0, sampler, at + next.length];
      const counts = [moves.length / 5, next.length, 1, number];
      const program = Int32Array.of(
        1,
        ...counts,
        ...moves,
        ...next,
        ...positions,
        ...next.map(() => 0),
        ...samples,
      );
      const { failure, tokens: picked, logprobs } = await this.#context.compute(program, program.length, 0);
      if (failure !== '') throw new Error(failure);
      if (picked[0] === 0) break;
      tokens.push(picked[1]);
      gaps.push(logprobs[3] - logprobs[5]);
      at += next.length;
      next = [picked[1]];
    }
    this.#context.dropSampler(sampler);
    return { tokens, gaps };
  }

  dispose(): void {
    this.#context.dispose();
  }
}
