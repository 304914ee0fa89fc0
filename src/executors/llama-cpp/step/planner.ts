import { BlockstepError } from '../../../base/errors.js';
import type { StepTables } from '../../../core/tables.js';
import type { ExecutorPlan } from '../../../engine/executor/executor.js';
import { EntryKind } from '../../../scheduler/plan/plan.js';
import { CellMap, type CellMapSizes } from '../cells/cell-map.js';
import { promptLogprobsOf } from '../sampling/token-choice.js';
import { Program, type ProgramShape } from './program.js';

/** A request that has a sequence. */
interface Running {
  sequence: number;
  /** Number of its adapter; -1: none. */
  adapter: number;
  /** Tokens of its text that have cells, drafts included. */
  length: number;
  /** The last step with this request. */
  step: number;
}

/** Counts since the executor was made. */
export interface PlannerCounts {
  /** Blocks that were shared because of a hit. */
  hits: number;
  /** Hits on blocks that the same step computed. */
  hitsInStep: number;
  /** Tokens that were recomputed because their cells were gone. */
  recomputed: number;
}

/** The progress of an entry along its row of blocks. */
interface Cursor {
  wave: number;
  /** First position that must still be computed; -1: all positions so far have cells. */
  from: number;
}

/**
 * Turns a plan of the engine into a program for llama.cpp. The planner decides which sequence each
 * request has, and which cells are shared, freed and computed.
 */
export class Planner {
  readonly program: Program;
  readonly cells: CellMap;
  readonly counts: PlannerCounts = { hits: 0, hitsInStep: 0, recomputed: 0 };
  readonly #blockSize: number;
  readonly #requests = new Map<number, Running>();
  /** [block] the last step that computed the block, and the wave. */
  readonly #steps: Int32Array;
  readonly #waves: Int32Array;
  /** The token behind a range. */
  readonly #next = new Int32Array(1);
  #step = 0;

  constructor(sizes: CellMapSizes, shape: ProgramShape) {
    this.program = new Program(shape);
    // Changes between two steps are made in front of the next step.
    this.cells = new CellMap(sizes, this.program.movesOf(0));
    this.#blockSize = sizes.blockSize;
    this.#steps = new Int32Array(sizes.numBlocks).fill(-1);
    this.#waves = new Int32Array(sizes.numBlocks);
  }

  /** The sequence of a request, for tests; -1: it has none. */
  sequenceOf(handle: number): number {
    return this.#requests.get(handle)?.sequence ?? -1;
  }

  /** Releases the cells of requests that ended, or released their blocks. */
  release(handles: readonly number[]): void {
    for (const handle of handles) {
      const request = this.#requests.get(handle);
      if (request === undefined) continue;
      this.#requests.delete(handle);
      this.cells.retire(request.sequence);
    }
  }

  /**
   * Plans a step.
   * @param samplers [entry] the sampler of an entry that samples
   * @param adapters [entry] the number of its adapter; -1: none
   */
  plan(plan: ExecutorPlan, tables: StepTables, samplers: Int32Array, adapters: Int32Array): void {
    this.#step++;
    this.cells.beginStep();
    this.release(plan.finishedHandles);
    this.release(plan.preemptedHandles);
    for (let i = 0; i < plan.numRequests; i++) this.#planEntry(plan, tables, i, samplers[i], adapters[i]);
  }

  /**
   * Notes that up to `count` tokens behind those of a step may be computed too, in blocks that the
   * entries hold. The next plan of an entry removes the cells behind its computed tokens.
   */
  extend(plan: ExecutorPlan, { blockTable, maxBlocksPerRow }: StepTables, count: number): void {
    for (let i = 0; i < plan.numRequests; i++) {
      const request = this.#requests.get(plan.requests[i].handle);
      if (request === undefined) continue;
      const size = this.#blockSize;
      let place = Math.floor(request.length / size);
      request.length += count;
      for (; place * size < request.length; place++)
        this.cells.fill(
          blockTable[i * maxBlocksPerRow + place],
          Math.min(size, request.length - place * size),
        );
    }
  }

  /**
   * Drops everything of the entries whose calls were not done, because their part of the cache is
   * unknown.
   */
  failed(plan: ExecutorPlan, callsDone: number): void {
    for (let i = 0; i < plan.numRequests; i++) {
      if (this.program.isDone(i, callsDone)) continue;
      const { handle } = plan.requests[i];
      const request = this.#requests.get(handle);
      if (request === undefined) continue;
      this.#requests.delete(handle);
      this.cells.drop(request.sequence);
    }
  }

  #planEntry(plan: ExecutorPlan, tables: StepTables, entry: number, sampler: number, adapter: number): void {
    const { handle } = plan.requests[entry];
    const computed = plan.numComputedTokens[entry];
    const numDrafts = plan.numDraftTokens[entry] - plan.numInvalidDraftTokens[entry];
    const end = computed + plan.numScheduledTokens[entry] - plan.numInvalidDraftTokens[entry];
    const row = entry * tables.maxBlocksPerRow;
    const numBlocks = plan.numBlocks[entry];
    const numHits = Math.ceil(computed / this.#blockSize);
    const request = this.#requests.get(handle) ?? this.#open(handle);
    request.step = this.#step;
    request.adapter = adapter;
    const isRunning = plan.kinds[entry] === EntryKind.running;
    if (!isRunning) this.#keepLeading(request, tables, row, Math.min(numHits, numBlocks));
    if (request.length > computed) {
      this.cells.truncate(request.sequence, computed);
      request.length = computed;
    }
    const cursor: Cursor = { wave: 0, from: -1 };
    if (request.length < computed)
      this.#followHits(request, tables, { entry, computed, toCome: plan.numRequests - entry }, cursor);
    const firstNew = isRunning ? numBlocks - plan.numNewBlocks[entry] : numHits;
    for (let place = numHits; place < numBlocks; place++) {
      const block = tables.blockTable[row + place];
      if (place >= firstNew || !this.cells.has(request.sequence, place, block))
        this.cells.give(block, request.sequence, place);
    }
    const from = cursor.from < 0 ? computed : cursor.from;
    this.#compute(request, tables, entry, from, end, cursor.wave);
    this.#putTokens(plan, tables, entry, from, end);
    if (plan.maxOutputTokens[entry] > 0) this.program.sample(cursor.wave, numDrafts, sampler);
    const lastScored = plan.requests[entry].numPromptTokens - 1;
    if (from < lastScored) this.#score(plan, tables, entry, Math.min(end, lastScored), cursor.wave);
    request.length = end;
  }

  /**
   * Makes the range that was added last score the tokens behind its rows, if the client wants
   * log-probabilities of the prompt.
   */
  #score(plan: ExecutorPlan, tables: StepTables, entry: number, to: number, wave: number): void {
    const told = promptLogprobsOf(plan.requests[entry].params);
    if (told === null) return;
    tables.readTokens(entry, to, this.#next);
    this.program.score(wave, to, this.#next[0], told.count);
  }

  #open(handle: number): Running {
    let sequence = this.cells.open();
    if (sequence === null) {
      this.#closeIdle();
      sequence = this.cells.open();
    }
    if (sequence === null)
      throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', 'more requests in a step than sequences');
    const request = { sequence, adapter: -1, length: 0, step: this.#step };
    this.#requests.set(handle, request);
    return request;
  }

  /**
   * Takes the sequence from the session that has waited longest between two chunks. Its tokens will
   * be recomputed.
   */
  #closeIdle(): void {
    let oldest: [number, Running] | null = null;
    for (const each of this.#requests) if (oldest === null || each[1].step < oldest[1].step) oldest = each;
    if (oldest === null || oldest[1].step === this.#step) return;
    this.#requests.delete(oldest[0]);
    this.cells.drop(oldest[1].sequence);
  }

  /**
   * For an entry that comes again: keeps the blocks at unchanged places of its row, up to the first
   * changed block.
   */
  #keepLeading(request: Running, { blockTable }: StepTables, row: number, numHits: number): void {
    let kept = 0;
    while (kept < numHits && this.cells.has(request.sequence, kept, blockTable[row + kept])) kept++;
    if (request.length <= kept * this.#blockSize) return;
    request.length = kept * this.#blockSize;
    this.cells.truncate(request.sequence, request.length);
  }

  /** Handles the hits of an entry: shares the blocks that have cells, and recomputes the others. */
  #followHits(
    request: Running,
    tables: StepTables,
    { entry, computed, toCome }: { entry: number; computed: number; toCome: number },
    cursor: Cursor,
  ): void {
    const size = this.#blockSize;
    const { sequence } = request;
    let source = -1;
    let copiedFrom = 0;
    const flush = (to: number): void => {
      if (source >= 0) this.program.movesOf(cursor.wave).copy(source, sequence, copiedFrom, to);
      source = -1;
    };
    for (let place = Math.floor(request.length / size); place * size < computed; place++) {
      const block = tables.blockTable[entry * tables.maxBlocksPerRow + place];
      const needed = Math.min(size, computed - place * size);
      // The entry writes the rest of a block that it hits in part, for example the last token of a
      // prompt that was loaded whole. So it must not share that block.
      const isUsable = needed === size || !this.cells.isOfOthers(block, sequence);
      const isThere = isUsable && this.cells.isThere(block, place, needed);
      if (isThere && this.cells.has(sequence, place, block)) continue;
      // A later wave copies these cells, so they must not be freed in front of the first wave.
      const isLate = cursor.wave > 0 || cursor.from >= 0;
      if (!isThere || (isLate && !this.cells.hold(this.cells.ownerOf(block, source), toCome))) {
        flush(place * size);
        if (cursor.from < 0) cursor.from = place * size;
        this.cells.give(block, sequence, place);
        this.counts.recomputed += needed;
        continue;
      }
      if (cursor.from >= 0) {
        // The gap is computed first, because llama.cpp extends a text only at its end.
        this.#compute(request, tables, entry, cursor.from, place * size, cursor.wave);
        this.#readTokens(tables, entry, cursor.from, place * size);
        cursor.from = -1;
        cursor.wave++;
      }
      const isInStep = this.#steps[block] === this.#step;
      const wave = isInStep ? Math.max(cursor.wave, this.#waves[block] + 1) : cursor.wave;
      if (wave !== cursor.wave) flush(place * size);
      cursor.wave = wave;
      const owner = this.cells.ownerOf(block, source);
      if (owner !== source) {
        flush(place * size);
        source = owner;
        copiedFrom = place * size;
        this.cells.touch(owner);
      }
      this.cells.share(block, sequence);
      this.counts.hits++;
      if (isInStep) this.counts.hitsInStep++;
    }
    flush(computed);
  }

  /** Adds a range of an entry to a wave. The caller puts its tokens. */
  #compute(
    { sequence, adapter }: Running,
    { blockTable, maxBlocksPerRow }: StepTables,
    entry: number,
    from: number,
    to: number,
    wave: number,
  ): void {
    const size = this.#blockSize;
    this.program.add(wave, entry, sequence, from, to, adapter);
    for (let place = Math.floor(from / size); place * size < to; place++) {
      const block = blockTable[entry * maxBlocksPerRow + place];
      this.cells.fill(block, Math.min(size, to - place * size));
      this.#steps[block] = this.#step;
      this.#waves[block] = wave;
    }
  }

  /**
   * Puts the tokens of the range that was added last: recomputed tokens, scheduled tokens, and
   * drafts.
   */
  #putTokens(plan: ExecutorPlan, tables: StepTables, entry: number, from: number, end: number): void {
    const computed = plan.numComputedTokens[entry];
    const at = this.program.numTokens - (end - from);
    const { tokens } = this.program;
    if (from < computed) tables.readTokens(entry, from, tokens.subarray(at, at + computed - from));
    const query = tables.queryStart[entry];
    const firstDraft = computed + plan.numScheduledTokens[entry] - plan.numDraftTokens[entry];
    for (let p = computed; p < end; p++) {
      tokens[at + p - from] =
        p < firstDraft
          ? tables.inputIds[query + p - computed]
          : plan.draftTokens[entry * plan.maxDrafts + p - firstDraft];
    }
  }

  #readTokens(tables: StepTables, entry: number, from: number, to: number): void {
    const at = this.program.numTokens - (to - from);
    tables.readTokens(entry, from, this.program.tokens.subarray(at, at + to - from));
  }
}
