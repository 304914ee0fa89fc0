// Helper: a run under known coefficients, in the formats of vLLM and load generators.
import { Random } from '../../src/base/random.js';
import type { Coefficients } from '../../src/planner/model/coefficients.js';
import { GPUS } from '../../src/planner/model/gpus.js';
import { PhysicsCost } from '../../src/planner/model/physics-cost.js';
import { type Profile, rooflineProfile } from '../../src/planner/model/profile.js';
import { EngineRun, type RequestTimes } from '../../src/planner/run/engine-run.js';
import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { Workload } from '../../src/workload/workload.js';
import { LLAMA_8B } from './models.js';

/** A model on a GPU whose true coefficients a test knows, and a fit has to find. */
export const PRIOR = rooflineProfile(LLAMA_8B, 'Llama-3.1-8B', GPUS['a100']) as Profile & {
  kind: 'roofline';
};
export const TRUTH: Coefficients = {
  memory: 1.5,
  compute: 2.6,
  prefillAttention: 3,
  decodeAttention: 1.8,
  skew: 0.1,
  rowMs: 0.012,
  stepMs: 1.4,
  comm: 2,
};
export const SCHEDULER = {
  numBlocks: 3000,
  maxNumSeqs: 32,
  maxNumBatchedTokens: 1024,
} satisfies SchedulerOptions;

/** Requests without contents, as a load generator sends them. */
export function requests(count: number, requestRate: number, seed = 3): Workload {
  const { columns } = generateWorkload({ requests: count, requestRate, seed });
  return new Workload({ ...columns, hashStarts: null }, 0);
}

/** Runs requests under the truth, and writes vLLM's log of iterations. @param noise relative, of each step; `betweenMs`: time between steps, which the log leaves out */
export function measure(
  workload: Workload,
  {
    scheduler = SCHEDULER as Omit<SchedulerOptions, 'now'>,
    noise = 0,
    coefficients = TRUTH,
    betweenMs = 0,
  } = {},
): { times: RequestTimes; log: string } {
  const random = new Random(5);
  const cost = new PhysicsCost(PRIOR.physics, coefficients, PRIOR.host);
  const lines: string[] = [];
  let shaken = 1;
  const run = new EngineRun({
    workload,
    scheduler,
    cost: {
      // Without steps in flight the time of an iteration has the host's in it.
      hostMs: () => betweenMs,
      stepMs: (features) => {
        const ms = shaken * (cost.stepMs(features) + cost.hostMs(features));
        lines.push(`${lines.pop()}, iteration elapsed time: ${ms.toFixed(2)} ms, GPU KV cache usage: 1.2%`);
        return ms;
      },
    },
    onStep: (_, plan) => {
      shaken = 1 + noise * (2 * random.next() - 1);
      const counts = { context: [0, 0], generation: [0, 0] };
      for (let i = 0; i < plan.numRequests; i++) {
        const kind = plan.requests[i].numOutputTokens > 0 ? 'generation' : 'context';
        counts[kind][0]++;
        counts[kind][1] += plan.numScheduledTokens[i];
      }
      const words = (['context', 'generation'] as const).map(
        (kind) => `${counts[kind][0]} ${kind} requests, ${counts[kind][1]} ${kind} tokens`,
      );
      lines.push(
        `(EngineCore pid=1) INFO 08-01 10:00:00 [core.py:1] Iteration(${lines.length}): ${words.join(', ')}`,
      );
    },
  });
  run.run();
  run.dispose();
  return { times: run.times, log: `INFO started\n${lines.join('\n')}\n` };
}

/** The times as `vllm bench serve --save-detailed` writes them. */
export function asVllmBench(workload: Workload, { firstMs, lastMs }: RequestTimes): string {
  const list = <T>(of: (i: number) => T): T[] => Array.from({ length: workload.length }, (_, i) => of(i));
  return JSON.stringify({
    start_times: list((i) => 100 + workload.arrivalMs[i] / 1000),
    ttfts: list((i) => (firstMs[i] - workload.arrivalMs[i]) / 1000),
    itls: list((i) => {
      const gaps = workload.outputTokens[i] - 1;
      return Array.from({ length: gaps }, () => (lastMs[i] - firstMs[i]) / gaps / 1000);
    }),
    input_lens: [...workload.inputTokens],
    output_lens: [...workload.outputTokens],
    errors: list(() => ''),
  });
}
