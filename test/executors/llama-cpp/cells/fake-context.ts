import type { NativeAnswer } from '../../../../src/executors/llama-cpp/native/binding.js';
import type { FakeCache } from './fake-cache.js';

/**
 * A context over a fake cache, with chains as native/llama/runner.h describes them. Chance decides how many steps come together, and
 * how far the context is when its chain is to end.
 */
export class FakeContext {
  readonly #cache: FakeCache;
  readonly #below: (most: number) => number;
  /** The step that was computed last, as a program of one call. */
  #program = new Int32Array(0);
  #rows: readonly (readonly number[])[] = [];
  /** Steps of the chain that may still follow. */
  #left = 0;

  constructor(cache: FakeCache, below: (most: number) => number) {
    this.#cache = cache;
    this.#below = below;
  }

  compute(program: Int32Array, size: number, chain: number): NativeAnswer {
    this.#program = program.slice(0, size);
    this.#left = chain;
    return this.#answer(this.#run(this.#program));
  }

  next(): NativeAnswer | Promise<NativeAnswer> {
    if (this.#left === 0) throw new Error('no further answer comes');
    const answer = this.#answer(this.#goOn());
    return this.#below(2) === 0 ? answer : Promise.resolve(answer);
  }

  endChain(): void {
    // The next step is being computed.
    this.#left = Math.min(this.#left, 1);
  }

  /** An answer of a first step and of some behind it. */
  #answer(first: readonly number[]): NativeAnswer {
    const tokens = [...first];
    let steps = 1;
    for (; this.#left > 0 && this.#below(3) > 0; steps++) tokens.push(...this.#goOn());
    const common = { callsDone: 1, failure: '', wasStopped: false, logprobs: new Float32Array(0) };
    return { ...common, steps, goesOn: this.#left > 0, tokens: Int32Array.from(tokens) };
  }

  #goOn(): readonly number[] {
    this.#left--;
    const count = this.#rows.length;
    const [, numMoves, , , adapter] = this.#program;
    const from = 5 + 5 * numMoves;
    const [positions, sequences, samples] = [1, 2, 3].map((part) => from + part * count);
    const next = [
      ...this.#rows.map(([token]) => token),
      ...this.#program.subarray(positions, sequences).map((position) => position + 1),
      ...this.#program.subarray(sequences, samples),
      ...this.#program.subarray(samples),
    ];
    this.#program = Int32Array.of(1, 0, count, count, adapter, ...next);
    return this.#run(this.#program);
  }

  #run(program: Int32Array): readonly number[] {
    this.#rows = this.#cache.run(program);
    return this.#rows.flatMap((row) => [row.length, ...row]);
  }
}
