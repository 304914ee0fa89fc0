import { describe, expect, it } from 'vitest';
import { plan } from '../../src/planner/plan.js';
import type { FleetRun } from '../../src/planner/sweep/evaluation.js';
import { parseSweep } from '../../src/planner/sweep/knobs.js';
import { paretoOptimal, roundsOf, survivors } from '../../src/planner/sweep/search.js';
import { parseSlo } from '../../src/planner/sweep/slo.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { PRIOR, SCHEDULER } from './truth.js';

const SLO = parseSlo('ttft:p95<3s,tpot:p95<400ms');

describe('a search', () => {
  it('knows which points no other is better than', () => {
    const run = (ttft: number | null, tpot: number | null) =>
      ({ latencies: { ttft: { p95: ttft }, tpot: { p95: tpot } } }) as unknown as FleetRun;
    const runs = [run(1, 9), run(2, 5), run(3, 6), run(4, 1), run(null, 1), run(2, 5)];
    expect(paretoOptimal(runs)).toEqual([true, true, false, true, false, false]);
  });
});

describe('successive halving', () => {
  it('gives a third of the points three times as many requests, round by round', () => {
    expect(roundsOf('grid', 1000, 9000, 3)).toEqual([{ points: 1000, requests: 9000 }]);
    expect(roundsOf('halving', 1000, 9000, 3)).toEqual([
      { points: 1000, requests: 334 },
      { points: 334, requests: 1000 },
      { points: 112, requests: 3000 },
      { points: 38, requests: 9000 },
    ]);
    // Not with too few requests, nor for fewer points than there are finalists.
    expect(roundsOf('halving', 1000, 500, 3)).toHaveLength(1);
    expect(roundsOf('halving', 8, 9000, 3)).toHaveLength(1);
    expect(roundsOf('halving', 2, 9000, 3)).toEqual([{ points: 2, requests: 9000 }]);
  });

  it('keeps what nothing is better than, then what strains least, then what did the same', () => {
    const run = (strain: number, ttft: number, tpot: number, steps = 1) =>
      ({
        strain,
        steps,
        latencies: { ttft: { p95: ttft }, tpot: { p95: tpot } },
      }) as unknown as FleetRun;
    const runs = [run(0.5, 5, 5), run(0.5, 5, 5), run(2, 1, 9), run(0.6, 6, 6), run(Infinity, 9, 9)];
    const by = new Map(runs.entries());
    expect(survivors(by, 2)).toEqual([0, 2]);
    expect(survivors(by, 3)).toEqual([0, 2, 3]);
    expect(survivors(by, 5)).toEqual([0, 1, 2, 3, 4]);
  });

  it('finds the best of a grid with a part of its steps', async () => {
    const workload = generateWorkload({ requests: 640, requestRate: 8, seed: 6 });
    const sweep = parseSweep('max-num-seqs=2|8|32,max-num-batched-tokens=256|1k|4k');
    const input = { workload, profile: PRIOR, slo: SLO, scheduler: SCHEDULER, sweep, finalists: 1 };
    const grid = await plan(input);
    const found = await plan({ ...input, search: 'halving' });
    expect(found.finalists[0].point).toEqual(grid.finalists[0].point);
    const whole = found.points.filter(({ run }) => run.requests === 640);
    expect([found.points.length, whole.length]).toEqual([9, 3]);
    expect(found.steps).toBeLessThan(0.7 * grid.steps);
    for (const { run, isParetoOptimal } of found.points) if (isParetoOptimal) expect(run.requests).toBe(640);
    for (const { values } of found.sensitivities)
      for (const { best } of values) expect(best).toBeGreaterThan(0);
  });
});
