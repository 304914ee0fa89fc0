import { describe, expect, it } from 'vitest';
import { Replay } from '../../src/cli/replay/run/replay.js';
import { GPUS } from '../../src/planner/model/gpus.js';
import { profileCost, rooflineProfile } from '../../src/planner/model/profile.js';
import { EngineRun, type EngineRunOptions } from '../../src/planner/run/engine-run.js';
import { latenciesOf, quantilesOf, summarise } from '../../src/planner/run/summary.js';
import { resolveOptions } from '../../src/scheduler/options/resolve-options.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { LLAMA_8B } from './models.js';

const COST = profileCost(rooflineProfile(LLAMA_8B, 'm', GPUS['a100']));

function runOf(options: Omit<EngineRunOptions, 'cost'>) {
  const run = new EngineRun({ cost: COST, ...options });
  run.run();
  const { times, steps, nowMs, preemptions, refused } = run;
  const digest = run.scheduler.digest();
  run.scheduler.verify();
  run.dispose();
  return { times, steps, nowMs, preemptions, refused, digest };
}

describe('an engine in virtual time', () => {
  const CASES = [1, 2, 3, 4, 5, 6].map((seed) => ({
    seed,
    workload: generateWorkload({ requests: 40, requestRate: 40, seed }),
    scheduler: {
      // From pools that make requests wait for each other to pools that have room for all.
      numBlocks: [700, 900, 1200, 4000, 700, 900][seed - 1],
      maxNumSeqs: [8, 32, 64, 64, 16, 64][seed - 1],
      maxNumBatchedTokens: [512, 2048, 256, 8192, 512, 1024][seed - 1],
      pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
    },
  }));

  it.each(CASES)(
    'has the steps and the times of a replay: seed $seed',
    async ({ seed, workload, scheduler }) => {
      const run = runOf({ workload, scheduler });
      const { now: _, ...config } = resolveOptions({ maxModelLen: workload.maxTotalTokens, ...scheduler });
      const rest = { acceptanceRate: 0, speedUp: 1, abortRate: 0, seed, model: 'a profile' };
      const replay = new Replay(workload, { scheduler: config, cost: COST, ...rest });
      await replay.run();
      const { measurements, nowMs } = replay;
      const { numPreemptions } = replay.scheduler.stats();
      replay.dispose();
      expect([run.steps, run.preemptions]).toEqual([measurements.steps, numPreemptions]);
      expect(run.nowMs).toBeCloseTo(nowMs, 6);
      const latencies = latenciesOf(workload, run.times);
      const { ttftMs, tpotMs, e2eMs } = measurements;
      const most = [ttftMs, tpotMs, e2eMs].map((each) => each.percentiles().max!);
      const { ttft, tpot, e2e } = latencies;
      const ours = [ttft, tpot, e2e].map((column) => Math.max(...column.filter((ms) => ms >= 0)));
      expect(ours).toEqual(most.map((ms) => expect.closeTo(ms, 2)));
      expect(summarise(latencies).e2e.p99).toBeLessThanOrEqual(ours[2]);
    },
  );

  it.each([
    [0, 1],
    [1, 1],
    [1, 2],
  ] as const)(
    'has those of a replay with drafts: acceptance %f, depth %i',
    async (acceptanceRate, pipelineDepth) => {
      const { workload, scheduler } = CASES[3];
      const drafts = { numSpeculativeTokens: 3, speculativeMethod: 'eagle', pipelineDepth } as const;
      const run = runOf({ workload, scheduler: { ...scheduler, ...drafts }, acceptanceRate });
      const { now: _, ...config } = resolveOptions({
        maxModelLen: workload.maxTotalTokens,
        ...scheduler,
        ...drafts,
      });
      const rest = { acceptanceRate, speedUp: 1, abortRate: 0, seed: 0, model: 'a profile' };
      const replay = new Replay(workload, { scheduler: config, cost: COST, ...rest });
      await replay.run();
      const { measurements, nowMs } = replay;
      replay.dispose();
      expect(run.steps).toBe(measurements.steps);
      expect(run.nowMs).toBeCloseTo(nowMs, 6);
      const { ttft, e2e } = latenciesOf(workload, run.times);
      expect(Math.max(...ttft)).toBeCloseTo(measurements.ttftMs.percentiles().max!, 2);
      expect(Math.max(...e2e)).toBeCloseTo(measurements.e2eMs.percentiles().max!, 2);
    },
  );

  it('meets preemptions in these cases', () => {
    const found = CASES.map(({ workload, scheduler }) => runOf({ workload, scheduler }).preemptions);
    expect(Math.max(...found)).toBeGreaterThan(3);
  });

  it.each(CASES)('goes through the steady decode, and is the same without: seed $seed', (each) => {
    const { workload, scheduler } = each;
    const plain = runOf({ workload, scheduler: { ...scheduler, steadyDecode: false } });
    expect(runOf({ workload, scheduler })).toEqual(plain);
  });

  it('gives an engine some requests alone, faster, and until a time', () => {
    const { workload, scheduler } = CASES[3];
    const indices = Int32Array.from({ length: 20 }, (_, i) => 2 * i);
    const { times } = runOf({ workload, scheduler, indices });
    expect(times.lastMs.filter((ms) => ms > 0).length).toBe(20);
    expect(times.lastMs[1]).toBeNaN();
    expect(runOf({ workload, scheduler, speedUp: 0.02 }).nowMs).toBeGreaterThan(
      1.1 * runOf({ workload, scheduler }).nowMs,
    );
    const early = runOf({ workload, scheduler, untilMs: 300 });
    expect(early.nowMs).toBeLessThan(1500);
    expect(early.times.lastMs.some(Number.isNaN)).toBe(true);
  });

  it('counts requests that never fit, and ends where a cost is no time', () => {
    const { workload } = CASES[0];
    const scheduler = { numBlocks: 60, maxNumSeqs: 4, maxModelLen: 1000 };
    const run = runOf({ workload, scheduler });
    expect(run.refused).toBeGreaterThan(0);
    expect(run.times.lastMs.filter((ms) => ms > 0).length).toBe(40 - run.refused);
    const bad = new EngineRun({ workload, scheduler, cost: { hostMs: () => 0, stepMs: () => Number.NaN } });
    expect(() => bad.run()).toThrow(/model.stepMs\(features\).*NaN/);
    bad.dispose();
  });
});

describe('quantiles', () => {
  it('are linear between values, and null of none', () => {
    expect(quantilesOf(Float64Array.of(4, 1, 2, 3))).toMatchObject({
      mean: 2.5,
      p50: 2.5,
      p99: expect.closeTo(3.97, 9),
    });
    expect(quantilesOf(new Float64Array(0))).toMatchObject({ mean: null, p95: null });
  });
});
