import { checkInteger } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { StepTables } from '../../core/tables.js';
import { EntryKind } from '../../scheduler/plan/plan.js';
import type { ExecutorPlan, ExecutorResult } from './executor.js';
import { SequenceTail } from './sequence-tail.js';

/** What a model computes in one step: entry i has the tokens from `queryStart[i]` to `queryStart[i + 1]`. */
export interface StepInputs {
  readonly numRequests: number;
  readonly numTokens: number;
  /** [numTokens] token ids, all of them known: tokens that earlier steps sampled, and drafts, are filled in. */
  readonly tokens: Int32Array;
  /** [numTokens] position of each token in its request's text. */
  readonly positions: Int32Array;
  /** [numTokens] where the KV of each token is written: block * blockSize + offset. */
  readonly slots: Float64Array;
  /** [numRequests + 1] */
  readonly queryStart: Int32Array;
  /** [numRequests] position of the first token: the KV in front of it has been computed. */
  readonly numComputed: Int32Array;
  /** [numRequests] how many of the entry's tokens, the last ones, are drafts to be verified. */
  readonly numDrafts: Int32Array;
  /** [numRequests] 1: the entry has to bring a token, sampled behind its last token that is no draft, and one more for every draft accepted. */
  readonly samples: Uint8Array;
}

/** The arrays behind `StepInputs`, which are used again in every step. */
class Inputs implements StepInputs {
  numRequests = 0;
  numTokens = 0;
  tokens: Int32Array;
  positions: Int32Array;
  slots: Float64Array;
  readonly queryStart: Int32Array;
  readonly numComputed: Int32Array;
  readonly numDrafts: Int32Array;
  readonly samples: Uint8Array;

  constructor(maxTokens: number, maxEntries: number) {
    this.tokens = new Int32Array(maxTokens);
    this.positions = new Int32Array(maxTokens);
    this.slots = new Float64Array(maxTokens);
    this.queryStart = new Int32Array(maxEntries + 1);
    this.numComputed = new Int32Array(maxEntries);
    this.numDrafts = new Int32Array(maxEntries);
    this.samples = new Uint8Array(maxEntries);
  }
}

/**
 * Turns plans that were made ahead into what is really to be computed, as vLLM's InputBatch does for its model runner.
 *
 * With `pipelineDepth` of 2 or 3 a plan is made while earlier steps run. The tokens that these sample stand as -1 in its `inputIds`.
 * And with drafts, its `numComputedTokens` and `slotMapping` count drafts as accepted that may be rejected. Only the executor knows
 * which drafts it accepted, so only the executor can say at which positions a plan's tokens really stand: this class does, from the
 * executor's own answers. At depth 1 tables and inputs are the same.
 *
 * For each step, in order, when all steps before were sampled: `prepare`, compute, `sampled`. A plan and its tables may be
 * read until the step is answered, so nothing is copied. Nothing is allocated per request and step.
 */
export class InputBatch {
  readonly #blockSize: number;
  readonly #sequences = new Map<number, SequenceTail>();
  #inputs = new Inputs(0, 0);
  /** Of each entry of the step that was prepared last: the position behind its last token that is no draft. */
  #ends = new Int32Array(0);

  /** @param blockSize that of the engine, in tokens. @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor({ blockSize }: { blockSize: number }) {
    this.#blockSize = checkInteger('blockSize', blockSize, 1, 2 ** 16);
  }

  /** Number of requests of which something is kept. */
  get numRequests(): number {
    return this.#sequences.size;
  }

  /**
   * What a step computes. An entry has no tokens if nothing is known of its text, and computes its last known token again if its step
   * before failed: in both cases the request has ended, and whatever is answered for it is dropped.
   * @returns arrays that are valid until the next call
   */
  prepare(plan: ExecutorPlan, tables: StepTables): StepInputs {
    this.forget(plan.finishedHandles);
    const inputs = this.#reserve(tables);
    inputs.numRequests = plan.numRequests;
    inputs.numTokens = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      inputs.queryStart[i] = inputs.numTokens;
      this.#prepareEntry(plan, tables, i);
    }
    inputs.queryStart.fill(inputs.numTokens, plan.numRequests);
    return inputs;
  }

  /** Takes the answer of the step that was prepared last: its tokens, and the drafts that the next step is to verify. */
  sampled(plan: ExecutorPlan, { tokens, counts, drafts }: ExecutorResult): void {
    let at = 0;
    let draftAt = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      const sequence = this.#sequences.get(plan.requests[i].handle);
      const numDrafts = drafts === undefined ? 0 : drafts.counts[i];
      if (sequence !== undefined && counts[i] > 0) {
        sequence.sampled(this.#ends[i], tokens, at, counts[i]);
        sequence.drafted(drafts?.tokens, draftAt, numDrafts);
      }
      at += counts[i];
      draftAt += numDrafts;
    }
  }

  /** Drops what is kept for requests that have ended (`Executor.requestsFinished`). `prepare` does so for those that its plan names. */
  forget(handles: readonly number[]): void {
    for (const handle of handles) this.#sequences.delete(handle);
  }

  [INSPECT](depth: number, options: object): string {
    const facts = { blockSize: this.#blockSize, requests: this.#sequences.size };
    return showFacts('InputBatch', depth, options, facts);
  }

  #prepareEntry(plan: ExecutorPlan, tables: StepTables, i: number): void {
    const inputs = this.#inputs;
    const sequence = this.#sequenceOf(plan.requests[i].handle);
    const planned = plan.numComputedTokens[i];
    const samples = plan.maxOutputTokens[i] > 0;
    const count = plan.numScheduledTokens[i] - plan.numDraftTokens[i];
    const from = tables.queryStart[i];
    const isAdmitted = plan.kinds[i] !== EntryKind.running;
    sequence.place(tables.inputIds, from, count, planned, isAdmitted, samples);
    const end = samples ? sequence.length : Math.min(sequence.computed + count, sequence.length);
    // A plan may have counted drafts as tokens that were rejected. If no token is left to sample from, the last one is computed again.
    const first = samples && sequence.computed >= end ? end - 1 : sequence.computed;
    this.#ends[i] = end;
    inputs.numComputed[i] = first;
    inputs.numDrafts[i] = 0;
    inputs.samples[i] = samples ? 1 : 0;
    // If there is more to compute than the plan has, or it begins further back than drafts can explain, an earlier step was never
    // computed here.
    const fits = first >= 0 && end - first <= Math.max(count, 1) && planned - first <= this.#surplus(plan);
    const isKnown = fits && this.#putTokens(tables, i, sequence, first, end, planned);
    if (!isKnown) {
      inputs.numTokens = inputs.queryStart[i];
      inputs.samples[i] = 0;
      return;
    }
    sequence.computed = Math.max(sequence.computed, end);
    if (samples) inputs.numDrafts[i] = this.#putDrafts(plan, tables, i, sequence, end);
  }

  /** By how many positions a plan can be ahead: the drafts of two steps in flight, and a last token that is computed again. */
  #surplus({ maxDrafts }: ExecutorPlan): number {
    return 2 * maxDrafts + 1;
  }

  /** Puts the tokens from position `first` to `end` into the inputs. @returns false if one of them is not known */
  #putTokens(
    tables: StepTables,
    entry: number,
    sequence: SequenceTail,
    first: number,
    end: number,
    planned: number,
  ): boolean {
    const from = tables.queryStart[entry];
    for (let p = first; p < end; p++) {
      const known = p >= planned ? tables.inputIds[from + p - planned] : -1;
      const token = known >= 0 ? known : sequence.tokenAt(p);
      if (token < 0) return false;
      this.#put(tables, entry, p, token);
    }
    return true;
  }

  /** Puts the drafts to verify into the inputs: those of the plan, or the executor's own if the plan was made before them. @returns how many */
  #putDrafts(
    plan: ExecutorPlan,
    tables: StepTables,
    entry: number,
    sequence: SequenceTail,
    end: number,
  ): number {
    const valid = plan.numDraftTokens[entry] - plan.numInvalidDraftTokens[entry];
    for (let j = 0; j < valid; j++) {
      const given = plan.draftTokens[entry * plan.maxDrafts + j];
      const token = given >= 0 ? given : sequence.draftAt(j);
      if (token < 0) return j;
      this.#put(tables, entry, end + j, token);
    }
    return valid;
  }

  #put({ blockTable, maxBlocksPerRow }: StepTables, entry: number, position: number, token: number): void {
    const inputs = this.#inputs;
    const at = inputs.numTokens++;
    const block = blockTable[entry * maxBlocksPerRow + Math.floor(position / this.#blockSize)];
    inputs.tokens[at] = token;
    inputs.positions[at] = position;
    inputs.slots[at] = block * this.#blockSize + (position % this.#blockSize);
  }

  #sequenceOf(handle: number): SequenceTail {
    let sequence = this.#sequences.get(handle);
    if (sequence === undefined) {
      sequence = new SequenceTail();
      this.#sequences.set(handle, sequence);
    }
    return sequence;
  }

  /** The arrays, large enough for a step: an entry that computes its last token again has one token more than its plan says. */
  #reserve({ maxTokens, maxEntries }: StepTables): Inputs {
    if (this.#inputs.tokens.length < maxTokens + maxEntries) {
      this.#inputs = new Inputs(maxTokens + maxEntries, maxEntries);
      this.#ends = new Int32Array(maxEntries);
    }
    return this.#inputs;
  }
}
