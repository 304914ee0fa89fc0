// A model that samples from the KV that it reads from the blocks; drafts.
import type { StepTables } from '../../../src/core/tables.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../../src/engine/executor/executor.js';
import { keepsTokens } from '../audit/group-rules.js';
import { GARBAGE } from '../shared/kv/kv-places.js';
import { mix } from '../shared/text.js';
import type { SimGrammar } from './grammar.js';
import type { Rows } from './kv.js';
import { Reading } from './layers.js';
import type { Stage } from './stage.js';
import { allowedKind, follow, nextToken } from './text.js';

/** The work of a step for one request, by its plan and tables at the time of its submission. */
interface Row {
  handle: number;
  isAdmitted: boolean;
  blocks: Rows;
  computed: number;
  scheduled: number;
  samples: boolean;
  /** Tokens to verify; -1 = the one that this executor made itself. The last `numInvalid` may not be accepted. */
  drafts: number[];
  numInvalid: number;
  /** Tokens to compute as far as the tables know them, drafts excluded. */
  ids: Int32Array;
  /** State of the grammar that constrains it, or -1. */
  state: number;
  root: number;
  fails: boolean;
  /** The positions that it really computes: they differ from the plan's where drafts in flight were not accepted. */
  from: number;
  end: number;
  /** By rank and group: the state that it began with, and those behind each position that it computed. */
  states: number[][][];
}

/** A step that was submitted. */
interface Submitted {
  step: number;
  rows: Row[];
  fails: boolean;
  /** Blocks to be zeroed before it is computed. */
  zeroed: readonly number[];
  isComputed: boolean;
  answer: ExecutorResult | null;
  settle: { resolve: (answer: ExecutorResult) => void; reject: (error: unknown) => void } | null;
}

/** The executor's knowledge of one request, beside the plans. */
interface Sequence {
  /** By position, as far as it needed them. */
  tokens: number[];
  /** Tokens that are known, and positions of them that were computed. */
  length: number;
  computed: number;
  drafts: number[];
}

/**
 * A model that really uses its KV: it computes steps strictly in order, some time after they were
 * submitted. It writes KV into the blocks that the tables name on every rank, and samples from the
 * KV that it reads back there.
 */
export class SimExecutor implements Executor {
  readonly usesTables = true;
  readonly #stage: Stage;
  /** Calls of clients and operators from inside `execute`. */
  inside: () => void = () => {};
  /** Submitted and not answered, oldest first. */
  readonly #steps: Submitted[] = [];
  readonly #sequences = new Map<number, Sequence>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  get numWaiting(): number {
    return this.#steps.length;
  }

  /** Whether a step before this one was not computed yet. */
  isBehind(step: number): boolean {
    return this.#steps.some((each) => each.step < step && !each.isComputed);
  }

  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult | PromiseLike<ExecutorResult> {
    const stage = this.#stage;
    const rng = stage.rng('executor');
    const fails = stage.strikes('stepFails', rng);
    const rows = Array.from({ length: plan.numRequests }, (_, i) => this.#row(plan, tables as StepTables, i));
    for (const { handle } of rows) if (fails) stage.blame(handle, 'step');
    const step: Submitted = {
      ...{ step: plan.step, rows, fails, isComputed: false, answer: null, settle: null },
      zeroed: Array.from(plan.blocksToZero ?? []),
    };
    this.#steps.push(step);
    this.#checkAdapters(plan);
    this.inside();
    if (stage.isCalm || rng.chance(stage.setup.workload.syncAnswers)) {
      while (!step.isComputed) this.compute();
      this.#steps.splice(this.#steps.indexOf(step), 1);
      if (fails) throw new Error('the step fails');
      return this.#spoilt(step);
    }
    return new Promise((resolve, reject) => {
      step.settle = { resolve, reject };
    });
  }

  dispose(): void {
    this.#steps.length = 0;
  }

  /** Computes the oldest step that was not. */
  compute(): boolean {
    const next = this.#steps.find(({ isComputed }) => !isComputed);
    if (next === undefined) return false;
    next.isComputed = true;
    // Every entry is written before any is read: one may have hit what another fills in the same step.
    for (const row of next.rows) this.#place(row);
    this.#stage.kv.zero(next.zeroed);
    for (const row of next.rows) row.states = this.#states(row);
    for (const row of next.rows) this.#write(next, row);
    next.answer = this.#sample(next);
    return true;
  }

  /** Answers one of the steps that were computed. */
  answer(at: number): boolean {
    const computed = this.#steps.filter(({ isComputed }) => isComputed);
    const step = computed[Math.min(at, computed.length - 1)];
    if (step === undefined) return false;
    this.#steps.splice(this.#steps.indexOf(step), 1);
    if (step.fails) step.settle?.reject(new Error('the step fails'));
    else step.settle?.resolve(this.#spoilt(step));
    return true;
  }

  #row(plan: ExecutorPlan, tables: StepTables, i: number): Row {
    const stage = this.#stage;
    const request = plan.requests[i];
    const drafts = Array.from(
      { length: plan.numDraftTokens[i] },
      (_, j) => plan.draftTokens[i * plan.maxDrafts + j],
    );
    const from = tables.queryStart[i];
    const scheduled = plan.numScheduledTokens[i];
    const fails = stage.strikes('rowFails', stage.rng('executor'));
    if (fails) stage.blame(request.handle, 'row');
    const constrained = request.grammar !== null && plan.bitmaskEntries().includes(i);
    const ids = tables.inputIds.slice(from, from + scheduled - drafts.length);
    if (plan.kinds[i] !== 0) this.#checkKnown(plan, tables, i, ids);
    const blocks = tables.groups.map(({ blockTable, maxBlocksPerRow: width }, g) =>
      Array.from(blockTable.subarray(i * width, i * width + plan.groups[g].numBlocks[i])),
    );
    return {
      handle: request.handle,
      isAdmitted: plan.kinds[i] !== 0,
      blocks,
      computed: plan.numComputedTokens[i],
      scheduled,
      samples: plan.maxOutputTokens[i] > 0,
      drafts,
      numInvalid: plan.numInvalidDraftTokens[i],
      ids,
      state: constrained ? (request.grammar as SimGrammar).state : -1,
      root: stage.transcripts.get(request.handle)?.root ?? 0,
      fails,
      from: 0,
      end: 0,
      states: [],
    };
  }

  /** I9. */
  #checkAdapters({ requests, numRequests, step }: ExecutorPlan): void {
    const { maxLoras = 0 } = this.#stage.setup.engine;
    const adapters = new Set(requests.slice(0, numRequests).map(({ adapter }) => adapter));
    adapters.delete('');
    if (maxLoras === 0 || adapters.size <= maxLoras) return;
    this.#stage.broke('I9', `${adapters.size} adapters run in step ${step}: ${[...adapters]}`);
  }

  /**
   * The tokens that the tables have of an admitted request must be its text, also when the step was
   * kept back.
   */
  #checkKnown(plan: ExecutorPlan, tables: StepTables, i: number, ids: Int32Array): void {
    const { handle } = plan.requests[i];
    const computed = plan.numComputedTokens[i];
    const known = new Int32Array(computed + ids.length);
    const count = tables.readTokens(i, 0, known);
    const text = this.#stage.transcripts.get(handle);
    const isText = (token: number, p: number) =>
      p < computed ? token === text?.token(p) : token === ids[p - computed];
    if (count === known.length && known.every(isText)) return;
    this.#stage.broke(
      'I18',
      `${this.#stage.name(handle)} is admitted with ${count} of ${known.length} tokens: ${known}`,
    );
  }

  /** Where the row really is: a plan that was made with steps in flight counts drafts that were not accepted. */
  #place(row: Row): void {
    const { handle, computed, ids } = row;
    const sequence = this.#sequences.get(handle) ?? { tokens: [], length: 0, computed: 0, drafts: [] };
    this.#sequences.set(handle, sequence);
    if (row.isAdmitted || computed < sequence.computed) sequence.computed = computed;
    let known = 0;
    ids.forEach((token, i) => {
      if (token < 0) return;
      sequence.tokens[computed + i] = token;
      known = computed + i + 1;
    });
    const planned = computed + ids.length;
    if (row.samples && known === planned) {
      sequence.length = planned;
      sequence.computed = computed;
    } else if (known > sequence.length) sequence.length = known;
    row.from = sequence.computed;
    row.end = row.samples ? sequence.length : Math.min(sequence.computed + ids.length, sequence.length);
    // A plan may have counted on tokens that drafts did not become, and then there is none to sample from.
    if (row.samples && row.from >= row.end) row.from = row.end - 1;
    const surplus = computed - sequence.computed;
    const { maxDrafts, pipelined } = this.#drafting;
    if (surplus > (pipelined ? 2 * maxDrafts : 0) || row.end - row.from < (row.samples ? 1 : 0)) {
      const what = `${computed}+${row.scheduled} of which ${row.drafts.length} drafts, and is at ${sequence.computed} of ${sequence.length}`;
      this.#stage.broke('I18', `${this.#stage.name(handle)} is to compute ${what}`);
    }
  }

  get #drafting(): { maxDrafts: number; pipelined: boolean } {
    const { numSpeculativeTokens = 0, pipelineDepth = 1 } = this.#stage.setup.engine;
    return { maxDrafts: numSpeculativeTokens, pipelined: pipelineDepth > 1 };
  }

  #write({ step, fails }: Submitted, row: Row): void {
    const { handle, drafts, root } = row;
    const { kv } = this.#stage;
    const sequence = this.#sequences.get(handle) as Sequence;
    const end = row.samples ? row.end + drafts.length : row.end;
    if (row.samples) {
      drafts.forEach((draft, j) => {
        drafts[j] = draft >= 0 || j >= drafts.length - row.numInvalid ? draft : (sequence.drafts[j] ?? -1);
        sequence.tokens[row.end + j] = drafts[j];
      });
    }
    if (row.end > sequence.computed) sequence.computed = row.end;
    const garbled = fails || row.fails;
    if (garbled && mix(step, handle) % 2 === 0) return;
    for (let rank = 0; rank < kv.planes.length; rank++) {
      const reading = new Reading(kv.groups, root, (g, p) => this.#content(row, rank, g, p));
      for (let p = row.from; p < end; p++) {
        const before = reading.before(p);
        for (const [g, group] of kv.groups.entries()) {
          const kept = garbled ? GARBAGE : reading.kept(g, p, before, sequence.tokens[p]);
          if (keepsTokens(group)) this.#keep(rank, row, g, p, kept);
          else row.states[rank][g].push(kept);
        }
      }
    }
    // The last state is known when the drafts have been verified.
    if (drafts.length === 0 || garbled) this.#keepStates(row, end);
  }

  /**
   * The content at a position, or of a group of states: the state behind it, as far as the row has
   * it.
   */
  #content({ blocks, states, from }: Row, rank: number, g: number, p: number): number {
    const { kv } = this.#stage;
    return keepsTokens(kv.groups[g]) ? kv.planes[rank][kv.at(g, blocks, p)] : states[rank][g][p - from + 1];
  }

  /** Leaves states in blocks: the one behind the last token, and those at ends of blocks that the step passed. */
  #keepStates(row: Row, end: number): void {
    const { kv } = this.#stage;
    for (const [g, group] of kv.groups.entries()) {
      if (keepsTokens(group)) continue;
      for (let p = row.from; p < end; p++) {
        const isEnd = (p + 1) % group.size === 0 && (group.mode === 'all' || kv.block(g, row.blocks, p) > 0);
        if (p < end - 1 && !isEnd) continue;
        for (let rank = 0; rank < kv.planes.length; rank++)
          this.#keep(rank, row, g, p, row.states[rank][g][p - row.from + 1]);
      }
    }
  }

  #keep(rank: number, { handle, blocks }: Row, g: number, p: number, kept: number): void {
    const { kv } = this.#stage;
    if (kv.block(g, blocks, p) > 0) kv.planes[rank][kv.at(g, blocks, p)] = kept;
    else this.#stage.broke('I4', `${this.#stage.name(handle)} has no block for position ${p} in group ${g}`);
  }

  /**
   * The states that a row begins with, by rank and group: no state that this step makes can be read
   * yet.
   */
  #states({ blocks, from, root }: Row): number[][][] {
    const { kv } = this.#stage;
    return kv.planes.map((plane) =>
      kv.groups.map((group, g) => [
        keepsTokens(group) ? 0 : from === 0 ? root : plane[kv.at(g, blocks, from - 1)],
      ]),
    );
  }

  /**
   * The values that all ranks together read in front of positions behind a row's computed tokens.
   */
  #readAll(row: Row): (end: number) => number {
    const { kv } = this.#stage;
    const readings = kv.planes.map(
      (_, rank) => new Reading(kv.groups, row.root, (g, p) => this.#content(row, rank, g, p)),
    );
    return (end) => {
      const [first, ...others] = readings.map((reading) => reading.before(end));
      return others.reduce((all, read) => (read === first ? all : mix(all, read)), first);
    };
  }

  #sample({ rows, step }: Submitted): ExecutorResult {
    const counts = new Int32Array(rows.length);
    const errors = new Uint8Array(rows.length);
    const draftCounts = new Int32Array(rows.length);
    const tokens: number[] = [];
    const drafts: number[] = [];
    rows.forEach((row, i) => {
      if (row.fails) errors[i] = 1;
      if (!row.samples) return;
      // Steps behind a failed row compute on its tokens all the same.
      const sampled = this.#sampleRow(row);
      const made = this.#draft(row, sampled, step);
      if (row.fails) return;
      counts[i] = sampled.length;
      tokens.push(...sampled);
      draftCounts[i] = made.length;
      drafts.push(...made);
    });
    const answer = { tokens: Int32Array.from(tokens), counts };
    return {
      ...answer,
      ...(errors.includes(1) ? { errors } : {}),
      ...(this.#drafting.maxDrafts > 0
        ? { drafts: { tokens: Int32Array.from(drafts), counts: draftCounts } }
        : {}),
    };
  }

  #sampleRow(row: Row): number[] {
    const sequence = this.#sequences.get(row.handle) as Sequence;
    const sampled: number[] = [];
    const numValid = row.drafts.length - row.numInvalid;
    const readAll = this.#readAll(row);
    for (let j = 0; ; j++) {
      const read = readAll(row.end + j);
      const token = nextToken(read, row.state < 0 ? -1 : allowedKind(row.state));
      sampled.push(token);
      if (row.state >= 0) row.state = follow(row.state, token);
      if (j >= numValid || row.drafts[j] !== token) break;
    }
    sampled.forEach((token, j) => {
      sequence.tokens[row.end + j] = token;
    });
    sequence.length = row.end + sampled.length;
    sequence.computed = sequence.length - 1;
    if (row.drafts.length > 0) this.#keepStates(row, sequence.computed);
    return sampled;
  }

  /** The drafts of the next tokens: now and then wrong, and never shown to a grammar. */
  #draft(row: Row, sampled: readonly number[], step: number): number[] {
    const { maxDrafts, pipelined } = this.#drafting;
    const count = pipelined ? maxDrafts : mix(step, row.handle) % (maxDrafts + 1);
    const { kv } = this.#stage;
    const from = row.end + sampled.length - 1;
    /** The KV that these tokens would leave, by group. */
    const kept = kv.groups.map((): number[] => []);
    const content = (g: number, p: number): number =>
      p < from ? this.#content(row, 0, g, p) : kept[g][p - from];
    const reading = new Reading(kv.groups, row.root, content);
    let token = sampled[sampled.length - 1];
    let { state } = row;
    const made = Array.from({ length: count }, (_, j) => {
      const before = reading.before(from + j);
      for (const [g, own] of kept.entries()) own.push(reading.kept(g, from + j, before, token));
      const read = reading.before(from + j + 1);
      token = nextToken(read, state < 0 ? -1 : allowedKind(state));
      if (mix(read, j) % 4 === 0) token++;
      if (state >= 0) state = follow(state, token);
      return token;
    });
    (this.#sequences.get(row.handle) as Sequence).drafts = made;
    return made;
  }

  /** Makes an answer wrong now and then, in one of its rows or as a whole. */
  #spoilt({ answer, rows, step }: Submitted): ExecutorResult {
    const stage = this.#stage;
    const rng = stage.rng('executor');
    const good = answer as ExecutorResult;
    if (!stage.strikes('answerWrong', rng)) return good;
    const at = rng.below(rows.length);
    const before = good.counts.subarray(0, at).reduce((sum, count) => sum + count, 0);
    const own = good.tokens.subarray(before, before + good.counts[at]);
    const bad = rng.pick([[], [...own, 5, 5, 5, 5, 5], [-1], null, undefined]);
    stage.note(`answers step ${step} wrongly in row ${at}`);
    if (bad === null || bad === undefined) {
      for (const { handle } of rows) stage.blame(handle, 'step');
      if (bad === null) return null as unknown as ExecutorResult;
      return { tokens: good.tokens, counts: good.counts.subarray(0, rows.length - 1) };
    }
    stage.blame(rows[at].handle, 'row');
    const counts = good.counts.slice();
    counts[at] = bad.length;
    const tokens = [...good.tokens.subarray(0, before), ...bad, ...good.tokens.subarray(before + own.length)];
    return { ...good, tokens: Int32Array.from(tokens), counts };
  }
}
