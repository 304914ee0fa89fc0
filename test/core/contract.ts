import { describe, expect, it } from 'vitest';
import { Control, Core, generationOf, PendingOp, SLOT_LIMIT, slotOf } from '../../src/core/core.js';
import type { NativeAddon } from '../../src/core/native.js';
import { BenchCore, codeOf, range, SMALL, seeded } from './bench-core.js';

const NOT_ENOUGH_BLOCKS = -1;
const NO_FREE_ROW = -2;

/** What every build of the addon must do, entry by entry. */
export function contractSuite(name: string, load: () => NativeAddon): void {
  describe(`contract: ${name}`, () => {
    const bench = (config = {}) => new BenchCore(load(), config);
    describeModule(load);
    describeRequests(bench);
    describeAdmission(bench);
    describeRun(bench);
    describePending(bench);
    describePool(bench);
    describeLog(load, bench);
  });
}

type Bench = (config?: Partial<typeof SMALL>) => BenchCore;

function describeModule(load: () => NativeAddon): void {
  it('names its abi and its back ends', () => {
    expect(load().abi).toBe(4);
    expect(load().backends).toContain('host');
    expect(Object.isFrozen(load().backends)).toBe(true);
  });

  it('starts with every block but the null block free, in ascending order', () => {
    using core = new BenchCore(load());
    expect([...core.freeQueue()]).toEqual(range(32, 1));
    expect([core.freeBlocks, core.publishedBlocks, core.rowsInUse, core.evictions, core.usage]).toEqual([
      32, 0, 0, 0, 0,
    ]);
    core.native.verify();
  });

  it('makes a huge pool without touching its table', () => {
    const before = process.memoryUsage().rss;
    using core = new BenchCore(load(), {
      numBlocks: 1_048_576,
      numRows: 4096,
      maxBlocksPerRow: 16_384,
      blockSize: 16,
      maxModelLen: 262_144,
    });
    const { stateBytes, bytesPerBlock } = core.native.memory();
    expect(stateBytes).toBeGreaterThan(4096 * 16_384 * 4);
    expect(bytesPerBlock).toBeGreaterThan(48);
    expect(process.memoryUsage().rss - before).toBeLessThan(stateBytes / 2);
  });

  it('answers an impossible size with a code', () => {
    const huge = { numBlocks: 2 ** 24, numRows: 2 ** 21, maxBlocksPerRow: 2 ** 24 };
    expect(codeOf(() => new BenchCore(load(), huge))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });
}

function describeRequests(bench: Bench): void {
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

  it('refuses prompts that are empty, longer than the model, or hold impossible ids', () => {
    using core = bench();
    for (const bad of [[], range(65), [-1], [0, 2 ** 31 - 1], [-(2 ** 31)]]) {
      expect(codeOf(() => core.open(bad))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(core.native.handle(0)).toBe(0);
    expect(core.open(range(64))).toBe(0);
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

function describeAdmission(bench: Bench): void {
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

function describeRun(bench: Bench): void {
  it('takes a block when the row is full, and publishes a block when it becomes full', () => {
    using core = bench();
    const slot = core.start(range(7));
    const [frame] = core.frames;
    for (let computed = 7; computed < 17; computed++) {
      core.push(PendingOp.append, slot, computed);
      core.entry(0, slot, computed, 1);
      expect(core.native.run(0, 0, 1)).toBe(1);
      expect(frame.numBlocks[0]).toBe(Math.ceil((computed + 1) / 4));
      expect(frame.numNewBlocks[0]).toBe(computed % 4 === 0 ? 1 : 0);
      expect(core.publishedBlocks).toBe(Math.floor((computed + 1) / 4));
    }
    core.native.verify();
  });

  it('publishes only what has tokens, though more is computed', () => {
    using core = bench();
    const slot = core.start(range(6));
    core.entry(0, slot, 6, 10);
    expect(core.native.run(0, 0, 1)).toBe(1);
    expect([core.blocks(slot).length, core.publishedBlocks]).toEqual([4, 1]);
  });

  it('reserves lookahead slots, up to the model length', () => {
    using core = bench({ lookahead: 5, maxModelLen: 20 });
    const slot = core.start(range(4));
    core.entry(0, slot, 4, 1);
    core.native.run(0, 0, 1);
    expect(core.blocks(slot)).toHaveLength(3);
    core.entry(0, slot, 18, 1);
    core.native.run(0, 0, 1);
    expect(core.blocks(slot)).toHaveLength(5);
  });

  it('stops at the first entry that does not fit, and goes on from there', () => {
    using core = bench({ numBlocks: 6 });
    const slots = [core.start(range(4)), core.start(range(4, 50)), core.start(range(4, 80))];
    slots.forEach((slot, i) => {
      core.push(PendingOp.append, slot, 1);
      core.entry(i, slot, 4, 1);
    });
    const [frame] = core.frames;
    expect(core.native.run(0, 0, 3)).toBe(2);
    expect([...frame.numNewBlocks.slice(0, 2)]).toEqual([1, 1]);
    expect(core.freeBlocks).toBe(0);
    core.close(slots[0]);
    expect(core.native.run(0, 2, 3)).toBe(1);
    expect([...core.blocks(slots[2])]).toEqual([3, 4]);
    expect(core.evictions).toBe(0);
    core.native.verify();
  });

  it('evicts a block only when it is taken, oldest freed first', () => {
    using core = bench({ numBlocks: 4 });
    core.close(core.start(range(8)));
    const slot = core.start([9]);
    expect([core.evictions, core.publishedBlocks]).toEqual([0, 2]);
    core.entry(0, slot, 4, 1);
    core.native.run(0, 0, 1);
    expect([...core.blocks(slot)]).toEqual([3, 2]);
    expect([core.evictions, core.publishedBlocks]).toEqual([1, 1]);
    expect(core.native.blockGeneration(2)).toBe(2);
  });

  it('counts the common prefix of the head slot', () => {
    using core = bench();
    const a = core.start(range(12));
    const b = core.start([...range(8), 50, 51, 52]);
    core.entry(0, a, 11, 1);
    for (const [head, expected] of [
      [a, 2],
      [b, 2],
      [-1, 0],
      [5, 0],
    ]) {
      core.control[Control.headSlot] = head;
      core.native.run(0, 0, 1);
      expect(core.control[Control.commonPrefix]).toBe(expected);
    }
    expect(core.native.commonPrefix(a)).toBe(2);
    core.close(b);
    expect(core.native.commonPrefix(a)).toBe(3);
  });

  it('refuses entries that make no sense, and changes nothing', () => {
    using core = bench();
    const slot = core.start(range(4));
    const first = core.start(range(4, 50));
    const other = core.open(range(4, 90));
    const bad: [number, number, number, string][] = [
      [slot, -1, 1, 'ERR_BLOCKSTEP_BAD_ARG'],
      [slot, 4, 0, 'ERR_BLOCKSTEP_BAD_ARG'],
      [slot, 4, -3, 'ERR_BLOCKSTEP_BAD_ARG'],
      [slot, 2 ** 31 - 1, 2 ** 31 - 1, 'ERR_BLOCKSTEP_BAD_ARG'],
      [other, 4, 1, 'ERR_BLOCKSTEP_NO_ROW'],
      [7, 4, 1, 'ERR_BLOCKSTEP_BAD_SLOT'],
      [-1, 4, 1, 'ERR_BLOCKSTEP_BAD_SLOT'],
      [2 ** 31 - 1, 4, 1, 'ERR_BLOCKSTEP_BAD_SLOT'],
    ];
    const before = core.fingerprint();
    for (const [s, computed, scheduled, code] of bad) {
      core.entry(0, first, 4, 1);
      core.entry(1, s, computed, scheduled);
      expect(codeOf(() => core.native.run(0, 0, 2))).toBe(code);
      expect(core.fingerprint()).toBe(before);
    }
    core.entry(1, first, 4, 1);
    expect(codeOf(() => core.native.run(0, 0, 2))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(core.fingerprint()).toBe(before);
    expect(core.native.run(0, 0, 1)).toBe(1);
    expect(codeOf(() => core.native.run(0, 2, 1))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    core.native.verify();
  });

  it('works in every frame', () => {
    using core = bench();
    const slot = core.start(range(4));
    const frame = core.frames[1];
    frame.slots[7] = slot;
    frame.numComputedTokens[7] = 4;
    frame.numScheduledTokens[7] = 1;
    expect(core.native.run(1, 7, 8)).toBe(1);
    expect([frame.numBlocks[7], frame.numNewBlocks[7], core.frames[0].numBlocks[7]]).toEqual([2, 1, 0]);
  });
}

function describePending(bench: Bench): void {
  it('drains by itself when the queue is full', () => {
    using core = bench();
    const slot = core.open([0]);
    for (let i = 1; i < 50; i++) core.push(PendingOp.append, slot, i);
    expect([...core.tokens(slot)]).toEqual(range(50));
    expect(core.control[Control.numPending]).toBe(0);
  });

  it('publish covers the full blocks up to a token count, once', () => {
    using core = bench();
    const slot = core.open(range(11));
    core.push(PendingOp.publish, slot, 11);
    core.flush();
    expect(core.publishedBlocks).toBe(0);
    core.native.admit(slot, 0, 0, 11, 0);
    for (const [tokens, published] of [
      [3, 0],
      [4, 1],
      [4, 1],
      [99, 2],
      [-1, 2],
    ]) {
      core.push(PendingOp.publish, slot, tokens);
      expect(core.publishedBlocks).toBe(published);
    }
  });

  it('release gives blocks back in reverse order and keeps the tokens', () => {
    using core = bench({ numBlocks: 5 });
    const slot = core.start(range(12));
    core.push(PendingOp.release, slot, 0);
    core.push(PendingOp.release, slot, 0);
    expect([...core.freeQueue()]).toEqual([4, 3, 2, 1]);
    expect([core.rowsInUse, core.native.numTokens(slot), core.publishedBlocks]).toEqual([0, 12, 3]);
    expect(core.native.match(slot, 3)).toBe(3);
  });

  it('evict takes the keys from an index on, and the blocks can be published again', () => {
    using core = bench();
    const slot = core.start(range(12));
    core.push(PendingOp.evict, slot, 1);
    expect([...core.published()]).toEqual([1]);
    expect(core.evictions).toBe(2);
    core.push(PendingOp.publish, slot, 12);
    expect([...core.published()]).toEqual([1, 2, 3]);
    core.push(PendingOp.evict, slot, 3);
    expect(core.publishedBlocks).toBe(3);
    core.native.verify();
  });

  it('republishes a shared block once, whoever comes first', () => {
    using core = bench();
    const a = core.start(range(8));
    const b = core.start(range(9));
    core.push(PendingOp.evict, a, 0);
    core.push(PendingOp.evict, b, 0);
    core.push(PendingOp.publish, a, 8);
    core.push(PendingOp.publish, b, 8);
    expect(core.publishedBlocks).toBe(2);
    core.push(PendingOp.evict, a, 0);
    core.push(PendingOp.evict, b, 0);
    core.entry(0, a, 8, 1);
    core.entry(1, b, 9, 1);
    expect(core.native.run(0, 0, 2)).toBe(2);
    expect(core.publishedBlocks).toBe(2);
    core.push(PendingOp.evict, a, 0);
    core.push(PendingOp.evict, b, 0);
    core.push(PendingOp.publish, a, 8);
    core.close(a);
    core.flush();
    core.push(PendingOp.publish, b, 8);
    expect(core.publishedBlocks).toBe(2);
    core.native.verify();
  });

  it('truncate drops tokens and the hashes of blocks that are no longer full', () => {
    using core = bench();
    const slot = core.open(range(12));
    const hash = core.native.blockHash(slot, 1);
    core.push(PendingOp.truncate, slot, 6);
    core.push(PendingOp.truncate, slot, 9);
    for (const token of [6, 70]) core.push(PendingOp.append, slot, token);
    expect([...core.tokens(slot)]).toEqual([...range(7), 70]);
    expect(core.native.blockHash(slot, 1)).not.toBe(hash);
    expect(core.native.blockHash(slot, 1)).toBe(core.native.blockHash(core.open([...range(7), 70]), 1));
  });

  it('rewind drops tokens and keeps every hash, so that what is appended stands under the old one', () => {
    using core = bench();
    const slot = core.open(range(12));
    core.native.match(slot, 3);
    core.push(PendingOp.rewind, slot, 7);
    core.push(PendingOp.rewind, slot, 9);
    for (const token of range(5, 70)) core.push(PendingOp.append, slot, token);
    expect([...core.tokens(slot)]).toEqual([...range(7), ...range(5, 70)]);
    core.native.verify();
    const original = core.open(range(12));
    expect(core.native.blockHash(slot, 1)).toBe(core.native.blockHash(original, 1));
    expect(core.native.blockHash(slot, 2)).toBe(core.native.blockHash(original, 2));
    const truncated = core.open(range(12));
    core.push(PendingOp.truncate, truncated, 7);
    for (const token of range(5, 70)) core.push(PendingOp.append, truncated, token);
    expect(core.native.blockHash(truncated, 1)).not.toBe(core.native.blockHash(slot, 1));
  });

  it('close releases, forgets the match and makes the slot reusable', () => {
    using core = bench();
    const slot = core.start(range(12));
    core.native.match(slot, 3);
    core.close(slot);
    expect([core.freeBlocks, core.rowsInUse]).toEqual([32, 0]);
    expect(codeOf(() => core.native.numTokens(slot))).toBe('ERR_BLOCKSTEP_BAD_SLOT');
    expect(core.open([50])).toBe(slot);
    expect(codeOf(() => core.native.admit(slot, 3, 0, 1, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('a pending operation that makes no sense poisons the core', () => {
    const bad: [number, number, number][] = [
      [PendingOp.append, 5, 1],
      [PendingOp.append, 0, -1],
      [PendingOp.append, 0, 2 ** 31 - 1],
      [PendingOp.close, SLOT_LIMIT - 1, 0],
      [PendingOp.evict, 0, -1],
      [PendingOp.truncate, 0, -1],
      [PendingOp.rewind, 0, -1],
      [0, 0, 0],
      [8, 0, 0],
      [127, 0, 0],
    ];
    for (const [op, slot, arg] of bad) {
      using core = bench();
      core.start(range(5));
      core.push(op, slot, arg);
      expect(codeOf(() => core.native.flush())).toBe('ERR_BLOCKSTEP_INVARIANT');
      expect(codeOf(() => core.native.add(Int32Array.of(1), '', ''))).toBe('ERR_BLOCKSTEP_INVARIANT');
      expect(codeOf(() => core.native.digest())).toBe('ERR_BLOCKSTEP_INVARIANT');
    }
    for (const count of [-1, 17, 2 ** 31 - 1, -(2 ** 31)]) {
      using core = bench();
      core.control[Control.numPending] = count;
      expect(codeOf(() => core.native.run(0, 0, 0))).toBe('ERR_BLOCKSTEP_INVARIANT');
    }
  });
}

function describePool(bench: Bench): void {
  it('pins hold blocks beyond their rows, and unpins queue them in list order', () => {
    using core = bench({ numBlocks: 6 });
    const slot = core.start(range(8));
    core.native.pin(Int32Array.of(2, 1, 2, 5));
    core.close(slot);
    expect([...core.freeQueue()]).toEqual([3, 4]);
    expect(range(6).map((id) => core.native.refCount(id))).toEqual([0, 1, 2, 0, 0, 1]);
    core.native.unpin(Int32Array.of(2, 5, 2, 1));
    expect([...core.freeQueue()]).toEqual([3, 4, 5, 2, 1]);
    core.native.pin(new Int32Array(0));
    core.native.verify();
  });

  it('refuses to unpin what is not pinned, even if a row holds it', () => {
    using core = bench();
    core.start(range(8));
    core.native.pin(Int32Array.of(1));
    const before = core.fingerprint();
    for (const ids of [[2], [1, 1], [1, 3]]) {
      expect(codeOf(() => core.native.unpin(Int32Array.from(ids)))).toBe('ERR_BLOCKSTEP_NOT_PINNED');
    }
    for (const ids of [[0], [33], [-1], [1, 2 ** 31 - 1]]) {
      for (const entry of ['pin', 'unpin', 'evict'] as const) {
        expect(codeOf(() => core.native[entry](Int32Array.from(ids)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    expect(core.fingerprint()).toBe(before);
    core.native.unpin(Int32Array.of(1));
    core.native.verify();
  });

  it('evict drops keys of blocks in use and of queued ones, and leaves them where they are', () => {
    using core = bench();
    core.close(core.start(range(8)));
    const slot = core.start(range(8, 50));
    const queue = [...core.freeQueue()];
    core.native.evict(Int32Array.of(1, 1, 3, 20));
    expect([...core.published()]).toEqual([2, 4]);
    expect([...core.freeQueue()]).toEqual(queue);
    expect([...core.blocks(slot)]).toEqual([3, 4]);
    expect(core.evictions).toBe(2);
  });

  it('resets the prefix cache only when nothing is in use', () => {
    using core = bench();
    const slot = core.start(range(8));
    expect(core.native.reset()).toBe(false);
    expect(core.publishedBlocks).toBe(2);
    core.push(PendingOp.release, slot, 0);
    expect(core.native.reset()).toBe(true);
    expect(core.publishedBlocks).toBe(0);
    expect(core.native.match(slot, 2)).toBe(0);
  });

  it('reads fill as much as there is room for', () => {
    using core = bench({ numBlocks: 6 });
    core.start(range(8));
    const out = new Int32Array(2);
    expect([core.native.readFreeQueue(out), ...out]).toEqual([2, 3, 4]);
    expect([core.native.readPublished(out), ...out]).toEqual([2, 1, 2]);
    expect(core.native.readPublished(new Int32Array(0))).toBe(0);
    expect(core.usage).toBeCloseTo(0.4);
  });

  it('dispose is final and may be repeated', () => {
    const core = bench();
    core.start(range(8));
    core.dispose();
    core[Symbol.dispose]();
    expect(codeOf(() => core.native.flush())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
}

function describeLog(load: () => NativeAddon, bench: Bench): void {
  it('records facts that replay to the same state', () => {
    const next = seeded(11);
    using core = bench({ numBlocks: 20 });
    core.native.record(true);
    const log: number[] = [];
    for (let i = 0; i < 400; i++) {
      churn(core, next);
      if (next(20) === 0) log.push(...core.native.takeLog());
    }
    log.push(...core.native.takeLog());
    expect(core.native.takeLog()).toHaveLength(0);
    core.native.verify();
    const replayed = load().replay(core.config, Uint32Array.from(log));
    expect(replayed.digest).toBe(core.native.digest());
    expect(replayed.rollingDigest).toBe(core.native.rollingDigest());
    expect(replayed.freeBlocks).toBe(core.freeBlocks);
    expect(replayed.commands).toBeGreaterThan(400);
    expect(core.evictions).toBeGreaterThan(10);
  });

  it('records nothing unless asked', () => {
    using core = bench();
    core.start(range(8));
    expect(core.native.takeLog()).toHaveLength(0);
    core.native.record(true);
    core.native.record(false);
    core.start(range(4));
    expect(core.native.takeLog()).toHaveLength(0);
  });

  it('refuses logs that are cut, mangled or do not apply', () => {
    using core = bench();
    core.native.record(true);
    core.close(core.start(range(8)));
    core.flush();
    const log = core.native.takeLog();
    expect(load().replay(core.config, log).digest).toBe(core.native.digest());
    expect(load().replay(core.config, new Uint32Array(0)).commands).toBe(0);
    const bad = [
      log.slice(0, -1),
      log.slice(1),
      Uint32Array.of(2 ** 32 - 1),
      Uint32Array.of(1, 99),
      [...log, ...log],
    ];
    for (const words of bad.slice(0, 4)) {
      expect(codeOf(() => load().replay(core.config, Uint32Array.from(words)))).toBe('ERR_BLOCKSTEP_BAD_LOG');
    }
    for (let at = 0; at < log.length; at++) {
      const mangled = log.slice();
      mangled[at] ^= 0x80000000;
      let digest: bigint | undefined;
      try {
        digest = load().replay(core.config, mangled).digest;
      } catch (error) {
        expect((error as { code: string }).code).toBe('ERR_BLOCKSTEP_BAD_LOG');
      }
      expect(digest).not.toBe(core.native.digest());
    }
  });

  it('errors are of the one class, and Core refuses a bad configuration before native code sees it', () => {
    for (const bad of [{ maxEntries: 0 }, { numFrames: 65 }, { pendingCapacity: 0 }, { numBlocks: 1 }]) {
      expect(codeOf(() => new Core({ ...SMALL, ...bad }, load()))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => bench({ maxModelLen: 65 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
}

/** One random step of a busy pool: admit somebody, end somebody, pin and unpin, extend everybody. */
function churn(core: BenchCore, next: (n: number) => number): void {
  const slots = range(6).filter((slot) => core.native.handle(slot) !== 0);
  if (slots.length < 6) {
    const slot = core.open(range(1 + next(24), next(3) * 100));
    const hits = core.native.match(slot, 8);
    const needed = core.native.numTokens(slot);
    if (core.native.admit(slot, next(hits + 1), needed, needed, needed) < 0) core.close(slot);
  }
  if (slots.length > 2 && next(3) === 0) core.close(slots[next(slots.length)]);
  if (next(10) === 0) {
    const ids = Int32Array.of(1 + next(19), 1 + next(19));
    core.native.pin(ids);
    core.native.unpin(ids.reverse());
  }
  if (next(30) === 0) core.native.evict(Int32Array.of(1 + next(19)));
  core.flush();
  const alive = range(6).filter((slot) => core.native.handle(slot) !== 0 && core.blocks(slot).length > 0);
  alive.forEach((slot, i) => {
    core.entry(i, slot, core.native.numTokens(slot), 1);
    core.push(PendingOp.append, slot, next(2));
  });
  if (core.native.run(0, 0, alive.length) < alive.length) core.close(alive[0]);
}
