// A core with KV cache groups.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Control, slotOf } from '../../src/core/core.js';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeConfig, NativeCore } from '../../src/core/native/native.js';
import type { NativeGroup } from '../../src/core/native/native-groups.js';
import { rowsOf } from '../../src/core/rows.js';
import { BenchCore, codeOf } from '../support/core-bench.js';
import { NO_INTEGERS } from './bad-arguments.js';
import { FULL, SLIDING } from './group-life.js';

const MAMBA: NativeGroup = { ...FULL, type: 'mamba-align', spec: 1 };

/** A core with groups; its slot 0 holds a prompt of nine tokens that are all scheduled. */
function coreWith(groups: NativeGroup[]): BenchCore {
  return new BenchCore(loadAddon(), { groups, blockSize: 4 });
}

function rows(core: BenchCore, slot: number): number[][] {
  return rowsOf(core, slot).map((row) => [...row]);
}

describe('a core with KV cache groups', () => {
  let core: BenchCore;
  beforeEach(() => {
    core = coreWith([FULL, SLIDING]);
  });
  afterEach(() => core.dispose());

  const admit = (slot: number, hit: number, scheduled: number, computed = 0): number =>
    core.native.admitGroups(slot, hit, 0, computed, scheduled, 0, 0, true);
  const add = (length: number): number => {
    const tokens = Int32Array.from({ length }, (_, i) => i + 1);
    return core.native.add(tokens, '', '') % 2 ** 21;
  };

  it('gives each request a row for each group, and what is left of a window goes back', () => {
    const slot = add(13);
    expect(admit(slot, 0, 9)).toBe(0);
    expect(rows(core, slot)).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect([...core.control.subarray(Control.groupBlocks, Control.groupBlocks + 2)]).toEqual([3, 3]);
    expect([1, 4].map((id) => core.publishedGroup(id))).toEqual([0, 1]);
    core.entry(0, slot, 9, 4);
    expect(core.native.run(0, 0, 1)).toBe(1);
    // A token behind nine sees four tokens before it: the first block, of tokens 0 to 3, is of no use.
    expect(rows(core, slot)).toEqual([
      [1, 2, 3, 7],
      [0, 5, 6, 8],
    ]);
    expect([...core.freeQueue()].at(-1)).toBe(4);
    core.native.verify();
  });

  it('finds a prefix that every group has, and leaves places of a window empty', () => {
    const first = add(13);
    admit(first, 0, 13);
    const second = add(13);
    expect(core.native.matchGroups(second, 12)).toBe(12);
    expect(admit(second, 12, 1)).toBe(1);
    expect(rows(core, second)[0].slice(0, 3)).toEqual([1, 2, 3]);
    expect(rows(core, second)[1].slice(0, 2)).toEqual([0, 0]);
    core.native.evict(core.blocks(first, 1).subarray(2, 3));
    const third = add(13);
    expect(core.native.matchGroups(third, 12)).toBe(8);
    core.native.verify();
  });

  // Searches of such a pool fetch ahead what they look at.
  it('finds prefixes of every length in a large pool', () => {
    using large = new BenchCore(loadAddon(), {
      ...{ groups: [FULL, { ...SLIDING, mostBlocks: 500 }], blockSize: 4, numBlocks: 70_000 },
      ...{ maxModelLen: 512, maxBlocksPerRow: 128 },
    });
    const tokens = Int32Array.from({ length: 401 }, (_, i) => i);
    const first = slotOf(large.native.add(tokens, '', ''));
    expect(large.native.admitGroups(first, 0, 0, 0, 401, 0, 0, true)).toBe(0);
    for (let places = 0; places <= 100; places++) {
      const slot = slotOf(large.native.add(tokens.subarray(0, 4 * places + 1), '', ''));
      expect(large.native.matchGroups(slot, 4 * places)).toBe(4 * places);
      large.close(slot);
    }
    large.native.verify();
  });

  it('takes a hit of a state only when the step that makes it is over', () => {
    using states = coreWith([FULL, MAMBA]);
    const tokens = Int32Array.from({ length: 9 }, (_, i) => i + 1);
    const [first, second] = [0, 1].map(() => states.native.add(tokens, '', '') % 2 ** 21);
    states.native.beginStep();
    expect(states.native.admitGroups(first, 0, 0, 0, 8, 0, 0, true)).toBe(0);
    const hit = states.native.matchGroups(second, 8);
    expect(hit).toBe(8);
    expect(states.native.admitGroups(second, hit, 0, 0, 1, 0, 0, true)).toBe(-1);
    states.native.beginStep();
    expect(states.native.matchGroups(second, 8)).toBe(8);
    expect(states.native.admitGroups(second, 8, 0, 0, 1, 0, 0, true)).toBe(1);
    states.native.verify();
  });

  it('says by group what an admission needs', () => {
    const slot = add(13);
    expect([...core.native.neededGroups(slot, 0, 0, 0, 9, 0, 0)!]).toEqual([3, 3]);
    // More is reserved than is taken.
    expect([...core.native.neededGroups(slot, 0, 0, 0, 9, 0, 13)!]).toEqual([4, 4]);
    admit(slot, 0, 13);
    const second = add(13);
    // Its hit is held by the first one, and the window needs only the last two blocks of it.
    expect(core.native.matchGroups(second, 12)).toBe(12);
    expect([...core.native.neededGroups(second, 12, 0, 0, 1, 0, 0)!]).toEqual([1, 1]);
    const states = coreWith([FULL, MAMBA]);
    states.native.beginStep();
    const first =
      states.native.add(
        Int32Array.from({ length: 8 }, (_, i) => i),
        '',
        '',
      ) %
      2 ** 21;
    states.native.admitGroups(first, 0, 0, 0, 8, 0, 0, true);
    const again =
      states.native.add(
        Int32Array.from({ length: 9 }, (_, i) => i),
        '',
        '',
      ) %
      2 ** 21;
    const hit = states.native.matchGroups(again, 8);
    expect(hit).toBe(8);
    expect(states.native.neededGroups(again, hit, 0, 0, 1, 0, 0)).toBeNull();
    states.native.beginStep();
    expect([...states.native.neededGroups(again, hit, 0, 0, 1, 0, 0)!]).toEqual([1, 1]);
    states.dispose();
  });

  it('counts by group what is in use, and what was let go', () => {
    const slot = add(13);
    admit(slot, 0, 9);
    core.entry(0, slot, 9, 4);
    core.native.run(0, 0, 1);
    // Full: 1, 2, 3, 7. Window: 5, 6, 8; it has let 4 go, which keeps its hash.
    expect([...core.native.countGroups()]).toEqual([4, 3, 0, 0, 3, 3, 1, 1]);
    expect([...core.native.groupsOfBlocks()].slice(0, 10)).toEqual([255, 0, 0, 0, 1, 1, 1, 0, 1, 255]);
    core.native.dropGroups(slot, 13);
    expect([...core.native.countGroups()]).toEqual([4, 3, 0, 0, 2, 3, 2, 2]);
  });

  it('replays its log to the same state', () => {
    core.native.record(true);
    const slots = [13, 13, 7].map(add);
    admit(slots[0], 0, 9);
    core.entry(0, slots[0], 9, 4);
    core.native.run(0, 0, 1);
    admit(slots[1], core.native.matchGroups(slots[1], 12), 1);
    core.native.flush();
    const { digest } = loadAddon().replay(core.config as NativeConfig, core.native.drainLog());
    expect(digest).toBe(core.native.digest());
  });

  it('refuses a hit that is there no more, and arguments that make no sense', () => {
    const slot = add(9);
    expect(codeOf(() => admit(slot, 4, 1))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    admit(slot, 0, 9);
    expect(codeOf(() => admit(slot, 4, 1))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const before = core.fingerprint();
    const calls: [keyof NativeCore, unknown[]][] = [
      ['matchGroups', [slot, 4]],
      ['admitGroups', [slot, 0, 0, 9, 1, 0, 0, true]],
      ['neededGroups', [slot, 0, 0, 9, 1, 0, 0]],
      ['dropGroups', [slot, 9]],
      ['readBlocks', [slot, 0, new Int32Array(4), 1]],
    ];
    for (const [name, good] of calls) {
      for (const [place, value] of good.entries()) {
        if (typeof value !== 'number') continue;
        for (const bad of NO_INTEGERS) {
          if (name === 'readBlocks' && place === 3 && bad === undefined) continue;
          const args = good.with(place, bad);
          const method = core.native[name] as (...args: unknown[]) => unknown;
          expect(
            codeOf(() => Reflect.apply(method, core.native, args)),
            `${name} ${place}`,
          ).toBe('ERR_BLOCKSTEP_BAD_ARG');
        }
      }
    }
    expect(core.fingerprint()).toEqual(before);
  });

  it('is refused if a group makes no sense', () => {
    const bad: Partial<NativeGroup>[] = [
      { unsettled: -1 },
      { unsettled: 0.5 },
      { type: 'none' as never },
      { blockSize: 6 },
      { blockSize: 0 },
      { type: 'sliding', window: 0 },
      { type: 'chunked', chunk: 0 },
      { spec: 1 },
      { eagle: 1 as never },
    ];
    for (const change of bad) {
      expect(
        codeOf(() => coreWith([{ ...FULL, ...change }])),
        JSON.stringify(change),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => coreWith([]))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => coreWith(Array.from({ length: 9 }, () => FULL)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('is needed for what is asked of groups', () => {
    using plain = new BenchCore(loadAddon());
    const slot = plain.start([1, 2, 3]);
    for (const call of [
      () => plain.native.beginStep(),
      () => plain.native.matchGroups(slot, 1),
      () => plain.native.admitGroups(slot, 0, 0, 0, 1, 0, 0, true),
      () => plain.native.neededGroups(slot, 0, 0, 0, 1, 0, 0),
      () => plain.native.commonPrefixGroups(),
      () => plain.native.dropGroups(slot, 1),
      () => plain.native.drainZeroed(),
      () => plain.native.drainDropped(),
      () => plain.native.groupsOfBlocks(),
      () => plain.native.countGroups(),
    ])
      expect(codeOf(call)).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
});
