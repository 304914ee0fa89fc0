// Objectives, sweeps, routers, fleets on any number of threads, the load that breaks the
// objectives, plans and their resumption.
import { describe, expect, it } from 'vitest';
import { RANGED, type SeenRange } from '../../src/planner/model/seen-range.js';
import { type PlanInput, plan } from '../../src/planner/plan.js';
import { Evaluation, type FleetRun, findCapacity, requestRate } from '../../src/planner/sweep/evaluation.js';
import { findFleetSize } from '../../src/planner/sweep/fleet-size.js';
import { optionsAt, parseSweep, pointsOf } from '../../src/planner/sweep/knobs.js';
import { Pool } from '../../src/planner/sweep/pool.js';
import { route } from '../../src/planner/sweep/routing.js';
import { parseSlo, strain } from '../../src/planner/sweep/slo.js';
import { shareColumns } from '../../src/planner/sweep/task.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { PRIOR, SCHEDULER } from './truth.js';

const SLO = parseSlo('ttft:p95<3s,tpot:p95<400ms');

describe('an objective', () => {
  it('is read, and says how near a run is to its bounds', () => {
    expect(parseSlo('ttft:p95<1s, e2e:mean<250.5ms')).toEqual([
      { latency: 'ttft', statistic: 'p95', belowMs: 1000 },
      { latency: 'e2e', statistic: 'mean', belowMs: 250.5 },
    ]);
    const none = { mean: null, p50: null, p90: null, p95: null, p99: null };
    const some = { mean: 1, p50: 1, p90: 1, p95: 500, p99: 1 };
    const slo = parseSlo('ttft:p95<1s,tpot:p95<250ms');
    expect(strain(slo, { ttft: some, tpot: some, e2e: none })).toBe(2);
    expect(strain(slo, { ttft: none, tpot: some, e2e: none })).toBe(Infinity);
  });

  it.each([
    '',
    'ttft<1s',
    'ttft:p95<1',
    'ttft:p94<1s',
    'itl:p95<1s',
    'ttft:p95<0s',
    'ttft:p95<1s,ttft:p95<2s',
  ])('refuses %j', (text) => expect(() => parseSlo(text)).toThrow(/slo must be/));
});

describe('a sweep', () => {
  it('is read: doubled, by steps, in lists', () => {
    const sweep = parseSweep('max-num-seqs=64..300,block-size=16|32,max-num-batched-tokens=1k..2k+512');
    expect([...sweep]).toEqual([
      ['max-num-seqs', [64, 128, 256, 300]],
      ['block-size', [16, 32]],
      ['max-num-batched-tokens', [1024, 1536, 2048]],
    ]);
    expect(pointsOf(sweep)).toHaveLength(24);
    expect(pointsOf(sweep)[1]).toEqual({
      'max-num-seqs': 64,
      'block-size': 16,
      'max-num-batched-tokens': 1536,
    });
  });

  it('has words for options that are no numbers', () => {
    const sweep = parseSweep('policy=fcfs|priority,enable-prefix-caching=on|off,num-speculative-tokens=0|3');
    expect(pointsOf(sweep)).toHaveLength(8);
    expect(optionsAt({ numBlocks: 9 }, pointsOf(sweep)[7])).toEqual({
      numBlocks: 9,
      policy: 'priority',
      enablePrefixCaching: false,
      numSpeculativeTokens: 3,
    });
  });

  it('keeps the tokens of the pool where blocks grow', () => {
    expect(optionsAt({ numBlocks: 100 }, { 'block-size': 32 })).toMatchObject({
      numBlocks: 50,
      blockSize: 32,
    });
    expect(optionsAt({ numBlocks: 100 }, { 'block-size': 32, 'num-blocks': 7 })).toMatchObject({
      numBlocks: 7,
    });
  });

  it.each([
    '',
    'x=1',
    'max-num-seqs',
    'max-num-seqs=',
    'max-num-seqs=9..3',
    'max-num-seqs=0..8',
    'max-num-seqs=1,max-num-seqs=2',
    'policy=1',
    'policy=toString',
    'policy=fcfs..priority',
    'max-num-seqs=on',
  ])('refuses %j', (text) => expect(() => parseSweep(text)).toThrow(/sweep must be/));

  it('refuses a million points', () => {
    const text = 'max-num-seqs=1..1000+1,max-num-batched-tokens=1k..1001k+1k';
    expect(() => parseSweep(text)).toThrow(/sweep must be at most 20000, got \d+ points/);
    expect(() => parseSweep('max-num-seqs=1..100000000+1')).toThrow(/at most 20000 points/);
  });
});

describe('a router', () => {
  const workload = generateWorkload({ requests: 300, requestRate: 20, seed: 2 });

  it('goes round, or to the engine that was sent the prefix, unless that has too much', () => {
    expect([...route(workload, 3, 'round-robin', 1).slice(0, 4)]).toEqual([0, 1, 2, 0]);
    const engineOf = route(workload, 4, 'prefix', 1);
    expect(new Set(engineOf).size).toBe(4);
    const homes = new Map<number, Set<number>>();
    for (let i = 0; i < workload.length; i++) {
      const [first] = workload.hashIds(i);
      homes.set(first, (homes.get(first) ?? new Set()).add(engineOf[i]));
    }
    const shared = [...homes.values()].map((each) => each.size);
    expect(shared.reduce((sum, size) => sum + size, 0) / shared.length).toBeLessThan(1.2);
  });
});

describe('a fleet', () => {
  const workload = generateWorkload({ requests: 120, requestRate: 12, seed: 4 });
  const shared = { columns: shareColumns(workload), profile: PRIOR };
  const fleet = { scheduler: SCHEDULER, router: 'prefix', member: -1, acceptanceRate: 0.7 } as const;

  it('is the same with one thread, two and four', async () => {
    const found = [];
    for (const threads of [1, 2, 4]) {
      const pool = new Pool(shared, threads);
      const evaluation = new Evaluation(pool, workload, PRIOR, SLO);
      found.push(await evaluation.run({ ...fleet, engines: 5, speedUp: 1, requests: 120 }, 3));
      await pool.close();
    }
    expect(found[1]).toEqual(found[0]);
    expect(found[2]).toEqual(found[0]);
    const { refused, requests, parts, latencies } = found[0];
    expect([refused, requests, parts.length]).toEqual([0, 120, 3]);
    expect(latencies.e2e.p99).toBeGreaterThan(0);
  });

  it('is run with the first requests alone', async () => {
    const pool = new Pool(shared, 1);
    try {
      const evaluation = new Evaluation(pool, workload, PRIOR, SLO);
      const all = await evaluation.run({ ...fleet, engines: 2, speedUp: 1, requests: 120 });
      const few = await evaluation.run({ ...fleet, engines: 2, speedUp: 1, requests: 40 });
      expect(few.steps).toBeLessThan(0.7 * all.steps);
      expect(few.latencies.ttft.p50).not.toBe(all.latencies.ttft.p50);
      expect(few.latencies.ttft.p50).toBeGreaterThan(0);
    } finally {
      await pool.close();
    }
  });

  it('misses its objective at a load, and needs engines as the load asks for', async () => {
    const pool = new Pool(shared, 1);
    try {
      const evaluation = new Evaluation(pool, workload, PRIOR, SLO);
      const capacity = await findCapacity(evaluation, { ...fleet, engines: 1 });
      const { requestsPerSecond, tried, run } = capacity;
      expect(run.strain).toBeLessThanOrEqual(1);
      const kept = tried.filter((each) => each.requestsPerSecond <= requestsPerSecond * 1.0001);
      const above = tried.find((each) => each.requestsPerSecond > requestsPerSecond * 1.0001)!;
      expect(kept.at(-1)!.strain).toBeLessThanOrEqual(1);
      expect(above.strain).toBeGreaterThan(1);
      expect(above.requestsPerSecond / requestsPerSecond).toBeLessThan(1.051);
      const size = await findFleetSize(evaluation, fleet, 16, 4);
      expect(size.engines).toBeGreaterThanOrEqual(Math.floor(requestRate(workload) / requestsPerSecond));
      const fewer = size.tried.filter(({ engines }) => engines < size.engines!);
      expect(fewer.every((each) => each.strain > 1)).toBe(true);
      expect(size.windows.map(({ requests }) => requests).reduce((a, b) => a + b)).toBe(120);
      for (const { engines } of size.windows) expect(engines).toBeLessThanOrEqual(size.engines!);
      const strict = new Evaluation(pool, workload, PRIOR, parseSlo('ttft:p95<1ms'));
      const none = await findFleetSize(strict, fleet, 2, 2);
      expect([none.engines, none.windows[0].engines]).toEqual([null, null]);
    } finally {
      await pool.close();
    }
  });
});

describe('a plan', () => {
  const workload = generateWorkload({ requests: 80, requestRate: 8, seed: 6 });
  const input: PlanInput = {
    workload,
    profile: PRIOR,
    slo: SLO,
    scheduler: SCHEDULER,
    sweep: parseSweep('max-num-seqs=2|8|32,max-num-batched-tokens=512|2k'),
    finalists: 2,
    maxEngines: 4,
  };

  it('compares all points, and finds what the best can bear', async () => {
    const known = new Map<string, FleetRun>();
    const stages = new Map<string, number[]>();
    const found = await plan({
      ...input,
      threads: 2,
      onRun: (key, run) => known.set(key, run),
      onProgress: (stage, done, of) => stages.set(stage, [done, of]),
    });
    expect(found.points).toHaveLength(6);
    expect([...stages]).toEqual([
      ['points', [6, 6]],
      ['points at 2 times the load', [2, 2]],
      ['loads', [2, 2]],
      ['engines', [1, 1]],
    ]);
    const best = Math.min(...found.points.map(({ run }) => run.strain));
    const [winner] = found.finalists;
    expect(found.points.find(({ point }) => point === winner.point)!.run.strain).toBeLessThan(1.5 * best);
    expect(winner.capacity.requestsPerSecond).toBeGreaterThanOrEqual(
      found.finalists[1].capacity.requestsPerSecond,
    );
    expect(found.sensitivities.map(({ knob }) => knob)).toEqual(['max-num-seqs', 'max-num-batched-tokens']);
    expect(found.sensitivities[0].spread).toBeGreaterThan(0);
    expect(found.fleet!.engines).toBeGreaterThan(0);
    // Nobody has measured what a roofline says.
    expect(found.points.every(({ run, band }) => run.extrapolated === 1 && band === null)).toBe(true);
    const again: string[] = [];
    // Every stage goes on from there, not only the points.
    const resumed = await plan({ ...input, known, onRun: (key) => again.push(key) });
    expect(again).toEqual([]);
    expect(resumed).toEqual(found);
  });

  it('ranks points at a load that they feel', async () => {
    // At the trace's own load few requests run at once: all points are alike.
    const light = generateWorkload({ requests: 80, requestRate: 0.2, seed: 6 });
    const sweep = parseSweep('max-num-seqs=8|16|64');
    const { points, finalists, sensitivities, rankedAt, requestsPerSecond } = await plan({
      ...input,
      workload: light,
      sweep,
      finalists: 1,
      maxEngines: 0,
    });
    expect(points[0].run.latencies).toEqual(points[2].run.latencies);
    expect(rankedAt).toBeGreaterThan(2 * requestsPerSecond);
    expect(finalists[0].point['max-num-seqs']).toBe(64);
    const [one, , many] = sensitivities[0].values;
    expect(one.best).toBeGreaterThan(1.2 * many.best);
  });

  it('ranks points at loads that some of them bear, where none bears the trace’s own', async () => {
    // At its own load the queue only grows: the trace is over before a latency tells points apart.
    const heavy = generateWorkload({ requests: 150, requestRate: 60, seed: 6 });
    const overload: PlanInput = {
      ...input,
      workload: heavy,
      slo: parseSlo('ttft:p95<20s,tpot:p95<25ms'),
      sweep: parseSweep('max-num-seqs=8|16|32|64,max-num-batched-tokens=256|2k'),
      maxEngines: 0,
    };
    const { points, finalists, rankedAt, requestsPerSecond } = await plan({ ...overload, finalists: 8 });
    const [quickest] = points.toSorted((a, b) => a.run.strain - b.run.strain);
    const [winner, second] = finalists;
    expect(quickest.run.strain).toBeGreaterThan(1);
    // By the strain at that load another point wins, which bears half as much.
    expect(quickest.point).not.toEqual(winner.point);
    expect(rankedAt).toBeLessThanOrEqual(winner.capacity.requestsPerSecond);
    expect(requestsPerSecond).toBeGreaterThan(4 * winner.capacity.requestsPerSecond);
    const few = await plan({ ...overload, finalists: 2 });
    expect(few.finalists).toEqual([winner, second]);
    expect(few.points).toEqual(points);
  });

  it('says so where no load is light enough', async () => {
    const loads: string[] = [];
    const { finalists, points } = await plan({
      ...input,
      slo: parseSlo('ttft:p95<1ms'),
      sweep: parseSweep('max-num-seqs=2|32'),
      finalists: 1,
      maxEngines: 0,
      onProgress: (stage, done) => done === 0 && loads.push(stage),
    });
    expect(loads).toEqual([
      'points',
      ...[2, 4, 8, 16, 32, 64].map((n) => `points at ${1 / n} times the load, with 80 requests`),
      'points at 0.015625 times the load',
      'loads',
    ]);
    expect(finalists[0].capacity.requestsPerSecond).toBe(0);
    expect(points.every(({ run }) => run.strain > 1)).toBe(true);
  });

  it('has no two finalists that were decided alike', async () => {
    const sweep = parseSweep('max-num-seqs=200|300|400|2');
    const { points, finalists } = await plan({ ...input, sweep, finalists: 3, maxEngines: 0 });
    expect(new Set(points.map(({ run }) => run.latencies.e2e.mean)).size).toBe(2);
    expect(finalists.map(({ point }) => point['max-num-seqs'])).toEqual([200, 2]);
  });

  it('has bands where the profile has an ensemble', async () => {
    const { coefficients } = PRIOR;
    const errors = { heldOut: 9, stepMs: null, ttft: 0.1, tpot: 0.1, e2e: 0.1, p90: 0.2 };
    const ensemble = [
      { ...coefficients, compute: 2.4 },
      { ...coefficients, compute: 1.8 },
    ];
    const profile = { ...PRIOR, kind: 'fitted' as const, fit: { errors, undetermined: [], ensemble } };
    const sweep = parseSweep('max-num-seqs=8|32');
    const { points, finalists } = await plan({ ...input, profile, sweep, finalists: 1, maxEngines: 0 });
    for (const { isParetoOptimal, band } of points) expect(band !== null).toBe(isParetoOptimal);
    const { ttftMs } = points.find(({ band }) => band !== null)!.band!;
    expect(ttftMs[1]).toBeGreaterThan(ttftMs[0]);
    const [{ band, capacity }] = finalists;
    expect(band![0]).toBeLessThan(capacity.requestsPerSecond * 1.0001);
    expect(band![1]).toBeGreaterThan(capacity.requestsPerSecond * 0.9999);
    expect(band![1]).toBeGreaterThan(band![0]);
  });

  it('refuses before anything runs what no engine could be', async () => {
    const never = { ...input, onRun: () => expect.unreachable() };
    await expect(plan({ ...never, sweep: parseSweep('max-num-seqs=0|8') })).rejects.toThrow(
      /^at max-num-seqs=0: .*maxNumSeqs/,
    );
    const drafts = parseSweep('num-speculative-tokens=0|2,pipeline-depth=1|2');
    await expect(plan({ ...never, sweep: drafts })).rejects.toThrow(
      /^at num-speculative-tokens=2,pipeline-depth=2: speculativeMethod must be eagle or draft_model with/,
    );
    await expect(
      plan({ ...never, sweep: parseSweep('max-num-seqs=64,max-num-batched-tokens=32') }),
    ).rejects.toThrow(/^at .*: maxNumBatchedTokens must be at least maxNumSeqs \(64\), as in vLLM, got 32/);
    await expect(plan({ ...never, acceptanceRate: 2 })).rejects.toThrow(/acceptanceRate must be/);
    await expect(plan({ ...never, search: 'luck' as never })).rejects.toThrow(
      /search must be grid or halving/,
    );
    const once = generateWorkload({ requests: 1, requestRate: 8, seed: 6 });
    await expect(plan({ ...never, workload: once })).rejects.toThrow(/requests that arrive over time/);
  });

  it('stops with a signal, and keeps what was simulated', async () => {
    const controller = new AbortController();
    const keys: string[] = [];
    const stopped = plan({
      ...input,
      signal: controller.signal,
      onRun: (key) => {
        keys.push(key);
        if (keys.length === 2) controller.abort(new Error('enough'));
      },
    });
    await expect(stopped).rejects.toThrow('enough');
    expect(keys.length).toBeLessThan(6);
  });

  it('has drafts and policies as knobs', async () => {
    const sweep = parseSweep('num-speculative-tokens=0|3,policy=fcfs|priority');
    const { points } = await plan({ ...input, sweep, finalists: 1, maxEngines: 0 });
    const [plain, , drafted] = points.map(({ run }) => run);
    // A request alone gets up to four tokens a step.
    expect(drafted.steps).toBeLessThan(0.7 * plain.steps);
    expect(drafted.latencies.tpot.p50).toBeLessThan(plain.latencies.tpot.p50!);
    const never = await plan({ ...input, sweep, finalists: 1, maxEngines: 0, acceptanceRate: 0 });
    expect(never.points[2].run.latencies.tpot.p50).toBeGreaterThanOrEqual(plain.latencies.tpot.p50!);
    // One step in flight or two: with two the drafts stay on the device.
    const scheduler = { ...SCHEDULER, pipelineDepth: 2 as const, speculativeMethod: 'eagle' as const };
    const deep = await plan({ ...input, scheduler, sweep, finalists: 1, maxEngines: 0 });
    expect(deep.points[2].run.steps).toBeLessThan(0.7 * deep.points[0].run.steps);
    const seen = Object.fromEntries(
      RANGED.map((name) => [name, [0, name === 'drafts' ? 0 : 1e12]]),
    ) as unknown as SeenRange;
    const profile = { ...PRIOR, seen };
    const measured = await plan({ ...input, profile, sweep, finalists: 1, maxEngines: 0 });
    expect(measured.points[0].run.extrapolated).toBe(0);
    expect(measured.points[2].run.extrapolated).toBeGreaterThan(0.5);
  });
});
