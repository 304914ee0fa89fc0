// Jobs of several ranks are over when each rank has reported it.
import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { worseVerdict } from '../../src/transfer/verdict.js';
import { RankedJobs, Verdict } from '../../src/transfer.js';
import { seeded } from '../support/core-bench.js';

const { ok, failed, cancelled } = Verdict;

function bench() {
  const anomalies = new Anomalies(false);
  return { anomalies, jobs: new RankedJobs<string>(anomalies) };
}

describe('jobs of several ranks', () => {
  it('have the worse of two verdicts', () => {
    const all = [ok, failed, cancelled];
    expect(all.map((a) => all.map((b) => worseVerdict(a, b)))).toEqual([
      [ok, failed, cancelled],
      [failed, failed, failed],
      [cancelled, failed, cancelled],
    ]);
  });

  it('are over when each of their ranks has said so, in any order', () => {
    const { anomalies, jobs } = bench();
    expect([jobs.begin([0, 1], 'a'), jobs.begin([5, 2, 7], 'b'), jobs.begin([1], 'c')]).toEqual([1, 2, 3]);
    expect([jobs.size, jobs.silent(2), jobs.get(2)?.payload]).toEqual([3, [5, 2, 7], 'b']);
    expect(jobs.report(2, 5, ok)).toBe(null);
    expect(jobs.report(1, 1, ok)).toBe(null);
    expect(jobs.report(3, 1, ok)).toMatchObject({ job: 3, payload: 'c', verdict: ok });
    expect(jobs.report(2, 7, ok)).toBe(null);
    expect([jobs.size, jobs.silent(2), jobs.silent(1), jobs.silent(3)]).toEqual([2, [2], [0], []]);
    expect(jobs.report(2, 2, ok)).toMatchObject({ job: 2, payload: 'b', verdict: ok });
    expect(jobs.report(1, 0, ok)).toMatchObject({ job: 1, payload: 'a', verdict: ok });
    expect([jobs.size, jobs.get(1), anomalies.toObject()]).toEqual([0, null, {}]);
    expect(jobs.begin([0], 'd')).toBe(4);
  });

  it.each([
    [[ok, failed, ok], failed],
    [[cancelled, ok, ok], cancelled],
    [[failed, cancelled, ok], failed],
    [[cancelled, failed, cancelled], failed],
    [[ok, ok, cancelled], cancelled],
  ] as const)(
    'end with the worst verdict, and no rank that failed ends them early: %j',
    (verdicts, worst) => {
      const { jobs } = bench();
      const job = jobs.begin([0, 1, 2], 'a');
      expect([jobs.report(job, 0, verdicts[0]), jobs.report(job, 1, verdicts[1])]).toEqual([null, null]);
      expect(jobs.get(job)?.verdict).toBe(worseVerdict(verdicts[0], verdicts[1]));
      expect(jobs.report(job, 2, verdicts[2])).toMatchObject({ verdict: worst });
    },
  );

  it('take one report of each rank, and nothing of a rank that they have not', () => {
    const { anomalies, jobs } = bench();
    const job = jobs.begin([0, 1], 'a');
    expect(jobs.report(job, 0, ok)).toBe(null);
    expect(jobs.report(job, 0, failed)).toBe(null);
    expect(jobs.report(job, 2, failed)).toBe(null);
    expect(anomalies.toObject()).toEqual({ 'duplicate-completion': 1, 'wrong-owner': 1 });
    // The skipped report has changed nothing: the verdict is still good, and rank 1 is still
    // missing.
    expect([jobs.silent(job), jobs.get(job)?.verdict]).toEqual([[1], ok]);
    expect(jobs.report(job, 1, ok)).toMatchObject({ verdict: ok });
    expect([jobs.report(job, 1, ok), jobs.report(job, 2, ok), jobs.report(job + 1, 0, ok)]).toEqual([
      null,
      null,
      null,
    ]);
    expect(anomalies.toObject()).toEqual({
      'duplicate-completion': 3,
      'wrong-owner': 1,
      'unknown-completion': 1,
    });
  });

  it('from before a reset are forgotten, and what is still said of them is told apart', () => {
    const { anomalies, jobs } = bench();
    const over = jobs.begin([0], 'over');
    jobs.report(over, 0, ok);
    const half = jobs.begin([0, 1], 'half');
    jobs.report(half, 0, ok);
    const silent = jobs.begin([3], 'silent');
    expect(jobs.reset().map(({ job, payload }) => [job, payload])).toEqual([
      [half, 'half'],
      [silent, 'silent'],
    ]);
    expect([jobs.size, jobs.get(half), jobs.silent(half)]).toEqual([0, null, []]);
    const fresh = jobs.begin([0, 1], 'fresh');
    expect(fresh).toBe(silent + 1);
    for (const [job, rank] of [
      [half, 1],
      [silent, 3],
      [over, 0],
    ])
      expect(jobs.report(job, rank, ok)).toBe(null);
    expect(anomalies.toObject()).toEqual({ 'after-reset': 3 });
    expect(jobs.report(fresh, 1, ok)).toBe(null);
    expect(jobs.report(fresh, 0, cancelled)).toMatchObject({ payload: 'fresh', verdict: cancelled });
    expect(jobs.report(fresh, 0, ok)).toBe(null);
    expect(anomalies.toObject()).toEqual({ 'after-reset': 3, 'duplicate-completion': 1 });
    expect([jobs.reset(), jobs.report(fresh, 0, ok)]).toEqual([[], null]);
    expect(anomalies.toObject()).toMatchObject({ 'after-reset': 4 });
  });

  it('keep what their ranks were', () => {
    const { jobs } = bench();
    const ranks = [0, 1];
    const job = jobs.begin(ranks, 'a');
    jobs.report(job, 0, ok);
    expect(ranks).toEqual([0, 1]);
    ranks.length = 0;
    expect(jobs.silent(job)).toEqual([1]);
  });

  it('agree with a set of ranks for each, over random lives', () => {
    const random = seeded(6);
    const { anomalies, jobs } = bench();
    const model = new Map<number, { left: Set<number>; all: Set<number>; verdict: Verdict }>();
    const expected: Record<string, number> = {};
    const count = (reason: string) => {
      expected[reason] = (expected[reason] ?? 0) + 1;
    };
    let next = 1;
    let first = 1;
    let ends = 0;
    for (let i = 0; i < 5000; i++) {
      if (random(3) === 0) {
        const ranks = [0, 1, 2, 3, 4].filter(() => random(2) === 0);
        if (ranks.length === 0) continue;
        expect(jobs.begin(ranks, `${next}`)).toBe(next);
        model.set(next++, { left: new Set(ranks), all: new Set(ranks), verdict: ok });
      } else if (random(200) === 0) {
        expect(jobs.reset().map(({ job }) => job)).toEqual([...model.keys()]);
        model.clear();
        first = next;
      } else {
        const job = Math.max(1, next - random(12) + 1);
        const rank = random(5);
        const verdict = (1 + random(3)) as Verdict;
        const one = model.get(job);
        const found = jobs.report(job, rank, verdict);
        if (one === undefined)
          count(job >= next ? 'unknown-completion' : job < first ? 'after-reset' : 'duplicate-completion');
        else if (!one.all.has(rank)) count('wrong-owner');
        else if (!one.left.delete(rank)) count('duplicate-completion');
        else one.verdict = worseVerdict(one.verdict, verdict);
        if (one !== undefined && one.left.size === 0) {
          model.delete(job);
          ends++;
          expect(found).toMatchObject({ job, payload: `${job}`, verdict: one.verdict });
        } else {
          expect(found).toBe(null);
          expect(new Set(jobs.silent(job))).toEqual(one?.left ?? new Set());
        }
      }
      expect(jobs.size).toBe(model.size);
    }
    expect(anomalies.toObject()).toEqual(expected);
    expect(Object.keys(expected)).toHaveLength(4);
    expect(ends).toBeGreaterThan(100);
  });
});
