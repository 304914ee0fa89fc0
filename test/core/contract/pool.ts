// Pins, evictions, resets of the prefix cache, reads of the state, the operation log, `dispose`.
import { expect, it } from 'vitest';
import { Core, PendingOp } from '../../../src/core/core.js';
import type { NativeAddon } from '../../../src/core/native/native.js';
import { type BenchCore, codeOf, range, SMALL, seeded } from '../../support/core-bench.js';
import type { Bench } from './bench.js';

export function describePool(bench: Bench): void {
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

export function describeLog(load: () => NativeAddon, bench: Bench): void {
  it('records facts that replay to the same state', () => {
    const next = seeded(11);
    using core = bench({ numBlocks: 20 });
    core.native.record(true);
    const log: number[] = [];
    for (let i = 0; i < 400; i++) {
      churn(core, next);
      if (next(20) === 0) log.push(...core.native.drainLog());
    }
    log.push(...core.native.drainLog());
    expect(core.native.drainLog()).toHaveLength(0);
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
    expect(core.native.drainLog()).toHaveLength(0);
    core.native.record(true);
    core.native.record(false);
    core.start(range(4));
    expect(core.native.drainLog()).toHaveLength(0);
  });

  it('refuses logs that are cut, mangled or do not apply', () => {
    using core = bench();
    core.native.record(true);
    core.close(core.start(range(8)));
    core.flush();
    const log = core.native.drainLog();
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
