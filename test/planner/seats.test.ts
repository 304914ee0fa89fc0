// Points of a plan that share one run, because they differ only in seats that no request needs.
import { describe, expect, it } from 'vitest';
import { type PlanInput, plan } from '../../src/planner/plan.js';
import { Evaluation, type FleetRun } from '../../src/planner/sweep/evaluation.js';
import { optionsAt, parseSweep } from '../../src/planner/sweep/knobs.js';
import { Pool } from '../../src/planner/sweep/pool.js';
import { parseSlo } from '../../src/planner/sweep/slo.js';
import { shareColumns } from '../../src/planner/sweep/task.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { PRIOR, SCHEDULER } from './truth.js';

const workload = generateWorkload({ requests: 80, requestRate: 2, seed: 11 });
const slo = parseSlo('ttft:p95<3s,tpot:p95<400ms');

function inputOf(sweep: string, more: Partial<PlanInput> = {}): PlanInput {
  return {
    workload,
    profile: PRIOR,
    slo,
    scheduler: SCHEDULER,
    sweep: parseSweep(sweep),
    finalists: 1,
    ...more,
  };
}

/** All of a run but its digest, which depends on the number of seats. */
function withoutDigest({ digest: _, ...run }: FleetRun): Omit<FleetRun, 'digest'> {
  return run;
}

describe('points of a plan that differ only in max-num-seqs', () => {
  it('have the runs that each would have by itself, and most are not simulated', async () => {
    const input = inputOf('max-num-seqs=1..64+1,max-num-batched-tokens=512|4k');
    const { points } = await plan(input);
    const pool = new Pool({ columns: shareColumns(workload), profile: PRIOR }, 2);
    try {
      const evaluation = new Evaluation(pool, workload, PRIOR, slo);
      const own = await Promise.all(
        points.map(({ point }) =>
          evaluation.run({
            scheduler: optionsAt(SCHEDULER, point),
            engines: 1,
            router: 'round-robin',
            member: -1,
            acceptanceRate: 0.7,
            speedUp: 1,
            requests: workload.length,
          }),
        ),
      );
      expect(points.map(({ run }) => withoutDigest(run))).toEqual(own.map(withoutDigest));
      const distinct = new Set(points.map(({ run }) => run)).size;
      const fewest = new Set(own.map((run) => JSON.stringify(withoutDigest(run)))).size;
      expect(distinct).toBeGreaterThan(4);
      // A run that needs all its seats says nothing of the next one, even if that is the same.
      expect(distinct).toBeLessThanOrEqual(fewest + 2);
      expect(fewest).toBeLessThan(points.length / 2);
    } finally {
      await pool.close();
    }
  });

  it('have the same runs with any number of threads', async () => {
    const input = inputOf('max-num-seqs=1..64+1');
    const [one, four] = [await plan(input), await plan({ ...input, threads: 4 })];
    expect(four).toEqual(one);
  });

  it.each(['policy=priority', 'num-speculative-tokens=3'])('share none with %s', async (other) => {
    const { points } = await plan(inputOf(`max-num-seqs=16|32|48,${other}`));
    expect(new Set(points.map(({ run }) => run)).size).toBe(3);
  });
});
