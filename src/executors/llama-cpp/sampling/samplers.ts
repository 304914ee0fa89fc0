import type { StepTables } from '../../../core/tables.js';
import type { ExecutorPlan, ExecutorRequest } from '../../../engine/executor/executor.js';
import type { NativeContext } from '../native/binding.js';
import { EntryError } from './entry-error.js';
import { LlamaGrammar } from './llama-grammar.js';
import { LIKELIEST, readChoice } from './token-choice.js';

/** The sampler of one request. */
interface Kept {
  /** The client's parameters; in a session, the parameters of the present chunk. */
  readonly params: unknown;
  /** Number of the native sampler; -1: greedy sampling, which needs none. */
  readonly sampler: number;
  readonly numLogprobs: number;
}

const NO_TOKENS = new Int32Array(0);

/** The samplers of all requests, by their handles. They survive preemptions. */
export class Samplers {
  readonly #context: NativeContext;
  readonly #vocabSize: number;
  readonly #kept = new Map<number, Kept>();

  constructor(context: NativeContext, vocabSize: number) {
    this.#context = context;
    this.#vocabSize = vocabSize;
  }

  /**
   * Finds or makes the samplers of all entries of a plan that sample.
   * @param numbers [entry] receives the number of its sampler; -1: greedy
   * @param errors [entry] receives `EntryError.sampler` if its parameters are invalid
   */
  find(plan: ExecutorPlan, tables: StepTables, numbers: Int32Array, errors: Uint8Array): void {
    for (let i = 0; i < plan.numRequests; i++) {
      numbers[i] = -1;
      errors[i] = EntryError.none;
      if (plan.maxOutputTokens[i] === 0) continue;
      try {
        numbers[i] = this.#of(plan.requests[i], tables, i);
      } catch {
        // Not every engine checks the parameters at the submission.
        errors[i] = EntryError.sampler;
      }
    }
  }

  #of(request: ExecutorRequest, tables: StepTables, entry: number): number {
    const kept = this.#kept.get(request.handle);
    if (kept !== undefined && kept.params === request.params) return kept.sampler;
    if (kept !== undefined) this.forget([request.handle]);
    const made = this.#make(request, tables, entry);
    this.#kept.set(request.handle, made);
    return made.sampler;
  }

  /** Log-probabilities that a request wants with each token; -1: none. */
  numLogprobs(handle: number): number {
    return this.#kept.get(handle)?.numLogprobs ?? -1;
  }

  forget(handles: readonly number[]): void {
    for (const handle of handles) {
      const kept = this.#kept.get(handle);
      if (kept === undefined) continue;
      this.#kept.delete(handle);
      if (kept.sampler >= 0) this.#context.dropSampler(kept.sampler);
    }
  }

  #make({ params, grammar, numPromptTokens }: ExecutorRequest, tables: StepTables, entry: number): Kept {
    const gbnf = grammar instanceof LlamaGrammar ? grammar.gbnf : '';
    const choice = readChoice(params, this.#vocabSize) ?? (gbnf === '' ? null : LIKELIEST);
    if (choice === null) return { params, sampler: -1, numLogprobs: -1 };
    let prompt = NO_TOKENS;
    if (choice.repetitionPenalty !== 1) {
      prompt = new Int32Array(numPromptTokens);
      tables.readTokens(entry, 0, prompt);
    }
    const sampler = this.#context.addSampler({ ...choice, prompt, grammar: gbnf });
    return { params, sampler, numLogprobs: choice.numLogprobs };
  }
}
