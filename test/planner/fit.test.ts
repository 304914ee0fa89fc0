// Fits return known coefficients, from iterations and from times of requests; differences are
// named, and impossible input is refused.
import { describe, expect, it } from 'vitest';
import { calibrate } from '../../src/planner/calibrate.js';
import { readIterationLog } from '../../src/planner/fit/iteration-log.js';
import { solve } from '../../src/planner/fit/least-squares.js';
import { readRequestLog } from '../../src/planner/fit/request-log.js';
import { parseProfile } from '../../src/planner/model/profile.js';
import { Workload } from '../../src/workload/workload.js';
import { asVllmBench, measure, PRIOR, requests, SCHEDULER, TRUTH } from './truth.js';

describe('least squares with a prior', () => {
  const prior = { mean: 0, spread: 1, min: -5, max: 5 };
  const problem = {
    priors: [prior, prior, prior],
    noise: 0.01,
    difference: 1e-4,
    // The first two are determined, the third is nowhere in the data; one point is far off.
    residuals: ([a, b]: Float64Array) =>
      Float64Array.from(
        { length: 50 },
        (_, i) => (i === 7 ? 40 : Math.exp(a) * i + Math.exp(b) - (3 * i + 2)) / 10,
      ),
  };

  it('finds what the data determine, leaves the rest, and is not drawn away by a point', () => {
    const { logs, deviations } = solve(problem, new Float64Array(3), 200);
    expect(Math.exp(logs[0])).toBeCloseTo(3, 2);
    expect(Math.exp(logs[1])).toBeCloseTo(2, 1);
    expect(logs[2]).toBe(0);
    expect(deviations[0]).toBeLessThan(0.05);
    expect(deviations[2]).toBeCloseTo(1, 6);
  });

  it('stays within bounds, and ends with its evaluations or a signal', () => {
    const priors = [{ ...prior, max: 0.5 }, prior, prior];
    expect(solve({ ...problem, priors }, new Float64Array(3), 200).logs[0]).toBe(0.5);
    expect(solve(problem, new Float64Array(3), 12).tried.length).toBeLessThanOrEqual(16);
    const reason = new Error('enough');
    expect(() => solve(problem, new Float64Array(3), 12, AbortSignal.abort(reason))).toThrow(reason);
  });
});

describe('a log of iterations', () => {
  const workload = requests(60, 8);
  const input = { prior: PRIOR, name: 'vllm.log', requests: workload, scheduler: SCHEDULER };

  it('is decided again step by step, and gives the coefficients back', async () => {
    const { log } = measure(workload, { noise: 0.02 });
    const { profile, steps, priorErrors, form } = await calibrate({ ...input, text: log });
    expect(form).toBe('iterations');
    expect(steps).toMatchObject({ difference: null, equalSteps: steps?.steps });
    expect(profile.fit.errors.stepMs).toBeLessThan(0.012);
    expect(priorErrors.stepMs).toBeGreaterThan(0.1);
    const determined = (['memory', 'compute', 'decodeAttention'] as const).filter(
      (name) => !profile.fit.undetermined.includes(name),
    );
    expect(determined).toContain('compute');
    for (const name of determined) expect(profile.coefficients[name] / TRUTH[name]).toBeCloseTo(1, 0);
    expect(profile.fit.ensemble.length).toBeGreaterThan(2);
    expect(parseProfile(JSON.parse(JSON.stringify(profile)))).toEqual(profile);
    expect(profile.provenance.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it('is followed by preemptions too', async () => {
    const scheduler = { ...SCHEDULER, numBlocks: 500, maxNumSeqs: 16 };
    const { log } = measure(workload, { scheduler });
    const { steps } = await calibrate({ ...input, scheduler, text: log });
    expect(steps?.difference).toBeNull();
  });

  it('is followed although requests come late, and although time passes between its steps', async () => {
    const late = new Workload(
      { ...workload.columns, arrivalMs: workload.arrivalMs.map((ms, i) => ms + ((i * 7) % 23)) },
      0,
    );
    const { log } = measure(late, { noise: 0.02, betweenMs: 1.3 });
    const { steps, profile } = await calibrate({ ...input, text: log });
    expect(steps).toMatchObject({ difference: null, equalSteps: steps?.steps });
    expect(profile.fit.errors.stepMs).toBeLessThan(0.02);
  });

  it('names the first step that differs, where the server had other options', async () => {
    const { log } = measure(workload, { scheduler: { ...SCHEDULER, maxNumSeqs: 25 } });
    const { steps, profile } = await calibrate({ ...input, text: log });
    const { difference, equalSteps } = steps!;
    expect(difference).toMatchObject({ step: equalSteps, line: equalSteps + 2 });
    expect(difference!.ours!.generationRequests + difference!.ours!.contextRequests).toBe(26);
    expect(profile.fit.errors.heldOut).toBeLessThan(equalSteps);
    const other = calibrate({ ...input, text: log, requests: requests(60, 8, 9) });
    await expect(other).rejects.toThrow(
      /at least 50 equal steps, got 0; step 0 \(line 2\) differs: the log has/,
    );
  });

  it('is refused where its times are none of steps', async () => {
    const { log } = measure(workload);
    const text = log.replaceAll(/elapsed time: [\d.]+/g, 'elapsed time: 0.03');
    const fast = calibrate({ ...input, text });
    await expect(fast).rejects.toThrow(/are shorter than the .* ms in which the GPU can read the weights/);
    await expect(calibrate({ ...input, text: log, requests: null })).rejects.toThrow(/requests must be/);
  });

  it('is refused where it is none', () => {
    const good =
      'x Iteration(3): 1 context requests, 5 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 4.5 ms';
    expect(readIterationLog(`noise\n${good}`, 'a.log')).toEqual([
      {
        line: 2,
        contextRequests: 1,
        contextTokens: 5,
        generationRequests: 0,
        generationTokens: 0,
        elapsedMs: 4.5,
      },
    ]);
    expect(() => readIterationLog('noise', 'a.log')).toThrow(/--enable-logging-iteration-details/);
    expect(() => readIterationLog(good.slice(0, 40), 'a.log')).toThrow(/a.log:1: expected a whole line/);
    expect(() => readIterationLog(`${good}\n${good}`, 'a.log')).toThrow(
      /a.log:2: .*log must be of one engine/,
    );
  });

  it('is read as vLLM has written it before and since June 2026', () => {
    const counts = (n: number) =>
      `Iteration(${n}): 2 context requests, 30 context tokens, 4 generation requests, 4 generation tokens, iteration elapsed time: 12.34 ms`;
    const older = (n: number) => `(EngineCore_DP0 pid=77) INFO 01-15 10:00:00 [core.py:367] ${counts(n)}`;
    const since = (n: number, engine = '000', rest = '') =>
      `(APIServer pid=7) INFO 07-15 10:00:00 [loggers.py:182] Engine ${engine}: ${counts(n)}, GPU KV cache usage: 0.1%${rest}`;
    const dummy = since(1)
      .replace('2 context requests, 30', '0 context requests, 0')
      .replace('4 gen', '0 gen');
    const read = (...lines: string[]) =>
      readIterationLog(lines.join('\n'), 'a.log').map(
        ({ line, contextTokens, generationRequests, elapsedMs }) => [
          line,
          contextTokens,
          generationRequests,
          elapsedMs,
        ],
      );
    const step = (line: number) => [line, 30, 4, 12.34];
    expect(read(older(0), older(1))).toEqual([step(1), step(2)]);
    expect(read(since(0), dummy.replace('4 generation tokens', '0 generation tokens'), since(2))).toEqual([
      step(1),
      step(3),
    ]);
    // A drafting model of a fork counts its own iterations.
    expect(read(since(0), `Draft${counts(1)}`, since(1))).toEqual([step(1), step(3)]);
    expect(() => read(since(0), since(1, '001'))).toThrow(
      /a.log:2: .*got an iteration of another engine .001.: the log must/,
    );
    expect(() => read(since(0, '000', ', encoder inputs: 4, encoder output embeddings: 3520'))).toThrow(
      /without encoder inputs/,
    );
    expect(read(since(0, '000', ', encoder inputs: 0, encoder output embeddings: 0'))).toEqual([step(1)]);
  });
});

describe('results of a load generator', () => {
  const workload = requests(60, 6);
  const { times } = measure(workload, { noise: 0.03 });

  it('are fitted with the scheduler in the loop, and predict what was held out', async () => {
    const text = asVllmBench(workload, times);
    const done: number[] = [];
    const { profile, priorErrors, form, left } = await calibrate({
      prior: PRIOR,
      name: 'bench.json',
      text,
      scheduler: SCHEDULER,
      onProgress: (at) => done.push(at),
    });
    expect([form, left]).toEqual(['vllm bench serve --save-detailed', 0]);
    expect(priorErrors.e2e).toBeGreaterThan(0.1);
    expect(profile.fit.errors.e2e).toBeLessThan(0.01);
    expect(profile.fit.errors.heldOut).toBe(30);
    expect(profile.fit.ensemble.length).toBeGreaterThan(1);
    expect(done).toEqual([1, 2, 3]);
    expect(profile.seen!.rows[1]).toBeGreaterThan(5);
    for (const name of profile.fit.undetermined) expect(name in TRUTH).toBe(true);
  });

  it('are refused where the GPU could not be so fast', async () => {
    const firstMs = workload.arrivalMs.map((ms) => ms + 50);
    const lastMs = firstMs.map((ms, i) => ms + 2 * (workload.outputTokens[i] - 1));
    const text = asVllmBench(workload, { firstMs, lastMs });
    await expect(calibrate({ prior: PRIOR, name: 'b', text, scheduler: SCHEDULER })).rejects.toThrow(
      /of \d+ times between tokens are shorter than the .* ms in which the GPU .* of another model or GPU/,
    );
  });

  it('stop with a signal', async () => {
    const text = asVllmBench(workload, times);
    const signal = AbortSignal.abort(new Error('enough'));
    const input = { prior: PRIOR, name: 'b', text, scheduler: SCHEDULER, signal };
    await expect(calibrate(input)).rejects.toThrow('enough');
  });

  it('are read in all their forms alike', () => {
    const rows = Array.from({ length: workload.length }, (_, i) => ({
      at: workload.arrivalMs[i] + 5000,
      first: times.firstMs[i] + 5000,
      last: times.lastMs[i] + 5000,
      input: workload.inputTokens[i],
      output: workload.outputTokens[i],
    }));
    const guide = rows.map(({ at, first, last, input, output }) => ({
      prompt_tokens: input,
      output_tokens: output,
      info: {
        timings: {
          request_start: at / 1e3,
          first_token_iteration: first / 1e3,
          last_token_iteration: last / 1e3,
        },
      },
    }));
    const ai = rows.map(({ at, first, last, input, output }) => ({
      metadata: { request_start_ns: at * 1e6, benchmark_phase: 'profiling', was_cancelled: false },
      metrics: {
        input_sequence_length: { value: input },
        output_sequence_length: { value: output },
        time_to_first_token: { value: first - at, unit: 'ms' },
        request_latency: { value: last - at, unit: 'ms' },
      },
    }));
    const warmup = { ...ai[0], metadata: { ...ai[0].metadata, benchmark_phase: 'warmup' } };
    const engine = rows.map(({ at, first, last, input, output }) => ({
      queued_ts: at / 1e3,
      first_token_ts: first / 1e3,
      last_token_ts: last / 1e3,
      input_toks: input,
      output_toks: output,
    }));
    const lines = (list: unknown[]) => list.map((each) => JSON.stringify(each)).join('\n');
    const texts: [string, number][] = [
      [asVllmBench(workload, times), 0],
      [JSON.stringify({ benchmarks: [{ requests: { successful: guide } }] }), 0],
      [lines([warmup, ...ai]), 1],
      [lines(engine), 0],
    ];
    for (const [text, without] of texts) {
      const { workload: read, times: found, left } = readRequestLog(text, 'f');
      expect([read.length, left]).toEqual([60, without]);
      expect(read.inputTokens).toEqual(workload.inputTokens);
      for (const i of [0, 20, 59]) {
        expect(read.arrivalMs[i]).toBeCloseTo(workload.arrivalMs[i] - workload.arrivalMs[0], 3);
        expect(found.firstMs[i]).toBeCloseTo(times.firstMs[i] - workload.arrivalMs[0], 3);
        expect(found.lastMs[i]).toBeCloseTo(times.lastMs[i] - workload.arrivalMs[0], 3);
      }
    }
  });

  it('are refused without times, with impossible ones, and if they are few', () => {
    const good = JSON.parse(asVllmBench(workload, times)) as Record<string, unknown[]>;
    const text = (change: object) => () => readRequestLog(JSON.stringify({ ...good, ...change }), 'b.json');
    expect(text({ start_times: undefined })).toThrow(
      /b.json: expected results of .*with the times of each request/,
    );
    expect(text({ ttfts: good['ttfts'].map(() => -1) })).toThrow(
      /request 0: expected lengths .* times in their order/,
    );
    expect(text({ errors: good['errors'].map((_, i) => (i > 3 ? 'gone' : '')) })).toThrow(
      /at least 20 requests with tokens, got 4/,
    );
    expect(() => readRequestLog('{"a": 1}\nx', 'b.json')).toThrow(/b.json:2: expected JSON/);
  });
});

describe('a calibration', () => {
  it('refuses priors that are tables, and shares of nothing', async () => {
    const input = { prior: PRIOR, name: 'b', text: '{}', scheduler: SCHEDULER };
    const table = { ...PRIOR, kind: 'table' } as never;
    await expect(calibrate({ ...input, prior: table })).rejects.toThrow(/prior must be a roofline/);
    await expect(calibrate({ ...input, share: 0 })).rejects.toThrow(/share must be/);
  });
});
