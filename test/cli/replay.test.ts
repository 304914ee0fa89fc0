// The report of a replay counts every request and token; aborts, the queue outside the scheduler,
// steps in flight, drafts, an interrupt.
import { describe, expect, it } from 'vitest';
import type { Report } from '../../src/cli/replay/report/report.js';
import { Replay, type ReplayOptions } from '../../src/cli/replay/run/replay.js';
import { costOf, DEFAULT_COST_MODEL } from '../../src/executors/cost-model/cost-model.js';
import { CostModelExecutor } from '../../src/executors/cost-model/cost-model-executor.js';
import { resolveOptions } from '../../src/scheduler/options/resolve-options.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { useTempFiles } from '../support/temp-file.js';
import { replay, run } from './run-program.js';

const write = useTempFiles();

/** A Mooncake trace of these requests. */
function trace(...rows: { timestamp?: number; input: number; output: number; ids: number[] }[]): string {
  const lines = rows.map(({ timestamp = 0, input, output, ids }) =>
    JSON.stringify({ timestamp, input_length: input, output_length: output, hash_ids: ids }),
  );
  return write('trace.jsonl', lines.join('\n'));
}

/** The parts of a report that follow from the options alone. */
function deterministic({
  wallSeconds,
  schedulerStepUs,
  ...rest
}: Report): Omit<Report, 'wallSeconds' | 'schedulerStepUs'> {
  return rest;
}

const SMALL = ['--requests', '120', '--num-blocks', '1500', '--max-num-seqs', '32'];

describe('the report', () => {
  it('says what happened to every request and token', async () => {
    const report = await replay(...SMALL);
    const { outputTokens, inputTokens } = generateWorkload({ requests: 120, requestRate: 20, seed: 0 });
    const sum = (column: Int32Array): number => column.reduce((a, b) => a + b);
    expect(report).toMatchObject({
      incomplete: false,
      workload: {
        file: null,
        format: 'generated',
        promptContents: true,
        requests: 120,
        skippedLines: 0,
        firstSkipped: null,
        zeroOutputs: 0,
      },
      requests: {
        total: 120,
        finished: 120,
        aborted: 0,
        refused: 0,
        unfinished: 0,
        byFinishReason: { stop: 0, length: 120, abort: 0, error: 0 },
        abortsTooLate: 0,
      },
      tokens: { prompt: sum(inputTokens), generated: sum(outputTokens) },
      ttftMs: { count: 120 },
      tpotMs: { count: outputTokens.filter((tokens) => tokens > 1).length },
      schedulerStepUs: { count: report.steps },
      e2eMs: { count: 120 },
      kvCache: { blocks: 1499 },
    });
    expect([report.requests.refusedByCode, report.anomalies]).toEqual([{}, {}]);
    const seconds = report.virtualSeconds;
    expect(report.throughput.generatedTokens).toBeCloseTo(sum(outputTokens) / seconds, 9);
    expect(report.throughput.finishedRequests).toBeCloseTo(120 / seconds, 9);
    expect(report.kvCache.peakUsage).toBeGreaterThan(0.5);
    expect(report.kvCache.peakUsage).toBeLessThanOrEqual(1);
    const { ttftMs, e2eMs } = report;
    expect(e2eMs.max!).toBeGreaterThan(ttftMs.max!);
    expect(report.prefixCache.queries).toBe(sum(inputTokens));
    expect(report.prefixCache.hits).toBeGreaterThan(0);
    expect(report.prefixCache.hitRate).toBe(report.prefixCache.hits / report.prefixCache.queries);
    expect(report.evictions).toBeGreaterThan(0);
    expect(report.steps).toBeGreaterThanOrEqual(Math.max(...outputTokens));
    for (const { p50, p90, p99, max } of [ttftMs, e2eMs, report.tpotMs, report.schedulerStepUs]) {
      expect(p50).toBeGreaterThan(0);
      expect(p90).toBeGreaterThanOrEqual(p50!);
      expect(p99).toBeGreaterThanOrEqual(p90!);
      expect(max).toBeGreaterThanOrEqual(p99!);
    }
    expect(report.digest).toMatch(/^[0-9a-f]{16}$/);
  });

  it('is the same for the same options, apart from real times', async () => {
    const options = [...SMALL, '--abort-rate', '0.2'];
    const [a, b] = [await replay(...options), await replay(...options)];
    expect(deterministic(a)).toEqual(deterministic(b));
    const other = await replay(...options, '--seed', '1');
    expect(other.digest).not.toBe(a.digest);
    const keyed = await replay(...options, '--hash-seed', '0xff');
    expect(keyed.digest).not.toBe(a.digest);
    expect(deterministic({ ...keyed, digest: a.digest, options: a.options })).toEqual(deterministic(a));
  });

  it('counts prefix hits in tokens, each prompt once', async () => {
    const file = trace(
      { input: 1500, output: 3, ids: [1, 2, 3] },
      { timestamp: 60_000, input: 1300, output: 3, ids: [1, 2, 4] },
      { timestamp: 120_000, input: 1024, output: 3, ids: [1, 2] },
      { timestamp: 180_000, input: 1024, output: 3, ids: [9, 2] },
    );
    const coarse = await replay(file, '--block-size', '512', '--num-blocks', '100');
    // The third prompt is cached whole; its last block is computed again.
    expect(coarse.prefixCache).toMatchObject({ queries: 4848, hits: 1024 + 512 });
    expect(coarse.workload).toMatchObject({ file, format: 'mooncake', requests: 4 });
    const fine = await replay(file, '--block-size', '16', '--num-blocks', '1000');
    expect(fine.prefixCache.hits).toBe(1024 + 1008);
    const off = await replay(file, '--no-enable-prefix-caching');
    expect(off.prefixCache).toEqual({ queries: 0, hits: 0, hitRate: 0 });
  });

  it('measures virtual times as the cost model makes them', async () => {
    const file = trace({ input: 300, output: 5, ids: [1] });
    const model = ['--step-overhead-ms', '2', '--prefill-tokens-per-second', '1000', '--weight-bytes', '3e9'];
    const { ttftMs, tpotMs, e2eMs, steps, virtualSeconds } = await replay(
      file,
      ...model,
      '--kv-bytes-per-token',
      '0',
      '--memory-bytes-per-second',
      '1e12',
    );
    expect(ttftMs.max).toBeCloseTo(302, 0);
    expect(tpotMs.max).toBeCloseTo(5, 2);
    expect(e2eMs.max).toBeCloseTo(322, 6);
    expect([steps, virtualSeconds]).toEqual([5, expect.closeTo(0.322, 9)]);
  });
});

describe('requests', () => {
  it('are refused one by one when they do not fit, and the replay goes on', async () => {
    const file = trace(
      { input: 5000, output: 3, ids: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] },
      { input: 100, output: 3, ids: [20] },
      { input: 2000, output: 3, ids: [10, 11, 12, 13] },
    );
    const unfit = { finished: 1, refused: 2, refusedByCode: { ERR_BLOCKSTEP_UNFIT: 2 } };
    expect((await replay(file, '--max-model-len', '1000')).requests).toMatchObject(unfit);
    expect((await replay(file, '--num-blocks', '100')).requests).toMatchObject(unfit);
    const fitting = await replay(file);
    expect(fitting.requests).toMatchObject({ finished: 3, refused: 0 });
    expect(fitting.options['maxModelLen']).toBe(5003);
  });

  it('are aborted in every part of their lives', async () => {
    const { requests, tokens } = await replay(...SMALL, '--requests', '400', '--abort-rate', '0.5');
    expect(requests.aborted).toBeGreaterThan(120);
    expect(requests.finished + requests.aborted).toBe(400);
    const whole = await replay(...SMALL, '--requests', '400');
    expect(tokens.generated).toBeLessThan(whole.tokens.generated);
    expect((await replay(...SMALL, '--abort-rate', '1')).requests).toMatchObject({
      unfinished: 0,
      refused: 0,
    });
  });

  it('that are given up while they wait outside never reach the scheduler', async () => {
    const overload = [...SMALL, '--max-num-seqs', '1', '--speed-up', '1000'];
    const [all, aborted] = [await replay(...overload), await replay(...overload, '--abort-rate', '1')];
    expect(aborted.requests).toMatchObject({ refused: 0, unfinished: 0 });
    expect(aborted.tokens.prompt).toBeLessThan(0.5 * all.tokens.prompt);
  });

  it('arrive sooner with --speed-up', async () => {
    const [slow, fast] = [await replay(...SMALL), await replay(...SMALL, '--speed-up', '100')];
    expect(fast.virtualSeconds).toBeLessThan(slow.virtualSeconds);
    expect(fast.ttftMs.p50!).toBeGreaterThan(slow.ttftMs.p50!);
    expect(fast.tokens).toEqual(slow.tokens);
  });

  it('run one after another with --max-num-seqs 1', async () => {
    const { steps, tokens } = await replay('--requests', '30', '--max-num-seqs', '1');
    expect(steps).toBeGreaterThanOrEqual(tokens.generated);
  });

  it('are preempted and still finish when the pool is small', async () => {
    const report = await replay(...SMALL, '--num-blocks', '400', '--speed-up', '50', '--no-reserve-full-isl');
    expect(report.preemptions).toBeGreaterThan(0);
    expect(report.requests.finished + report.requests.refused).toBe(120);
  });
});

describe('the queue outside of the scheduler', () => {
  it('changes no decision under FCFS', async () => {
    const workload = generateWorkload({ requests: 300, requestRate: 1e6, seed: 4 });
    const config = { numBlocks: 700, maxNumSeqs: 12, maxModelLen: workload.maxTotalTokens, hashSeed: 0 };
    const { now, ...scheduler } = resolveOptions({ ...config, reserveFullIsl: false });
    const model = DEFAULT_COST_MODEL;
    const shared = { model, acceptanceRate: 0, seed: 4 };
    const options: ReplayOptions = { cost: costOf(model), ...shared, scheduler, speedUp: 1e6, abortRate: 0 };
    const replayed = new Replay(workload, options);
    expect(await replayed.run()).toBe(true);

    // The same with every request in the scheduler from the start.
    const clock = (): number => 0;
    const all = new Scheduler({ ...config, reserveFullIsl: false, now: clock });
    const executor = new CostModelExecutor({
      ...shared,
      now: clock,
      maxEntries: config.maxNumSeqs,
      maxDrafts: 0,
      stepsInFlight: 1,
    });
    const step = () => {
      const plan = all.schedule();
      all.update(plan, executor.execute(plan));
    };
    for (let i = 0; i < workload.length; i++) {
      all.add({
        id: `r${i}`,
        prompt: workload.prompt(i),
        maxTokens: workload.outputTokens[i],
        ignoreEos: true,
      });
      // The others arrive while the first step runs.
      if (i === 0) step();
    }
    while (all.hasWork()) step();
    expect(all.stats().numPreemptions).toBeGreaterThan(0);
    expect(replayed.scheduler.stats()).toMatchObject({
      numPreemptions: all.stats().numPreemptions,
      prefixCacheHits: all.stats().prefixCacheHits,
      evictions: all.stats().evictions,
    });
    expect(replayed.scheduler.digest()).toBe(all.digest());
    replayed.dispose();
    all.dispose();
  });
});

describe('steps in flight and speculative decoding', () => {
  it.each(['2', '3'])('gives the same tokens with --pipeline-depth %s, sooner', async (depth) => {
    const [one, deep] = [await replay(...SMALL), await replay(...SMALL, '--pipeline-depth', depth)];
    expect(deep.tokens).toEqual(one.tokens);
    expect(deep.requests).toEqual(one.requests);
    expect(deep.tpotMs.p50!).toBeLessThan(one.tpotMs.p50!);
  });

  it.each([
    ['ngram', '1'],
    ['eagle', '1'],
    ['draft_model', '1'],
    ['eagle', '2'],
    ['draft_model', '2'],
  ])('needs fewer steps with %s drafts at depth %s', async (method, depth) => {
    const drafting = [
      '--num-speculative-tokens',
      '3',
      '--speculative-method',
      method,
      '--pipeline-depth',
      depth,
    ];
    const plain = await replay(...SMALL, '--pipeline-depth', depth);
    const never = await replay(...SMALL, ...drafting, '--acceptance-rate', '0');
    const always = await replay(...SMALL, ...drafting, '--acceptance-rate', '1');
    expect([never.tokens, always.tokens]).toEqual([plain.tokens, plain.tokens]);
    expect(always.tpotMs.p50!).toBeLessThan(0.5 * plain.tpotMs.p50!);
    expect(never.tpotMs.p50!).toBeGreaterThan(0.9 * plain.tpotMs.p50!);
  });
});

describe('an interrupt', () => {
  it('stops the replay and prints what was measured, marked incomplete', async () => {
    const signal = AbortSignal.abort();
    const { code, stdout } = await run(['replay', '--json', '--requests', '50000'], { signal });
    const report = JSON.parse(stdout) as Report;
    expect(code).toBe(130);
    expect(report.incomplete).toBe(true);
    expect(report.requests.unfinished).toBeGreaterThan(0);
    expect(report.steps).toBeGreaterThan(0);
    const table = await run(['replay', '--requests', '50000'], { signal });
    expect(table.stdout).toMatch(/^INCOMPLETE/);
  });

  it('while the trace is read leaves nothing to print', async () => {
    const file = trace(...Array.from({ length: 2000 }, (_, id) => ({ input: 9, output: 1, ids: [id] })));
    const { code, stdout, stderr } = await run(['replay', '--json', file], { signal: AbortSignal.abort() });
    expect({ code, stdout, stderr }).toEqual({
      code: 130,
      stdout: '',
      stderr: 'interrupted while the trace was read: nothing ran\n',
    });
  });
});
