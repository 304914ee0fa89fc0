// Arenas: memory of blocks, given back when nobody uses it.
import { describe, expect, it } from 'vitest';
import { probeBackends } from '../../src/index.js';
import { BlockArena, CompletionQueue, HostLane } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { ids } from './support.js';

const SHAPE = { numBlocks: 3, bytesPerBlock: 5 };

describe('a block arena', () => {
  it('is zeroed, and its buffer is the memory itself', () => {
    using arena = BlockArena.allocate(SHAPE);
    expect([arena.numBlocks, arena.bytesPerBlock, arena.numBytes]).toEqual([3, 5, 15]);
    expect([arena.place, arena.device]).toEqual(['host', 0]);
    expect(new Uint8Array(arena.buffer)).toEqual(new Uint8Array(15));
    arena.block(1)[2] = 9;
    expect([...new Uint8Array(arena.buffer)].indexOf(9)).toBe(7);
    expect(arena.buffer).toBe(arena.buffer);
  });

  it('copies single blocks out and in', () => {
    using arena = BlockArena.allocate(SHAPE);
    arena.writeBlock(1, Uint8Array.of(1, 2, 3, 4, 5));
    const copy = arena.readBlock(1);
    expect([...copy]).toEqual([1, 2, 3, 4, 5]);
    copy.fill(7);
    expect([...new Uint8Array(arena.buffer)]).toEqual([0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0]);
    expect(arena.arrivals(1)).toBe(0);
    const wrong = [() => arena.readBlock(3), () => arena.readBlock(-1), () => arena.writeBlock(3, copy)];
    for (const call of wrong) expect(codeOf(call)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    for (const bytes of [new Uint8Array(4), new Uint8Array(6), new Int8Array(5), [1, 2, 3, 4, 5], null]) {
      expect(codeOf(() => arena.writeBlock(0, bytes as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('says where it lies', () => {
    using arena = BlockArena.allocate(SHAPE);
    expect(typeof arena.pointer).toBe('bigint');
    expect(arena.pointer % 64n).toBe(0n);
    using other = BlockArena.allocate(SHAPE);
    expect(other.pointer).not.toBe(arena.pointer);
  });

  it('cannot lose its memory to another thread', () => {
    using arena = BlockArena.allocate(SHAPE);
    // Node 20 copies what is not to be transferred, later ones refuse it.
    try {
      structuredClone(arena.buffer, { transfer: [arena.buffer] });
    } catch (error) {
      expect((error as Error).name).toBe('DataCloneError');
    }
    expect(arena.buffer.byteLength).toBe(15);
  });

  it('that is disposed is refused, and what still uses its memory has it', () => {
    const arena = BlockArena.allocate(SHAPE);
    const bytes = arena.block(1).fill(7);
    arena.dispose();
    arena.dispose();
    expect(bytes).toEqual(new Uint8Array(5).fill(7));
    for (const call of [
      () => arena.buffer,
      () => arena.pointer,
      () => arena.readBlock(1),
      () => arena.writeBlock(1, bytes),
      () => arena.arrivals(1),
    ]) {
      expect(codeOf(call)).toBe('ERR_BLOCKSTEP_DISPOSED');
    }
    using queue = new CompletionQueue();
    using other = BlockArena.allocate(SHAPE);
    expect(codeOf(() => new HostLane(queue, arena, other))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('too large for an ArrayBuffer works without one', () => {
    using arena = BlockArena.allocate({ numBlocks: 5, bytesPerBlock: 2 ** 30 });
    expect(codeOf(() => arena.buffer)).toBe('ERR_BLOCKSTEP_LIMIT');
    using queue = new CompletionQueue();
    using small = BlockArena.allocate({ numBlocks: 1, bytesPerBlock: 2 ** 30 });
    using lane = new HostLane(queue, arena, small);
    expect(lane.cancel(lane.submit(ids(4), ids(0), 1))).toBe(true);
  });

  it('that no memory is there for is refused', () => {
    const shape = { numBlocks: 2 ** 24, bytesPerBlock: 2 ** 31 - 1 };
    expect(codeOf(() => BlockArena.allocate(shape))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });

  it('is refused at a place that there is not', () => {
    for (const wrong of [{ place: 'gpu' }, { place: 1 }, { device: -1 }, { device: 1024 }, { device: 0.5 }]) {
      expect(codeOf(() => BlockArena.allocate({ ...SHAPE, ...wrong } as never))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
    if (probeBackends().find(({ name }) => name === 'cuda')!.usable) return;
    for (const place of ['pinned', 'device'] as const) {
      expect(codeOf(() => BlockArena.allocate({ ...SHAPE, place }))).toBe('ERR_BLOCKSTEP_CUDA');
    }
  });
});
