// Texts through three stages, streams, sessions, the end.
import { describe, expect, it } from 'vitest';
import { ReferenceExecutor } from '../../src/executors/reference/reference-executor.js';
import type { PipelineOutput } from '../../src/pipeline/orchestrator/outputs.js';
import { Pipeline } from '../../src/pipeline/pipeline.js';
import type { StageOptions } from '../../src/pipeline/stage/stage-options.js';
import { rejection } from '../support/engine-bench.js';
import { unpagedText, wordy } from '../support/unpaged-text.js';
import { ByHand, Clock, codeOf, drive, pipelineOf, SIZES, stageOf } from './bench.js';

/** The text of every stage by hand: answers to the prompt and to each piece of the answers before. */
function byHand(
  inputs: readonly (readonly number[])[],
  chunkTokens: number,
  maxTokens: readonly number[],
  isWhole: number,
) {
  let given = inputs;
  return maxTokens.map((most, seed) => {
    let text: number[] = [];
    const answers = given.map((chunk) => {
      text = seed === isWhole ? [...chunk] : [...text.slice(0, -1), ...chunk];
      const answer = unpagedText(Int32Array.from(text), seed === isWhole ? 1 : most, { seed });
      text = [...text, ...answer];
      return answer;
    });
    given = answers.flatMap((answer) =>
      Array.from({ length: Math.ceil(answer.length / chunkTokens) }, (_, i) =>
        answer.slice(i * chunkTokens, (i + 1) * chunkTokens),
      ),
    );
    return answers.flat();
  });
}

describe('texts through three stages', () => {
  for (const pipelineDepth of [1, 2, 3] as const)
    for (const enablePrefixCaching of [false, true])
      it(`are those by hand at depth ${pipelineDepth}, ${enablePrefixCaching ? 'with' : 'without'} prefix caching, in tiny pools`, async () => {
        const engine = (seed: number, isWhole: boolean) => {
          const sizes = { ...SIZES, numBlocks: 25, maxNumSeqs: 6, pipelineDepth };
          const cached = isWhole ? {} : { enablePrefixCaching };
          return { ...sizes, ...cached, executor: new ReferenceExecutor({ ...sizes, seed }) };
        };
        const pipeline = new Pipeline({
          stages: [
            { name: 'a', chunkTokens: 3, engine: engine(0, false), maxChunksAhead: 2 },
            { name: 'b', chunkTokens: 3, engine: engine(1, false), maxChunksAhead: 2 },
            { name: 'c', kind: 'generation', engine: engine(2, true) },
          ],
        });
        const names = ['a', 'b', 'c'];
        const requests = Array.from({ length: 24 }, (_, i) => {
          const prompt = wordy(4 + (i % 20), i % 3);
          const maxTokens = [4 + (i % 9), 1 + (i % 5), 1];
          const stages = { a: { maxTokens: maxTokens[0] }, b: { maxTokens: maxTokens[1] } };
          const stream = pipeline.submit({ prompt, stages }, { outputs: names });
          return { stream, expected: byHand([[...prompt]], 3, maxTokens, 2) };
        });
        await drive(pipeline);
        for (const { stream, expected } of requests) {
          const { stages, tokens } = await stream.result();
          expect(names.map((name) => [...(stages[name].tokens ?? [])])).toEqual(expected);
          expect([...tokens]).toEqual(expected[2]);
        }
        const stats = pipeline.stats();
        const [a, b] = names.map((name) => stats.stages[name]) as {
          engine: { scheduler: { numPreemptions: number } };
        }[];
        expect(a.engine.scheduler.numPreemptions + b.engine.scheduler.numPreemptions).toBeGreaterThan(0);
        expect(stats).toMatchObject({ completed: 24, aborted: 0, failed: 0, lateOutputs: 0 });
        expect(stats.anomalies).toEqual({});
        pipeline.verify();
        await pipeline.shutdown();
      });

  it('carry the extras of an executor from stage to stage', async () => {
    const heard: unknown[] = [];
    const options = stageOf('a');
    const reference = options.engine.executor as ReferenceExecutor;
    const { execute } = reference;
    reference.execute = (plan, tables) => {
      const answer = execute.call(reference, plan, tables) as { tokens: Int32Array; counts: Int32Array };
      return { ...answer, extras: Array.from(answer.tokens, (token) => `h${token}`) };
    };
    const input: StageOptions['input'] = ({ tokens, extras, number, isLast, id }) => {
      heard.push([id, number, [...tokens], extras, isLast]);
      return tokens.length === 0 ? null : { prompt: tokens };
    };
    const pipeline = new Pipeline({ stages: [options, stageOf('b', 1, { input })] });
    const { stages } = await (async () => {
      const stream = pipeline.submit({ id: 'x', prompt: [1, 2, 3], maxTokens: 4 }, { outputs: ['a'] });
      await drive(pipeline);
      return stream.result();
    })();
    const text = [...(stages['a'].tokens ?? [])];
    expect(stages['a'].extras).toEqual(text.map((token) => `h${token}`));
    expect(heard).toEqual([
      ['x', 1, text.slice(0, 3), text.slice(0, 3).map((token) => `h${token}`), false],
      ['x', 2, text.slice(3), text.slice(3).map((token) => `h${token}`), false],
      ['x', 3, [], [], true],
    ]);
    await pipeline.shutdown();
  });
});

describe('a stream of a pipeline', () => {
  const two = () => pipelineOf([{}, {}]);

  it('has one reader, who ends with the last output; the result is independent of reading', async () => {
    const pipeline = two();
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 6 });
    const reader = stream[Symbol.asyncIterator]();
    expect(codeOf(() => stream[Symbol.asyncIterator]())).toBe('ERR_BLOCKSTEP_BUSY');
    await drive(pipeline);
    const result = await stream.result();
    expect(stream.result()).toBe(stream.result());
    const tokens: number[] = [];
    let last: PipelineOutput | undefined;
    for await (const output of reader) {
      tokens.push(...output.tokens);
      last = output;
    }
    expect(tokens).toEqual([...result.tokens]);
    expect(last).toMatchObject({ stage: 'b', finishReason: 'length', continues: false });
    for await (const _ of stream) throw new Error('there is nothing more to read');
    await pipeline.shutdown();
  });

  it('is aborted in all stages by a reader who leaves', async () => {
    const pipeline = two();
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 30 });
    const reading = (async () => {
      for await (const _ of stream) break;
    })();
    await drive(pipeline, () => stream.ended);
    await reading;
    expect((await stream.result()).finishReason).toBe('abort');
    expect(codeOf(() => stream[Symbol.asyncIterator]())).toBe('ERR_BLOCKSTEP_BUSY');
    await drive(pipeline);
    expect(pipeline.stats()).toMatchObject({
      aborted: 1,
      requests: 0,
      stages: { a: { requests: 0 }, b: { requests: 0 } },
    });
    await pipeline.shutdown();
  });

  it('is rejected with the reason of its abort, and without what was not read', async () => {
    const pipeline = two();
    const stream = pipeline.submit({ id: 'x', prompt: [1, 2, 3], maxTokens: 6 });
    for (let i = 0; i < 6; i++) await pipeline.step();
    const reason = { why: 'enough' };
    pipeline.abort(['x', 'never'], reason);
    expect(await rejection(stream.result())).toBe(reason);
    expect(await rejection(stream[Symbol.asyncIterator]().next())).toBe(reason);
    expect(pipeline.stats().anomalies).toEqual({ 'abort-unknown': 1 });
    for (const ids of [5, null, [7], [Symbol('x')], {}] as never[])
      expect(codeOf(() => pipeline.abort(ids))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    await pipeline.shutdown();
  });

  it('waits for a slow reader with all that has come, each answer with its end', async () => {
    const pipeline = two();
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 9, stages: { b: { maxTokens: 2 } } });
    await drive(pipeline);
    const outputs: PipelineOutput[] = [];
    for await (const output of stream) outputs.push(output);
    expect(outputs.map(({ tokens, continues }) => [tokens.length, continues])).toEqual([
      [2, true],
      [2, true],
      [2, true],
      [0, false],
    ]);
    await pipeline.shutdown();
  });
});

describe('sessions across stages', () => {
  it('answer each input in all stages, and end with the last one', async () => {
    const pipeline = pipelineOf([{}, {}, { kind: 'generation' }]);
    const inputs = [
      [1, 2, 1],
      [3, 3, 4],
      [5, 1],
    ];
    const stream = pipeline.submit(
      { id: 's', prompt: inputs[0], maxTokens: 5, resumable: true },
      { outputs: ['a', 'b', 'c'] },
    );
    await drive(pipeline, () => true);
    expect(await pipeline.explain('s')).toMatch(
      /^request "s": a: waits for chunk 1 of the client, \d+ ms; b: waits for chunk 3 of a, \d+ ms; c: waits for chunk 5 of b, \d+ ms$/,
    );
    expect([stream.addChunk({ prompt: inputs[1] }), stream.addChunk({ prompt: inputs[2] })]).toEqual([
      'sent',
      'sent',
    ]);
    await drive(pipeline, () => true);
    expect([stream.ended, stream.endInput(), stream.endInput()]).toEqual([false, 'sent', 'skipped']);
    expect(stream.addChunk({ prompt: [1] })).toBe('skipped');
    await drive(pipeline);
    const { stages, finishReason } = await stream.result();
    expect(finishReason).toBe('stop');
    const expected = byHand(inputs, 3, [5, 4, 1], 2);
    expect(['a', 'b', 'c'].map((name) => [...(stages[name].tokens ?? [])])).toEqual(expected);
    expect(pipeline.stats().anomalies).toEqual({ 'chunk-after-end': 2 });
    await pipeline.shutdown();
  });

  const moments = {
    'while it waits for input': async (pipeline: Pipeline) => drive(pipeline, () => true),
    'with queued input': async (pipeline: Pipeline, feed: () => void) => {
      await pipeline.step();
      for (let i = 0; i < 4; i++) feed();
      await pipeline.step();
    },
    'while it runs': async (pipeline: Pipeline, feed: () => void) => {
      await drive(pipeline, () => true);
      feed();
      for (let i = 0; i < 3; i++) await pipeline.step();
    },
    'before any step': async () => {},
  };
  for (const [moment, when] of Object.entries(moments))
    it(`can be aborted ${moment}: no stage keeps anything, no counter drifts, and a late chunk is skipped`, async () => {
      const pipeline = pipelineOf([{}, {}, { kind: 'generation' }]);
      for (let round = 0; round < 10; round++) {
        const stream = pipeline.submit({ id: 's', prompt: [1, 2, 1], maxTokens: 5, resumable: true });
        await when(pipeline, () => stream.addChunk({ prompt: [3] }));
        stream.abort();
        expect([stream.addChunk({ prompt: [4] }), stream.endInput()]).toEqual(['skipped', 'skipped']);
        expect((await stream.result()).finishReason).toBe('abort');
      }
      const after = pipeline.submit({ id: 's', prompt: [1, 2, 1], maxTokens: 5 });
      await drive(pipeline);
      expect([...(await after.result()).tokens]).toEqual(byHand([[1, 2, 1]], 3, [5, 4, 1], 2)[2]);
      const { stages, anomalies } = pipeline.stats();
      expect(anomalies).toEqual({ 'chunk-finished': 20 });
      for (const stage of Object.values(stages)) expect(stage).toMatchObject({ requests: 0, parked: 0 });
      pipeline.verify();
      await pipeline.shutdown();
    });

  it('that hear nothing more from their client end at stallMs, in the stage that waits', async () => {
    const clock = new Clock();
    const pipeline = pipelineOf([{ stallMs: 500 }, { stallMs: 900 }], { now: clock.now });
    const stream = pipeline.submit({ id: 's', prompt: [1, 2], maxTokens: 2, resumable: true });
    await drive(pipeline, () => true);
    const begun = clock.ms;
    while (pipeline.numUnfinished > 0) {
      clock.ms = pipeline.nextDeadline;
      await drive(pipeline, () => true);
    }
    expect(clock.ms - begun).toBe(500);
    expect(String(await rejection(stream.result()))).toBe(
      'BlockstepError: request "s" failed in stage a: request "s" waits for chunk 1 of the client, 500 ms: stallMs of stage a is 500',
    );
    await pipeline.shutdown();
  });
});

describe('the health of a pipeline', () => {
  it('is that of its stages, in every state, and says which of them is not well', async () => {
    const options = stageOf('a');
    (options.engine.executor as { execute: unknown }).execute = () => new Promise(() => {});
    const clock = new Clock();
    const engine = { ...options.engine, executorTimeoutMs: 10, now: clock.now };
    const pipeline = new Pipeline({ stages: [{ ...options, engine }, stageOf('b')] });
    expect(pipeline.health()).toEqual({ healthy: true, state: 'open', reasons: [] });
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 6 });
    for (let i = 0; i < 2; i++) await pipeline.step();
    expect(pipeline.health()).toMatchObject({ healthy: true });
    clock.ms += 11;
    const hung = { healthy: false, reasons: [expect.stringMatching(/^stage a: .*executor/)] };
    // The hung executor is reported before the next step breaks the engine.
    expect(pipeline.health()).toEqual({ ...hung, state: 'open' });
    await rejection(pipeline.step());
    expect(pipeline.health()).toEqual({ ...hung, state: 'broken' });
    await rejection(stream.result());
    await pipeline.shutdown();
    expect(pipeline.health()).toEqual({
      ...{ healthy: false, state: 'disposed', reasons: ['the pipeline was shut down'] },
    });
  });

  it('is well while it drains, and unhealthy while a stage elsewhere does not answer', async () => {
    const post = new ByHand();
    const clock = new Clock();
    const remote = { name: 'b', remote: true as const };
    const limits = { pingMs: 100, deadMs: 1000, now: clock.now };
    const pipeline = new Pipeline({ stages: [stageOf('a'), remote], transport: post, ...limits });
    const pass = async (ms: number): Promise<void> => {
      clock.ms += ms;
      await pipeline.step();
    };
    const pong = (stage: string, ...troubles: string[]): void => {
      const { number } = post.drain('ping')[0];
      const figures = { requests: 0, parked: 0, chunksIn: 0, chunksOut: 0, troubles };
      post.tell(post.client, { kind: 'pong', stage, number, keys: [], figures });
    };
    await pass(0);
    for (let i = 0; i < 10; i++) await pass(100);
    expect(pipeline.health()).toEqual({
      ...{ healthy: false, state: 'open' },
      reasons: expect.arrayContaining(['stage b: it has not answered for 1000 ms']),
    });
    pong('b', 'a step broke off');
    expect(pipeline.health()).toEqual({
      ...{ healthy: false, state: 'open' },
      reasons: ['stage b: a step broke off'],
    });
    await pass(100);
    pong('b');
    await pass(0);
    expect(pipeline.health().reasons.join()).toBe('');
    const end = pipeline.shutdown();
    expect(pipeline.health().state).toBe('draining');
    await end;
    expect(pipeline.health().state).toBe('disposed');
  });
});

describe('the end of a pipeline', () => {
  it('lets requests end, refuses new ones, and ends all engines', async () => {
    const pipeline = pipelineOf([{}, {}]);
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 6 });
    const end = pipeline.shutdown();
    expect(pipeline.shutdown()).toBe(end);
    expect(codeOf(() => pipeline.submit({ prompt: [1] }))).toBe('ERR_BLOCKSTEP_SHUTDOWN');
    expect(codeOf(() => pipeline.run())).toBe('ERR_BLOCKSTEP_SHUTDOWN');
    await end;
    expect((await stream.result()).finishReason).toBe('length');
    expect(codeOf(() => pipeline.stats())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('aborts what has not ended within drainMs, which a later call can shorten', async () => {
    const pipeline = pipelineOf([{}, {}]);
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 6, resumable: true });
    const end = pipeline.shutdown({ drainMs: 1e6 });
    void pipeline.shutdown({ drainMs: 0 });
    await end;
    expect((await stream.result()).finishReason).toBe('abort');
  });

  it('comes for all stages, also where one of them is broken', async () => {
    const options = stageOf('a');
    (options.engine.executor as { execute: unknown }).execute = () => new Promise(() => {});
    const clock = new Clock();
    const other = stageOf('b');
    const pipeline = new Pipeline({
      stages: [{ ...options, engine: { ...options.engine, executorTimeoutMs: 10, now: clock.now } }, other],
    });
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 6 });
    // The first round brings the request to its stage, the second one submits its step.
    for (let i = 0; i < 2; i++) await pipeline.step();
    clock.ms += 11;
    let failure: unknown;
    for (let i = 0; i < 5; i++)
      await pipeline.step().catch((error: unknown) => {
        failure = error;
      });
    expect(failure).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    // The other stage has had its turn all the same, and so has dropped the request.
    const { engine } = pipeline.stats().stages['b'] as { engine: { abortsQueued: number } };
    expect(engine.abortsQueued).toBe(0);
    const next = pipeline.submit({ prompt: [1], maxTokens: 1 });
    pipeline.run();
    expect(await rejection(next.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    await pipeline.shutdown();
    expect(() => (other.engine.executor as { kv?: unknown }).kv).toThrow(/disposed/);
  });

  it('drives itself', async () => {
    const pipeline = pipelineOf([{}, {}, { kind: 'generation' }]);
    pipeline.run();
    const stream = pipeline.submit({ prompt: [1, 2, 1], maxTokens: 5 });
    expect([...(await stream.result()).tokens]).toEqual(byHand([[1, 2, 1]], 3, [5, 4, 1], 2)[2]);
    pipeline.stop();
    await pipeline.shutdown();
  });
});

it('leaves nothing behind, whenever a request is aborted', async () => {
  const pipeline = pipelineOf([{ maxChunksAhead: 1 }, { maxChunksAhead: 1 }, { kind: 'generation' }]);
  const engines: unknown[] = [];
  for (let steps = 0; steps < 40; steps++) {
    const stream = pipeline.submit({ id: 'same', prompt: [1, 2, 1], maxTokens: 8 });
    for (let i = 0; i < steps; i++) await pipeline.step();
    stream.abort();
    engines.push(stream.ended);
  }
  await drive(pipeline);
  const { stages } = pipeline.stats();
  for (const stage of Object.values(stages)) {
    expect(stage).toMatchObject({ requests: 0, parked: 0 });
    const { scheduler } = (stage as { engine: { scheduler: { freeBlocks: number; anomalies: object } } })
      .engine;
    expect(scheduler).toMatchObject({ freeBlocks: SIZES.numBlocks - 1 });
    expect(scheduler.anomalies).toEqual({});
  }
  await pipeline.shutdown();
});
