// Every leaf is compared once.
import { describe, expect, it } from 'vitest';
import { ABSENT, Comparison } from './compare.js';

function compared(expected: unknown, got: unknown): Comparison {
  const comparison = new Comparison();
  comparison.compare(expected, got, 'at');
  return comparison;
}

describe('Comparison', () => {
  it('counts one comparison for each leaf, and one for an empty container', () => {
    expect(compared([1, ['a', null], {}], [1, ['a', null], {}])).toMatchObject({
      comparisons: 4,
      differences: [],
    });
    expect(compared([], []).comparisons).toBe(1);
    expect(compared({ a: 1, b: [] }, { b: [], a: 1 })).toMatchObject({ comparisons: 2, differences: [] });
  });

  it.each([
    [1, 2, [{ path: 'at', expected: 1, got: 2 }]],
    [1, '1', [{ path: 'at', expected: 1, got: '1' }]],
    [null, 0, [{ path: 'at', expected: null, got: 0 }]],
    [null, [], [{ path: 'at', expected: null, got: [] }]],
    [[1, 2], [1, 3], [{ path: 'at[1]', expected: 2, got: 3 }]],
    [
      [1, 2],
      [2],
      [
        { path: 'at[0]', expected: 1, got: 2 },
        { path: 'at[1]', expected: 2, got: ABSENT },
      ],
    ],
    [[], [7], [{ path: 'at[0]', expected: ABSENT, got: 7 }]],
    [{ a: { b: [1] } }, { a: { b: [2] } }, [{ path: 'at.a.b[0]', expected: 1, got: 2 }]],
    [{ a: 1 }, {}, [{ path: 'at.a', expected: 1, got: ABSENT }]],
    [{}, { a: 1 }, [{ path: 'at.a', expected: ABSENT, got: 1 }]],
  ])('%j against %j', (expected, got, differences) => {
    expect(compared(expected, got).differences).toEqual(differences);
  });

  it('compares what was recorded, and misses what was not observed', () => {
    const comparison = new Comparison();
    comparison.compareRecorded({ a: 1, toString: 2 }, { a: 1, b: 3 }, 'at');
    expect(comparison.comparisons).toBe(2);
    expect(comparison.differences).toEqual([{ path: 'at.toString', expected: 2, got: ABSENT }]);
  });

  it('notes a path once', () => {
    const comparison = new Comparison();
    comparison.differ('unknown field', 1, 'at');
    comparison.compare(1, 2, 'at');
    expect(comparison.differences).toEqual([{ path: 'at', expected: 'unknown field', got: 1 }]);
  });
});
