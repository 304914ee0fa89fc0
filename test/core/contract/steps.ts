// Allocation for steps, publication of full blocks, lookahead slots, eviction, pending operations.
import { expect, it } from 'vitest';
import { Control, PendingOp, SLOT_LIMIT } from '../../../src/core/core.js';
import { codeOf, range } from '../../support/core-bench.js';
import type { Bench } from './bench.js';

export function describeRun(bench: Bench): void {
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

export function describePending(bench: Bench): void {
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
