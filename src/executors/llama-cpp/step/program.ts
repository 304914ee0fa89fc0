import { IntList } from '../cells/int-list.js';
import { Moves } from '../cells/moves.js';

/** Consecutive tokens of one entry that are computed together. */
interface Range {
  entry: number;
  sequence: number;
  /** Number of the adapter that computes it; -1: none. */
  adapter: number;
  /** Positions. */
  from: number;
  to: number;
  /** Index of the range's first token among the tokens of the step. */
  token: number;
  /**
   * For a range that samples: drafts among its last tokens, and the sampler (-1: greedy). numDrafts
   * -1: the range does not sample.
   */
  numDrafts: number;
  sampler: number;
  /**
   * Rows up to this position score the tokens behind them. The token behind the last such row is
   * `next`. Not above `from`: no row scores.
   */
  scoredTo: number;
  next: number;
  /** Number of likeliest tokens that the client also wants. */
  numLikeliest: number;
}

/** The limits of calls. */
export interface ProgramShape {
  /** Most tokens of a call. */
  readonly batch: number;
  /**
   * Rows from which attention is computed in tiles. Only calls of long ranges have so many rows.
   * Infinity: never.
   */
  readonly splitFrom: number;
  /** Most rows of a call with logits. */
  readonly outputs: number;
}

/**
 * A step as llama.cpp computes it, in waves. Later waves may share the results of earlier waves. A
 * wave is several calls if it has too many tokens for one call, or if separate calls are faster.
 * From 64 rows on, llama.cpp computes attention on a CPU in tiles of rows. A cell is skipped only
 * if no row of the tile reads it. In a tile, decodes of different texts are computed over all these
 * texts. Decodes therefore get smaller calls of their own, in front of prefills.
 *
 * native/llama/program.h reads the output of `write`.
 */
export class Program {
  readonly #shape: ProgramShape;
  /** [wave] moves in front of the wave. The arrays are reused by the next step. */
  readonly #moves: Moves[] = [];
  readonly #ranges: Range[][] = [];
  #numWaves = 0;
  /** Whether any range of the step scores. */
  #hasScores = false;
  readonly #tokens = new IntList();
  readonly #out = new IntList();
  /** [entry] index of the last call that has tokens of the entry. */
  readonly #lastCalls = new IntList();
  /**
   * The entries that sample or score, in this order. Beside them: the position of the first scored
   * token; -1: the entry samples.
   */
  readonly #sampling = new IntList();
  readonly #scored = new IntList();
  #numCalls = 0;
  /** Whether the last call samples behind each of its tokens. */
  #samplesAll = false;
  /** The adapter of the last call. */
  #adapter = -1;

  constructor(shape: ProgramShape) {
    this.#shape = shape;
  }

  #clear(): void {
    for (const moves of this.#moves) moves.clear();
    for (const ranges of this.#ranges) ranges.length = 0;
    this.#numWaves = 0;
    this.#hasScores = false;
    this.#tokens.clear();
  }

  /** The moves in front of a wave. */
  movesOf(wave: number): Moves {
    this.#reach(wave);
    return this.#moves[wave];
  }

  /**
   * Adds tokens of an entry.
   * @param adapter number of the entry's adapter; -1: none
   * @returns the index of the first one in `tokens`
   */
  add(wave: number, entry: number, sequence: number, from: number, to: number, adapter = -1): number {
    this.#reach(wave);
    const token = this.#tokens.extend(to - from);
    this.#ranges[wave].push({ entry, sequence, adapter, from, to, token, ...NO_SAMPLE });
    return token;
  }

  /** Makes the last range of a wave sample behind its last token that is no draft. */
  sample(wave: number, numDrafts: number, sampler: number): void {
    const ranges = this.#ranges[wave];
    const last = ranges[ranges.length - 1];
    last.numDrafts = numDrafts;
    last.sampler = sampler;
  }

  /**
   * Makes the last range of a wave score the tokens behind its rows.
   * @param to position behind the last scoring row
   * @param next the token behind that row
   */
  score(wave: number, to: number, next: number, numLikeliest: number): void {
    this.#hasScores = true;
    const ranges = this.#ranges[wave];
    Object.assign(ranges[ranges.length - 1], { scoredTo: to, next, numLikeliest });
  }

  /** All tokens of the step, range after range; valid until a range is added. */
  get tokens(): Int32Array {
    return this.#tokens.values;
  }

  get numTokens(): number {
    return this.#tokens.length;
  }

  /** Whether the program that was written last is one call, which samples behind each token. */
  get isDecodes(): boolean {
    return this.#numCalls === 1 && this.#samplesAll;
  }

  /** Whether all tokens of an entry are in the first `calls` calls. */
  isDone(entry: number, calls: number): boolean {
    return this.#lastCalls.values[entry] < calls;
  }

  /** The entries that sample or score, in the order of the answers. */
  get sampling(): Int32Array {
    return this.#sampling.values.subarray(0, this.#sampling.length);
  }

  /** Beside `sampling`: the position of the first scored token; -1: the entry samples. */
  get scored(): Int32Array {
    return this.#scored.values.subarray(0, this.#scored.length);
  }

  /**
   * Writes the program, and begins the next program. Moves that are added from now on belong to the
   * next program.
   * @returns numbers that are valid until the next call
   */
  write(numEntries: number): IntList {
    const out = this.#out;
    this.#reach(0);
    out.clear();
    out.push(0);
    this.#numCalls = 0;
    this.#sampling.clear();
    this.#scored.clear();
    this.#lastCalls.clear();
    const at = this.#lastCalls.extend(numEntries);
    this.#lastCalls.values.fill(-1, at, at + numEntries);
    for (let wave = 0; wave < this.#numWaves; wave++) this.#writeWave(wave);
    out.values[0] = this.#numCalls;
    this.#clear();
    return out;
  }

  #reach(wave: number): void {
    while (this.#moves.length <= wave) {
      this.#moves.push(new Moves());
      this.#ranges.push([]);
    }
    this.#numWaves = Math.max(this.#numWaves, wave + 1);
  }

  #writeWave(wave: number): void {
    let moves: Moves | null = this.#moves[wave];
    for (const ranges of this.#byAdapter(this.#ranges[wave])) {
      for (const { ranges: part, most } of this.#partsOf(ranges)) {
        for (const call of cut(part, most)) {
          this.#writeCall(moves, call);
          moves = null;
        }
      }
    }
    if (moves !== null && moves.count > 0) this.#writeCall(moves, []);
  }

  /**
   * Splits ranges by their adapters. llama.cpp has one adapter for a whole call, and a change is
   * expensive. So the adapter of the last call comes first.
   */
  #byAdapter(ranges: readonly Range[]): readonly (readonly Range[])[] {
    if (ranges.every(({ adapter }) => adapter === ranges[0].adapter)) return [ranges];
    const groups = new Map<number, Range[]>([[this.#adapter, []]]);
    for (const range of ranges) {
      const group = groups.get(range.adapter);
      if (group === undefined) groups.set(range.adapter, [range]);
      else group.push(range);
    }
    return [...groups.values()];
  }

  /** The kinds of calls that ranges need, and the most tokens of a call. */
  #partsOf(all: readonly Range[]): { ranges: readonly Range[]; most: number }[] {
    const { batch, splitFrom, outputs } = this.#shape;
    const scoring = this.#hasScores ? all.filter(isScored) : NO_RANGES;
    // All rows of these ranges want logits, which a call has few of.
    const ranges = scoring.length === 0 ? all : all.filter((range) => !isScored(range));
    let parts = [{ ranges, most: batch }];
    if (countRows(ranges) >= splitFrom) {
      const short = ranges.filter(isShort);
      const long = ranges.filter((range) => !isShort(range));
      parts = [
        { ranges: short, most: evenPart(short, Math.min(batch, splitFrom - 1)) },
        { ranges: long, most: batch },
      ];
    }
    if (scoring.length > 0) parts.push({ ranges: scoring, most: Math.min(batch, outputs) });
    return parts;
  }

  #writeScore(ranges: readonly Range[], range: Range): void {
    const { entry, from, to, token, scoredTo, next, numLikeliest } = range;
    const last = Math.min(to, scoredTo);
    // If a range was cut, its next token is in its other part.
    const behind = last < scoredTo ? this.#tokens.values[token + last - from] : next;
    const out = this.#out;
    out.push(countRows(ranges.slice(0, ranges.indexOf(range))));
    out.push(last - from - 1);
    out.push(-2 - numLikeliest);
    out.push(behind);
    this.#sampling.push(entry);
    this.#scored.push(from + 1);
  }

  #writeCall(moves: Moves | null, ranges: readonly Range[]): void {
    const out = this.#out;
    const count = countRows(ranges);
    const samples = ranges.filter(({ numDrafts }) => numDrafts >= 0);
    const scores = this.#hasScores ? ranges.filter(isScored) : NO_RANGES;
    out.push(moves?.count ?? 0);
    out.push(count);
    out.push(samples.length + scores.length);
    if (ranges.length > 0) this.#adapter = ranges[0].adapter;
    out.push(this.#adapter);
    this.#samplesAll = samples.length === count && scores.length === 0;
    if (moves !== null) out.append(moves.list);
    const tokens = out.extend(3 * count);
    const { values } = out;
    let row = 0;
    const rows: number[] = [];
    for (const { entry, sequence, from, to, token, numDrafts } of ranges) {
      values.set(this.#tokens.values.subarray(token, token + to - from), tokens + row);
      for (let p = from; p < to; p++, row++) {
        values[tokens + count + row] = p;
        values[tokens + 2 * count + row] = sequence;
      }
      if (numDrafts >= 0) rows.push(row - 1 - numDrafts);
      this.#lastCalls.values[entry] = this.#numCalls;
    }
    for (const [i, { entry, to, numDrafts, sampler }] of samples.entries()) {
      out.push(rows[i]);
      out.push(numDrafts);
      out.push(sampler);
      out.push(to - numDrafts);
      this.#sampling.push(entry);
      this.#scored.push(-1);
    }
    for (const range of scores) this.#writeScore(ranges, range);
    this.#numCalls++;
  }
}

const NO_RANGES: Range[] = [];
const NO_SAMPLE = { numDrafts: -1, sampler: -1, scoredTo: -1, next: -1, numLikeliest: 0 };

function isScored({ from, scoredTo }: Range): boolean {
  return scoredTo > from;
}

function countRows(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { from, to }) => sum + to - from, 0);
}

/**
 * Rows of a call if decodes are split into the fewest calls of at most `most` rows, all of about
 * the same size.
 */
function evenPart(decodes: readonly Range[], most: number): number {
  const rows = countRows(decodes);
  // The rows of one decode stay together.
  const largest = decodes.reduce((all, { from, to }) => Math.max(all, to - from), 1);
  return Math.max(largest, Math.ceil(rows / Math.max(1, Math.ceil(rows / most))));
}

/** A decode, with its drafts. */
function isShort({ from, to, numDrafts }: Range): boolean {
  return numDrafts >= 0 && to - from <= numDrafts + 1;
}

/**
 * Cuts ranges into calls of at most `batch` tokens. The rows that one sample needs stay together.
 */
function cut(ranges: readonly Range[], batch: number): Range[][] {
  const calls: Range[][] = [];
  let call: Range[] = [];
  let room = batch;
  const next = (): void => {
    if (call.length > 0) calls.push(call);
    call = [];
    room = batch;
  };
  for (const range of ranges) {
    let rest = range;
    while (rest.to - rest.from > room) {
      const most = Math.min(rest.from + room, rest.to - 1 - Math.max(0, rest.numDrafts));
      if (most > rest.from) {
        call.push({ ...rest, to: most, numDrafts: -1 });
        rest = { ...rest, from: most, token: rest.token + most - rest.from };
      }
      next();
    }
    if (rest.to > rest.from) call.push(rest);
    room -= rest.to - rest.from;
  }
  next();
  return calls;
}
