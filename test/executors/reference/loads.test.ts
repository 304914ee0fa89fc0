// KV that lanes loaded into other blocks is right; every wrong load is found; bad arguments of
// `adopt`.
import { describe, expect, it } from 'vitest';
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import { BlockArena, CompletionQueue, HostLane } from '../../../src/transfer.js';
import { NO_INT32_ARRAYS, NO_INTEGERS } from '../../misuse/bad-values.js';
import { codeOf } from '../../misuse/bench.js';
import { ids } from '../../transfer/support.js';
import { type HandEntry, handExecutor, handMade } from './hand.js';
import { unpagedText } from './support.js';

/** Two full blocks and a token. */
const TEXT = [5, 6, 7, 5, 6, 7, 5, 6, 9];
const OTHER = [5, 6, 7, 5, 6, 7, 5, 1, 9];

/** An executor whose KV memory goes to a host tier and back over real lanes. */
class Tiers {
  readonly executor = handExecutor({ onMismatch: 'report' });
  readonly queue = new CompletionQueue();
  readonly tier = BlockArena.allocate({ numBlocks: 8, bytesPerBlock: this.executor.kv.bytesPerBlock });
  readonly out = new HostLane(this.queue, this.executor.kv, this.tier);
  readonly back = new HostLane(this.queue, this.tier, this.executor.kv);
  #step = 0;
  #found = 0;

  /** Computes one step, and answers what each entry sampled. */
  run(...entries: HandEntry[]): number[][] {
    const { plan, tables } = handMade(entries, this.#step++);
    const { tokens, counts } = this.executor.execute(plan, tables) as ExecutorResult;
    let at = 0;
    return entries.map((_, i) => {
      at += counts[i];
      return [...tokens.subarray(at - counts[i], at)];
    });
  }

  /** A new request that computes its whole prompt. */
  prefill(handle: number, text: number[], blocks: number[]): void {
    const from = { handle, kind: 1, newBlocks: blocks.length, known: text, blocks };
    this.run({ ...from, computed: 0, input: text });
  }

  store(from: number[], to: number[]): void {
    this.out.flush(ids(this.out.submit(ids(...from), ids(...to))));
  }

  load(from: number[], to: number[]): void {
    this.back.flush(ids(this.back.submit(ids(...from), ids(...to))));
  }

  /** Faults since the last call: kind, position, block. */
  found(): unknown[] {
    const { faults } = this.executor;
    const fresh = faults.slice(this.#found);
    this.#found = faults.length;
    return fresh.map(({ kind, position, block }) => [kind, position, block]);
  }

  [Symbol.dispose](): void {
    this.out.dispose();
    this.back.dispose();
    this.executor.dispose();
    this.tier.dispose();
  }
}

/** A request whose first `computed` tokens were loaded. */
function loaded(handle: number, blocks: number[], computed = 8, text = TEXT): HandEntry {
  const input = text.slice(computed);
  return { handle, kind: 1, computed, input, blocks, newBlocks: blocks.length, known: text };
}

/** Request 1 has computed TEXT in blocks 1, 2 and 3, and the first two are in the tier. */
function stored(): Tiers {
  const tiers = new Tiers();
  tiers.prefill(1, TEXT, [1, 2, 3]);
  tiers.store([1, 2], [4, 6]);
  return tiers;
}

describe('KV that a lane loads into other blocks of another request', () => {
  it.each([8, 6, 5])('is good with %i tokens, and the request goes on from it', (computed) => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    const blocks = [7, 5, 8];
    const text = [...TEXT, ...tiers.run(loaded(2, blocks, computed))[0]];
    while (text.length < 12) {
      text.push(...tiers.run({ handle: 2, computed: text.length - 1, input: [text.at(-1)!], blocks })[0]);
    }
    expect(tiers.found()).toEqual([]);
    expect(text.slice(9)).toEqual(unpagedText(Int32Array.from(TEXT), 3));
  });

  it('is good in the blocks that it came from, in another executor, and when it is stored again', () => {
    using tiers = stored();
    using other = new Tiers();
    tiers.load([4, 6], [1, 2]);
    tiers.executor.adopt(2, ids(1, 2));
    tiers.run(loaded(2, [1, 2, 8]));
    using lane = new HostLane(tiers.queue, tiers.executor.kv, other.tier);
    lane.flush(ids(lane.submit(ids(1, 2), ids(0, 1))));
    other.load([0, 1], [3, 4]);
    other.executor.adopt(2, ids(3, 4));
    other.run(loaded(2, [3, 4, 5]));
    other.store([3, 4], [5, 6]);
    other.load([5, 6], [6, 7]);
    other.executor.adopt(3, ids(6, 7));
    other.run(loaded(3, [6, 7, 8]));
    expect([tiers.found(), other.found()]).toEqual([[], []]);
  });

  it('that nobody wants any more is no matter: whoever takes the blocks computes in them', () => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.prefill(2, OTHER, [7, 5, 8]);
    tiers.load([4, 6], [1, 2]);
    tiers.prefill(3, TEXT, [1, 2, 9]);
    expect(tiers.found()).toEqual([]);
  });

  it('is shared by requests that hit it', () => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]), loaded(3, [7, 5, 9]));
    expect(tiers.found()).toEqual([]);
  });
});

describe('what is wrong with a load is found:', () => {
  it('it was skipped', () => {
    using tiers = stored();
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([
      ['unwritten-read', 0, 7],
      ['unwritten-read', 4, 5],
    ]);
  });

  it('it was skipped, and the very same content stood there from before', () => {
    using tiers = stored();
    tiers.executor.adopt(2, ids(1, 2));
    tiers.run(loaded(2, [1, 2, 8]));
    expect(tiers.found()).toEqual([
      ['unwritten-read', 0, 1],
      ['unwritten-read', 4, 2],
    ]);
  });

  it('it was one block short', () => {
    using tiers = stored();
    tiers.load([4], [7]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([['unwritten-read', 4, 5]]);
  });

  it('it was cancelled before it began', () => {
    using tiers = stored();
    tiers.back.cancel(tiers.back.submit(ids(4, 6), ids(7, 5), 3));
    tiers.back.settle(9);
    tiers.back.fence();
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toHaveLength(2);
  });

  it('it came from the wrong blocks', () => {
    using tiers = stored();
    tiers.load([6, 4], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([
      ['foreign-read', 0, 7],
      ['foreign-read', 4, 5],
    ]);
    expect(tiers.executor.faults[0]).toMatchObject({ foundPosition: 4, owner: 1 });
  });

  it('it came from a block that nobody stored', () => {
    using tiers = stored();
    tiers.load([4, 3], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([['unwritten-read', 4, 5]]);
  });

  it('it is of another text, although the tokens of the block are the same', () => {
    using tiers = stored();
    const text = [8, ...TEXT.slice(1)];
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8], 8, text));
    expect(tiers.found()).toEqual([
      ['foreign-read', 0, 7],
      ['foreign-read', 4, 5],
    ]);
  });

  it('one token of it is another', () => {
    using tiers = new Tiers();
    tiers.prefill(1, OTHER, [1, 2, 3]);
    tiers.store([1, 2], [4, 6]);
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([['foreign-read', 7, 5]]);
  });

  it('one bit of it is another', () => {
    using tiers = stored();
    for (let byte = 0; byte < 32; byte++) {
      // Owner and generation are not compared: any request may have written a loaded block.
      if ((byte >= 8 && byte < 16) || byte >= 24) continue;
      tiers.tier.block(6)[2 * 32 + byte] ^= 16;
      tiers.load([4, 6], [7, 5]);
      tiers.executor.adopt(2, ids(7, 5));
      tiers.run(loaded(2, [7, 5, 8]));
      expect(tiers.found()).toEqual([['foreign-read', 6, 5]]);
      tiers.tier.block(6)[2 * 32 + byte] ^= 16;
    }
  });

  it('it was stored before it was computed', () => {
    using tiers = new Tiers();
    tiers.run({ ...loaded(1, [1, 2, 3], 0), input: TEXT.slice(0, 6), samples: false });
    tiers.store([1, 2], [4, 6]);
    tiers.run({ handle: 1, computed: 6, input: TEXT.slice(6), blocks: [1, 2, 3] });
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([['unwritten-read', 6, 5]]);
  });

  it('it was stored when its blocks were already of somebody else', () => {
    using tiers = new Tiers();
    tiers.prefill(1, TEXT, [1, 2, 3]);
    tiers.prefill(3, OTHER, [4, 2, 5]);
    tiers.store([1, 2], [4, 6]);
    tiers.load([4, 6], [7, 6]);
    tiers.executor.adopt(2, ids(7, 6));
    tiers.run(loaded(2, [7, 6, 8]));
    expect(tiers.found()).toEqual([['foreign-read', 7, 6]]);
  });

  it('it landed after the step that reads it', () => {
    using tiers = stored();
    const job = tiers.back.submit(ids(4, 6), ids(7, 5), 1);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toHaveLength(2);
    tiers.back.settle(1);
    tiers.back.flush(ids(job));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toContainEqual(['unexpected-load', 0, 7]);
  });

  it('it was not declared', () => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toContainEqual(['unexpected-load', 0, 7]);
    // Nor was this one, into blocks that another request computes in.
    tiers.load([4, 6], [1, 2]);
    tiers.run({ handle: 1, computed: 9, input: [5], blocks: [1, 2, 3] });
    expect(tiers.found()).toContainEqual(['unexpected-load', 0, 1]);
  });

  it('it was overwritten afterwards, by the very same content too', () => {
    for (const again of [4, 6]) {
      using tiers = stored();
      tiers.load([4, 6], [7, 5]);
      tiers.executor.adopt(2, ids(7, 5));
      tiers.load([again], [7]);
      tiers.run(loaded(2, [7, 5, 8]));
      expect(tiers.found()).toContainEqual(['unexpected-load', 0, 7]);
    }
  });

  it('its blocks were taken by somebody else afterwards', () => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    tiers.prefill(3, OTHER, [9, 5, 4]);
    tiers.run({
      handle: 2,
      computed: 9,
      input: [unpagedText(Int32Array.from(TEXT), 1)[0]],
      blocks: [7, 5, 8],
    });
    expect(tiers.found()).toEqual([['foreign-read', 7, 5]]);
  });

  it('it was written past the lanes', () => {
    using tiers = stored();
    for (const [from, to] of [
      [4, 7],
      [6, 5],
    ]) {
      tiers.executor.kv.block(to).set(tiers.tier.block(from));
    }
    tiers.executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toHaveLength(2);
  });

  it('it was declared for a step that computes the block itself', () => {
    using tiers = stored();
    tiers.load([4, 6], [7, 5]);
    tiers.executor.adopt(3, ids(5));
    // Request 2 computes from token 5 on, in a block that is declared to be another's.
    tiers.executor.adopt(2, ids(7));
    tiers.run(loaded(2, [7, 5, 8], 5));
    expect(tiers.found()).toContainEqual(['foreign-write', 5, 5]);
  });
});

describe('bad arguments of adopt', () => {
  it('are refused, and nothing is changed', () => {
    using tiers = stored();
    const { executor } = tiers;
    tiers.load([4, 6], [7, 5]);
    const refused = (handle: unknown, blocks: unknown) =>
      codeOf(() => executor.adopt(handle as number, blocks as Int32Array));
    for (const handle of [undefined, ...NO_INTEGERS, 0, -1])
      expect(refused(handle, ids(7, 5))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const lists = NO_INT32_ARRAYS.map((make) => make()).filter((value) => !(value instanceof Int32Array));
    for (const blocks of [undefined, ...lists, ids(7, 0), ids(7, 10), ids(7, -1), ids(7, 5, 7)])
      expect(refused(2, blocks)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    executor.adopt(2, ids());
    executor.adopt(2, ids(7, 5));
    tiers.run(loaded(2, [7, 5, 8]));
    expect(tiers.found()).toEqual([]);
    executor.dispose();
    expect(refused(2, ids(7))).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => executor.kv)).toBe('ERR_BLOCKSTEP_DISPOSED');
    // Lanes have the memory for as long as they need it.
    tiers.store([7], [0]);
    expect(tiers.tier.block(0)[16]).toBe(TEXT[0]);
  });
});
