import type { ExecutorResult } from 'blockstep';
import type { Sample } from './model.js';

/**
 * Collects the results of a step, entry by entry in plan order. Each step has arrays of its own,
 * since several are in flight.
 */
export class ResultBuilder {
  readonly #tokens: number[] = [];
  readonly #extras: number[] = [];
  readonly #counts: Int32Array;
  readonly #drafts: number[] = [];
  readonly #draftCounts: Int32Array;
  readonly #errors: Uint8Array;
  readonly #hasDrafts: boolean;
  #failed = false;
  #lost: readonly number[] | null = null;

  constructor(numRequests: number, hasDrafts: boolean) {
    this.#counts = new Int32Array(numRequests);
    this.#draftCounts = new Int32Array(numRequests);
    this.#errors = new Uint8Array(numRequests);
    this.#hasDrafts = hasDrafts;
  }

  token(entry: number, sample: Sample): void {
    this.#tokens.push(sample.token);
    this.#extras.push(sample.extra);
    this.#counts[entry] = (this.#counts[entry] ?? 0) + 1;
  }

  draft(entry: number, token: number): void {
    this.#drafts.push(token);
    this.#draftCounts[entry] = (this.#draftCounts[entry] ?? 0) + 1;
  }

  fail(entry: number): void {
    this.#failed = true;
    this.#errors[entry] = 1;
  }

  lose(blocks: readonly number[]): void {
    this.#lost = blocks;
  }

  build(): ExecutorResult {
    const drafts = { tokens: Int32Array.from(this.#drafts), counts: this.#draftCounts };
    return {
      tokens: Int32Array.from(this.#tokens),
      counts: this.#counts,
      extras: this.#extras,
      ...(this.#hasDrafts ? { drafts } : {}),
      ...(this.#failed ? { errors: this.#errors } : {}),
      ...(this.#lost === null ? {} : { lostBlocks: this.#lost }),
    };
  }
}
