import { beforeEach, describe, expect, it } from 'vitest';
import { LoadsUnderWay } from '../../../src/connectors/base/loads-under-way.js';
import { Anomalies } from '../../../src/index.js';
import { Verdict } from '../../../src/transfer.js';

const [A, B, C] = [1, 2, 3];

describe('loads under way', () => {
  let woken: number[];
  let anomalies: Anomalies;
  let loads: LoadsUnderWay<{ readonly where: string }>;

  beforeEach(() => {
    woken = [];
    anomalies = new Anomalies(false);
    loads = new LoadsUnderWay({ ranks: [0, 1], anomalies, wake: (handle) => woken.push(handle) });
  });

  it('are told to the workers once, and end with the worst of what the ranks say', () => {
    loads.begin(A, [10n, 11n, 12n], { where: 'x' });
    loads.begin(B, [20n], { where: 'y' });
    expect(loads.drain()).toEqual([
      { job: 1, handle: A, where: 'x' },
      { job: 2, handle: B, where: 'y' },
    ]);
    expect(loads.drain()).toEqual([]);
    expect(loads.report(1, 1, Verdict.ok, 2)).toBeNull();
    expect(loads.report(1, 1, Verdict.ok, 2)).toBeNull(); // twice
    expect(loads.numJobs).toBe(2);
    expect(loads.report(1, 0, Verdict.failed)).toEqual({
      isAwaited: true,
      ...{ keys: [10n, 11n, 12n], details: { where: 'x' } },
      ...{ verdict: Verdict.failed, numGood: 2 },
    });
    expect(loads.report(1, 0, Verdict.ok)).toBeNull();
    expect([0, 1].map((rank) => loads.report(2, rank, Verdict.ok))[1]).toMatchObject({ numGood: 1 });
    expect([loads.numJobs, anomalies.toObject()]).toEqual([0, { 'duplicate-completion': 2 }]);
  });

  it.each([
    [3, 1],
    [1, 3],
  ])('have the blocks that came on every rank: %i on the first to report, %i on the last', (first, last) => {
    loads.begin(A, [10n, 11n, 12n], { where: 'x' });
    loads.report(1, 0, Verdict.failed, first);
    expect(loads.report(1, 1, Verdict.failed, last)).toMatchObject({ numGood: 1 });
  });

  it('are waited for until every rank has reported', () => {
    loads.begin(A, [10n, 11n], { where: 'x' });
    expect([loads.awaits(B, 11n), loads.awaits(B, 10n), loads.awaits(C, 12n)]).toEqual([true, true, false]);
    expect(loads.numWaiting).toBe(1);
    loads.report(1, 0, Verdict.ok);
    expect(woken).toEqual([]);
    loads.report(1, 1, Verdict.cancelled);
    expect([woken, loads.numWaiting, loads.awaits(C, 10n)]).toEqual([[B], 0, false]);
  });

  it('whose request ends go on, and are waited for no more', () => {
    loads.begin(A, [10n, 11n], { where: 'x' });
    loads.awaits(B, 10n);
    loads.finish(A);
    expect([woken, loads.numJobs, loads.awaits(B, 10n)]).toEqual([[B], 1, false]);
    loads.begin(B, [10n], { where: 'y' });
    for (const rank of [0, 1]) loads.report(1, rank, Verdict.ok);
    // The end of the first load says nothing about the second.
    expect([loads.awaits(C, 10n), loads.awaits(C, 11n)]).toEqual([true, false]);
    for (const rank of [0, 1]) loads.report(2, rank, Verdict.ok);
    expect(woken).toEqual([B, C]);
  });

  it('wake nobody who has ended', () => {
    loads.begin(A, [10n], { where: 'x' });
    loads.begin(B, [20n], { where: 'y' });
    for (const key of [10n, 20n]) loads.awaits(C, key);
    loads.finish(C);
    expect(loads.numWaiting).toBe(0);
    for (const job of [1, 2]) for (const rank of [0, 1]) loads.report(job, rank, Verdict.ok);
    expect(woken).toEqual([]);
  });
});
