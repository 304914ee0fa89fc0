// Steps in one native call equal steps one by one: times, counters and digests, over random loads
// and the parity traces.
import { describe, expect, it } from 'vitest';
import { GPUS } from '../../src/planner/model/gpus.js';
import { profileCost, rooflineProfile } from '../../src/planner/model/profile.js';
import { EngineRun, type EngineRunOptions } from '../../src/planner/run/engine-run.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { Workload } from '../../src/workload/workload.js';
import { augustFixtureNames, fixtureNames, readFixture } from '../parity/fixtures.js';
import { depthOf } from '../parity/pipeline.js';
import type { AddEvent, Trace } from '../parity/trace.js';
import { share } from '../support/share.js';
import { LLAMA_8B } from './models.js';

const COST = profileCost(rooflineProfile(LLAMA_8B, 'm', GPUS['a100']));
const SEEDS = share(12, 100, 1000);

/** Steps that were made in one native call, and everything that a run says. */
function runOf(options: Omit<EngineRunOptions, 'cost'>) {
  const run = new EngineRun({ cost: COST, ...options });
  const { scheduler } = run;
  let together = 0;
  const { scheduleMany } = scheduler;
  scheduler.scheduleMany = (steps) => {
    together += steps;
    return scheduleMany.call(scheduler, steps);
  };
  run.run();
  scheduler.verify();
  const { times, steps, nowMs, preemptions, refused } = run;
  const stats = scheduler.stats();
  const said = { times, steps, nowMs, preemptions, refused, stats, digest: scheduler.digest() };
  run.dispose();
  return { said, together };
}

/** Runs a load step by step and with leaps. @returns how many steps the leaps had */
function compare(options: Omit<EngineRunOptions, 'cost'>): number {
  // A caller that wants to see each step gets each step.
  const stepped = runOf({ ...options, onStep: () => {} });
  expect(stepped.together).toBe(0);
  const leapt = runOf(options);
  expect(leapt.said).toEqual(stepped.said);
  return leapt.together;
}

describe('steps in one native call', () => {
  it(`are the same as one by one: ${SEEDS} random loads`, () => {
    let together = 0;
    for (let seed = 0; seed < SEEDS; seed++) {
      const workload = generateWorkload({ requests: 30, requestRate: [2, 8, 40][seed % 3], seed });
      together += compare({
        workload,
        // From pools that make requests wait for each other to pools that have room for all.
        scheduler: {
          numBlocks: [700, 900, 4000][(seed >> 1) % 3],
          maxNumSeqs: [4, 8, 64][(seed >> 2) % 3],
          maxNumBatchedTokens: [256, 2048][(seed >> 3) % 2],
          pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
          blockSize: [16, 32][(seed >> 1) % 2],
          enablePrefixCaching: seed % 5 > 0,
          policy: seed % 4 === 0 ? 'priority' : 'fcfs',
        },
        ...(seed % 7 === 0 && { untilMs: 5000 }),
        ...(seed % 6 === 0 && { speedUp: 0.1 }),
      });
    }
    expect(together).toBeGreaterThan(100 * SEEDS);
  });

  it('are the same as one by one: the requests and options of the parity traces', () => {
    let together = 0;
    let traces = 0;
    for (const name of [...fixtureNames, ...augustFixtureNames]) {
      const trace = readFixture(name);
      const workload = workloadOf(trace);
      if (workload.length === 0) continue;
      const { config } = trace;
      together += compare({
        workload,
        scheduler: {
          numBlocks: config.num_gpu_blocks,
          blockSize: config.block_size,
          maxNumSeqs: config.max_num_seqs,
          maxNumBatchedTokens: config.max_num_batched_tokens,
          maxModelLen: config.max_model_len,
          enablePrefixCaching: config.enable_prefix_caching,
          policy: config.policy,
          enableChunkedPrefill: config.enable_chunked_prefill,
          longPrefillTokenThreshold: config.long_prefill_token_threshold,
          reserveFullIsl: config.scheduler_reserve_full_isl,
          pipelineDepth: depthOf(config),
        },
      });
      traces++;
    }
    expect(traces).toBeGreaterThan(50);
    expect(together).toBeGreaterThan(10 * traces);
  });
});

/** The requests of a trace, one arriving every 40 ms for each step of the trace. */
function workloadOf({ steps }: Trace): Workload {
  const adds = steps.flatMap(({ events }, step) =>
    events.filter((event): event is AddEvent => event.t === 'add').map((add) => ({ add, step })),
  );
  const first = adds[0]?.step ?? 0;
  return new Workload(
    {
      arrivalMs: Float64Array.from(adds, ({ step }) => 40 * (step - first)),
      inputTokens: Int32Array.from(adds, ({ add }) => add.n),
      outputTokens: Int32Array.from(adds, ({ add }) => add.max_tokens),
      hashStarts: null,
      hashIds: new Int32Array(0),
    },
    0,
  );
}
