// Handles and slots, prompts, hashes, and admission with prefix hits.
import { expect, it } from 'vitest';
import { Control, generationOf, PendingOp, SLOT_LIMIT, slotOf } from '../../../src/core/core.js';
import { type BenchCore, codeOf, range } from '../../support/core-bench.js';
import { type Bench, NO_FREE_ROW, NOT_ENOUGH_BLOCKS } from './bench.js';

export function describeRequests(bench: Bench): void {
  it('add gives out handles of slot and generation, and takes the last closed slot first', () => {
    using core = bench();
    const handles = range(3).map((i) => core.native.add(Int32Array.of(i), '', ''));
    expect(handles.map(slotOf)).toEqual([0, 1, 2]);
    expect(handles.map(generationOf)).toEqual([1, 1, 1]);
    core.close(0);
    core.close(2);
    core.flush();
    expect(core.native.handle(2)).toBe(0);
    const again = core.native.add(Int32Array.of(7), '', '');
    expect([slotOf(again), generationOf(again)]).toEqual([2, 2]);
    expect(core.native.handle(2)).toBe(again);
    expect(core.native.handle(SLOT_LIMIT - 1)).toBe(0);
  });

  it('keeps the tokens of a slot, and only that', () => {
    using core = bench();
    const prompt = Int32Array.of(3, 1, 4, 1, 5, 2 ** 31 - 2);
    const slot = slotOf(core.native.add(prompt, '', ''));
    prompt.fill(0);
    core.push(PendingOp.append, slot, 9);
    expect([...core.tokens(slot)]).toEqual([3, 1, 4, 1, 5, 2 ** 31 - 2, 9]);
    const out = new Int32Array(3);
    expect(core.native.readTokens(slot, 5, out)).toBe(2);
    expect([...out]).toEqual([2 ** 31 - 2, 9, 0]);
    expect(core.native.readTokens(slot, 7, out)).toBe(0);
  });

  it('refuses prompts that are longer than the model, or hold impossible ids', () => {
    using core = bench();
    for (const bad of [range(65), [-1], [0, 2 ** 31 - 1], [-(2 ** 31)]]) {
      expect(codeOf(() => core.open(bad))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(core.native.handle(0)).toBe(0);
    expect(core.open(range(64))).toBe(0);
  });

  it('opens a request without a prompt, whose tokens are appended later', () => {
    using core = bench();
    using other = bench();
    const slot = core.open([]);
    expect([core.native.numTokens(slot), core.native.match(slot, 0)]).toEqual([0, 0]);
    core.native.verify();
    for (const token of range(9)) core.push(PendingOp.append, slot, token);
    const hashesOf = (c: BenchCore, at: number) => [c.native.blockHash(at, 0), c.native.blockHash(at, 1)];
    expect([...core.tokens(slot)]).toEqual(range(9));
    expect(hashesOf(core, slot)).toEqual(hashesOf(other, other.open(range(9))));
    core.native.verify();
  });

  it('hashes depend on the tokens before, the adapter, the salt and the seed, and on nothing else', () => {
    using core = bench();
    using other = bench({ hashSeed: new Uint8Array(16).fill(8) });
    const hashes = (c: BenchCore, tokens: number[], adapter = '', salt = '') => {
      const slot = c.open(tokens, adapter, salt);
      return [c.native.blockHash(slot, 0), c.native.blockHash(slot, 1)];
    };
    const [first, second] = hashes(core, range(9));
    expect(hashes(core, range(8))).toEqual([first, second]);
    expect(hashes(core, [9, ...range(7, 1)])[1]).not.toBe(second);
    const variants = [
      hashes(core, range(8), 'a'),
      hashes(core, range(8), '', 'a'),
      hashes(core, range(8), 'a', 'b'),
      hashes(core, range(8), 'ab'),
      hashes(core, range(8), '', '\ud800'),
      hashes(core, range(8), '', '\ud801'),
      hashes(other, range(8)),
    ];
    expect(new Set([first, ...variants.map((v) => v[0])]).size).toBe(8);
    expect(first).toBeLessThan(2n ** 128n);
    expect(codeOf(() => core.native.blockHash(0, 2))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    using off = bench({ enablePrefixCaching: false });
    expect(codeOf(() => off.native.blockHash(off.open(range(8)), 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('hands out slots until the table is full', () => {
    using core = bench({ enablePrefixCaching: false });
    const prompt = Int32Array.of(1);
    for (let i = 0; i < 5000; i++) core.native.add(prompt, '', '');
    expect(core.native.memory().tableBytes).toBeGreaterThan(5000 * 64);
    for (let i = 0; i < 5000; i++) core.close(i);
    core.native.verify();
    expect(slotOf(core.native.add(prompt, '', ''))).toBe(4999);
  });
}

export function describeAdmission(bench: Bench): void {
  it('a cold request takes its blocks from the head of the queue and the lowest free row', () => {
    using core = bench();
    const slot = core.open(range(9));
    expect(core.native.match(slot, 2)).toBe(0);
    expect(core.native.admit(slot, 0, 0, 9, 0)).toBe(0);
    expect([...core.blocks(slot)]).toEqual([1, 2, 3]);
    expect([core.freeBlocks, core.rowsInUse, core.publishedBlocks]).toEqual([29, 1, 0]);
    const out = new Int32Array(1);
    expect(core.native.readBlocks(slot, 1, out)).toBe(1);
    expect(out[0]).toBe(2);
    expect(core.native.readBlocks(slot, 3, out)).toBe(0);
    expect(core.native.admit(core.open([1]), 0, 0, 1, 0)).toBe(1);
    core.push(PendingOp.release, slot, 0);
    expect(core.native.admit(core.open([1]), 0, 0, 1, 0)).toBe(0);
    core.native.verify();
  });

  it('publishes full blocks up to publishTokens, which the next one hits', () => {
    using core = bench();
    const first = core.open(range(11));
    core.native.admit(first, 0, 0, 11, 9);
    expect([...core.published()]).toEqual([1, 2]);
    const second = core.open(range(12));
    expect(core.native.match(second, 1)).toBe(1);
    expect(core.native.match(second, 3)).toBe(2);
    expect(core.control[Control.hitFree]).toBe(0);
    expect(core.native.admit(second, 2, 0, 12, 12)).toBe(1);
    expect([...core.blocks(second)]).toEqual([1, 2, 4]);
    expect(range(5).map((id) => core.native.refCount(id))).toEqual([0, 2, 2, 1, 1]);
    expect([core.freeBlocks, core.publishedBlocks]).toEqual([28, 3]);
  });

  it('counts hits in the free queue as blocks that it needs', () => {
    using core = bench({ numBlocks: 5 });
    core.close(core.start(range(12)));
    const slot = core.open(range(16));
    expect([core.native.match(slot, 3), core.control[Control.hitFree]]).toEqual([3, 3]);
    const blocker = core.open([50]);
    core.native.admit(blocker, 0, 0, 1, 0);
    expect(core.freeBlocks).toBe(3);
    const before = core.native.digest();
    expect(core.native.admit(slot, 3, 0, 16, 0)).toBe(NOT_ENOUGH_BLOCKS);
    expect(core.native.digest()).toBe(before);
    expect(core.native.admit(slot, 3, 0, 12, 12)).toBe(1);
    expect([core.freeBlocks, core.evictions]).toEqual([0, 0]);
    core.native.verify();
  });

  it('reserves the full sequence only when asked', () => {
    using core = bench({ numBlocks: 5 });
    const slot = core.open(range(32));
    expect(core.native.admit(slot, 0, 32, 8, 0)).toBe(NOT_ENOUGH_BLOCKS);
    expect(core.native.admit(slot, 0, 16, 8, 0)).toBe(0);
    expect(core.freeBlocks).toBe(2);
  });

  it('extends the row that a slot holds already, and takes no hits for it', () => {
    using core = bench();
    const slot = core.start(range(6));
    expect(codeOf(() => core.native.admit(slot, 1, 0, 8, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(core.native.admit(slot, 0, 0, 20, 0)).toBe(0);
    expect(core.blocks(slot)).toHaveLength(5);
    expect(core.native.admit(slot, 0, 0, 4, 0)).toBe(0);
    expect(core.blocks(slot)).toHaveLength(5);
  });

  it('says when no row is free', () => {
    using core = bench({ numRows: 2 });
    core.start([1]);
    core.start([2]);
    expect(core.native.admit(core.open([3]), 0, 0, 1, 0)).toBe(NO_FREE_ROW);
    expect(core.freeBlocks).toBe(30);
  });

  it('gives out the lowest free row of many', () => {
    using core = bench({ numBlocks: 200, numRows: 130 });
    const slots = range(130).map((i) => core.start([i]));
    expect(core.native.admit(core.open([3]), 0, 0, 1, 0)).toBe(NO_FREE_ROW);
    for (const row of [129, 64, 3]) core.push(PendingOp.release, slots[row], 0);
    const rows = [3, 64, 129].map((row) => core.native.admit(slots[row], 0, 0, 1, 0));
    expect(rows).toEqual([3, 64, 129]);
    core.native.verify();
  });

  it('looks hits up again when something happened since the match, and refuses those that are gone', () => {
    using core = bench({ numBlocks: 4 });
    core.close(core.start(range(8)));
    const slot = core.open(range(12));
    expect(core.native.match(slot, 2)).toBe(2);
    core.native.evict(Int32Array.of(2));
    expect(codeOf(() => core.native.admit(slot, 2, 0, 12, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(core.native.admit(slot, 1, 0, 12, 12)).toBe(0);
    expect(core.blocks(slot)[0]).toBe(1);
    core.native.verify();
  });

  it("never takes another request's hits for its own", () => {
    using core = bench();
    core.close(core.start(range(8)));
    const matched = core.open(range(12));
    const other = core.open(range(12, 50));
    expect(core.native.match(matched, 2)).toBe(2);
    expect(codeOf(() => core.native.admit(other, 2, 0, 12, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    core.native.match(matched, 2);
    core.close(matched);
    expect(core.open(range(12, 50))).toBe(matched);
    expect(codeOf(() => core.native.admit(matched, 2, 0, 12, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const rewritten = core.open(range(12));
    core.native.match(rewritten, 2);
    core.push(PendingOp.truncate, rewritten, 4);
    for (const token of range(8, 50)) core.push(PendingOp.append, rewritten, token);
    expect(codeOf(() => core.native.admit(rewritten, 2, 0, 12, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(core.native.admit(rewritten, 1, 0, 12, 0)).toBe(0);
  });

  it('finds nothing and publishes nothing when caching is off', () => {
    using core = bench({ enablePrefixCaching: false });
    const slot = core.start(range(12));
    expect(core.publishedBlocks).toBe(0);
    expect(core.native.match(core.open(range(12)), 3)).toBe(0);
    expect(core.native.commonPrefix(slot)).toBe(0);
    expect(codeOf(() => core.native.admit(1, 1, 0, 4, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
}
