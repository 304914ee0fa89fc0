import { checkInteger } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { StepTables } from '../../core/tables.js';
import { EntryKind } from '../../scheduler/plan/plan.js';
import type { ExecutorPlan, ExecutorResult } from './executor.js';
import { SequenceTail } from './sequence-tail.js';

/** The inputs of one KV cache group for a step. */
export interface GroupInputs {
  /**
   * [numTokens] slot of each token's KV in the group: block * blockSize + offset, with the group's
   * `blockSize`. -1: the token's place holds no block, so nothing is written.
   */
  readonly slots: Float64Array;
}

/** The inputs of a model for one step: entry i has the tokens from `queryStart[i]` to `queryStart[i + 1]`. */
export interface StepInputs {
  /** Entries of the step, those without tokens included. */
  readonly numRequests: number;
  /** Tokens of all entries together, drafts included. */
  readonly numTokens: number;
  /**
   * [numTokens] token ids, all of them known: tokens sampled by earlier steps, and drafts, are
   * filled in.
   */
  readonly tokens: Int32Array;
  /** [numTokens] position of each token in its request's text. */
  readonly positions: Int32Array;
  /** [numTokens] slot of each token's KV in the KV memory: block * blockSize + offset; with `kvGroups` in the first group. */
  readonly slots: Float64Array;
  /**
   * The slots in each KV cache group, in the order of `StepTables.groups`. The field `slots` is
   * that of the first group.
   */
  readonly groups: readonly GroupInputs[];
  /** [numRequests + 1] index of each entry's first token; the last value is `numTokens`. */
  readonly queryStart: Int32Array;
  /** [numRequests] position of the entry's first token; the KV of all earlier positions has been computed. */
  readonly numComputed: Int32Array;
  /** [numRequests] how many of the entry's last tokens are drafts to be verified. */
  readonly numDrafts: Int32Array;
  /**
   * [numRequests] 1: the entry samples a token after its last token that is not a draft, and one
   * more for every accepted draft.
   */
  readonly samples: Uint8Array;
}

/** The arrays of `StepInputs`, reused in every step. */
class Inputs implements StepInputs {
  numRequests = 0;
  numTokens = 0;
  tokens: Int32Array;
  positions: Int32Array;
  slots: Float64Array;
  readonly groups: readonly GroupInputs[];
  readonly queryStart: Int32Array;
  readonly numComputed: Int32Array;
  readonly numDrafts: Int32Array;
  readonly samples: Uint8Array;

  constructor(maxTokens: number, maxEntries: number, numGroups: number) {
    this.tokens = new Int32Array(maxTokens);
    this.positions = new Int32Array(maxTokens);
    this.groups = Array.from({ length: numGroups }, () => ({ slots: new Float64Array(maxTokens) }));
    this.slots = this.groups[0].slots;
    this.queryStart = new Int32Array(maxEntries + 1);
    this.numComputed = new Int32Array(maxEntries);
    this.numDrafts = new Int32Array(maxEntries);
    this.samples = new Uint8Array(maxEntries);
  }
}

/**
 * Turns plans that were made ahead into the true inputs of the model, as vLLM's InputBatch does for
 * its model runner.
 *
 * With `pipelineDepth` 2 or 3, a plan is made while earlier steps run. Tokens that those steps will
 * sample appear as -1 in the plan's `inputIds`. With drafts, the plan's `numComputedTokens` and
 * `slotMapping` count drafts as accepted that may be rejected. Only the executor knows which drafts
 * were accepted. So this class finds the true positions of a plan's tokens from the executor's own
 * answers. At depth 1, tables and inputs are the same.
 *
 * Use it for each step in order, when all earlier steps were sampled: `prepare`, compute,
 * `sampled`. The plan and its tables stay readable until the step is answered, so nothing is
 * copied. Nothing is allocated per request and step.
 */
export class InputBatch {
  /** Only for display: the tables contain the block size of each group. */
  readonly #blockSize: number;
  readonly #sequences = new Map<number, SequenceTail>();
  #inputs = new Inputs(0, 0, 1);
  /**
   * [entry of the last prepared step] the position after the entry's last token that is not a
   * draft.
   */
  #ends = new Int32Array(0);

  /**
   * @param blockSize the engine's tokens per block. With `kvGroups` the block sizes of the groups
   * apply, which are in the tables. @throws ERR_BLOCKSTEP_BAD_ARG
   */
  constructor({ blockSize }: { blockSize: number }) {
    this.#blockSize = checkInteger('blockSize', blockSize, 1, 2 ** 16);
  }

  /** Requests whose last tokens are kept. */
  get numRequests(): number {
    return this.#sequences.size;
  }

  /**
   * The inputs of a step. After a failed step the request of an entry has ended, and its answer
   * will be dropped. Such an entry has no tokens if its text is unknown, or computes its last known
   * token again.
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

  /** Takes the answer of the last prepared step: its tokens, and the drafts that the next step verifies. */
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

  /** Drops the tokens kept for ended requests; for use in `Executor.requestsFinished`. `prepare` drops those that its plan names. */
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
    // A plan may have counted drafts as tokens that have since been rejected. If no token is left
    // to compute, the last one is computed again, to sample from it.
    const first = samples && sequence.computed >= end ? end - 1 : sequence.computed;
    this.#ends[i] = end;
    inputs.numComputed[i] = first;
    inputs.numDrafts[i] = 0;
    inputs.samples[i] = samples ? 1 : 0;
    // An earlier step was never computed here if there is more to compute than the plan has tokens.
    // The same holds if the first token is further back than rejected drafts can explain.
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

  /**
   * The maximum number of positions by which a plan can be ahead of the truth. They are the drafts
   * of two steps in flight, and a last token computed again.
   */
  #surplus({ maxDrafts }: ExecutorPlan): number {
    return 2 * maxDrafts + 1;
  }

  /** Puts the tokens from position `first` to `end` into the inputs. @returns false if one of these tokens is not known */
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

  /**
   * Puts the drafts to verify into the inputs: the plan's drafts, or the executor's own if the plan
   * was made before them.
   * @returns the number of drafts
   */
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

  #put({ groups }: StepTables, entry: number, position: number, token: number): void {
    const inputs = this.#inputs;
    const at = inputs.numTokens++;
    inputs.tokens[at] = token;
    inputs.positions[at] = position;
    for (let g = 0; g < groups.length; g++) {
      const { blockTable, maxBlocksPerRow, blockSize } = groups[g];
      const block = blockTable[entry * maxBlocksPerRow + Math.floor(position / blockSize)];
      inputs.groups[g].slots[at] = block === 0 ? -1 : block * blockSize + (position % blockSize);
    }
  }

  #sequenceOf(handle: number): SequenceTail {
    let sequence = this.#sequences.get(handle);
    if (sequence === undefined) {
      sequence = new SequenceTail();
      this.#sequences.set(handle, sequence);
    }
    return sequence;
  }

  /** The arrays, large enough for a step. An entry that computes its last token again has one token more than in its plan. */
  #reserve({ maxTokens, maxEntries, groups }: StepTables): Inputs {
    if (this.#inputs.tokens.length < maxTokens + maxEntries) {
      this.#inputs = new Inputs(maxTokens + maxEntries, maxEntries, groups.length);
      this.#ends = new Int32Array(maxEntries);
    }
    return this.#inputs;
  }
}
