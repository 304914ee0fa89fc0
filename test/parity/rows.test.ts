import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readFixture } from './fixtures.js';
import { readRow, TraceGroups } from './rows.js';
import type { Subject, SubjectRequest } from './subject.js';

/** Rows by slot and group. */
const rows: number[][][] = [
  [
    [1, 2, 3],
    [0, 4],
  ],
  [[], []],
  [[], [7]],
  [Array.from({ length: 200 }, (_, i) => i), []],
];

const core = {
  published: () => Int32Array.of(2, 4, 7),
  publishedGroup: (id: number) => (id === 2 ? 0 : 1),
  native: {
    readBlocks(slot: number, from: number, out: Int32Array, group = 0): number {
      const row = rows[slot][group].slice(from, from + out.length);
      out.set(row);
      return row.length;
    },
  },
} as unknown as Subject['core'];

function subject(live: string[], draining: string[] = []): Pick<Subject, 'core' | 'inspect'> {
  const request = (id: string) => ({ id, slot: Number(id.slice(1)) }) as SubjectRequest;
  const none: string[] = [];
  const queues = { running: none, waiting: none, skipped: none };
  return {
    core,
    inspect: () => ({ ...queues, requests: live.map(request), draining: draining.map(request) }),
  };
}

const groups = new TraceGroups(2, ['r0', 'r1', 'r2', 'r3']);

describe('rows of block ids', () => {
  it('are read by group, and one place further than asked', () => {
    expect(readRow(core, 0, 1, 1, 0)).toEqual([2, 3]);
    expect(readRow(core, 0, 0, 2, 1)).toEqual([0, 4]);
  });

  it('make a checksum in the order in which requests were added, those that are still sent too', () => {
    const text = 'r0:1,2,3|0,4;r2:|7';
    expect(groups.observe(subject(['r2', 'r1', 'r0'])).rows).toBe(crc32(text));
    expect(groups.observe(subject(['r2', 'r1'], ['r0'])).rows).toBe(crc32(text));
    expect(groups.observe(subject(['r1'])).rows).toBe(0);
  });

  it('are whole in it, however long', () => {
    expect(groups.observe(subject(['r3'])).rows).toBe(crc32(`r3:${rows[3][0].join()}|`));
  });

  it('go with the blocks that carry a hash, by group', () => {
    expect(groups.observe(subject([])).cached_by_group).toEqual([1, 2]);
    expect(groups.observeFinal(subject([]))).toEqual({
      rows: 0,
      cached_by_group: [1, 2],
      cached_groups: [0, 1, 1],
    });
  });

  it('are not asked for by a trace that is older than groups', () => {
    expect(TraceGroups.of(readFixture('t01_fcfs_roomy').config, [])).toBeUndefined();
    expect(TraceGroups.of(readFixture('h07_admission_at_the_edge').config, [])?.count).toBe(2);
  });
});
