// One `step()`: its order of work, steps in flight, and the state that it reports.
import { describe, expect, it } from 'vitest';
import type { ExecutorPlan, StepTables } from '../../../src/index.js';
import {
  answerOf,
  EngineBench,
  leftovers,
  outputs,
  prompt,
  settled,
  tokensOf,
} from '../../support/engine-bench.js';

describe('a step', () => {
  it('schedules, executes and delivers at once when the executor answers at once', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 2 });
    expect(bench.engine.step()).toEqual({
      scheduledRequests: 1,
      scheduledTokens: 6,
      answered: true,
      ended: 0,
      stepsInFlight: 0,
      state: 'progress',
    });
    expect(bench.engine.step()).toMatchObject({ scheduledTokens: 1, answered: true, ended: 1 });
    expect(bench.steps()).toBe('idle');
    const all = await outputs(stream);
    expect(tokensOf(all)).toEqual([600, 700]);
    expect(all.at(-1)?.finishReason).toBe('length');
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('never waits: it submits, and takes the answer when it is there', async () => {
    const bench = new EngineBench({}, true);
    bench.submit({ id: 'a', maxTokens: 1 });
    expect(bench.engine.step()).toMatchObject({
      scheduledTokens: 6,
      answered: false,
      stepsInFlight: 1,
      state: 'progress',
    });
    expect(bench.engine.step()).toMatchObject({
      scheduledTokens: 0,
      answered: false,
      stepsInFlight: 1,
      state: 'waiting',
    });
    await bench.executor.deliver();
    expect(bench.engine.step()).toMatchObject({
      answered: true,
      ended: 1,
      stepsInFlight: 0,
      state: 'progress',
    });
    expect(bench.steps()).toBe('idle');
    expect(bench.executor.seen).toHaveLength(1);
  });

  it.each([1, 2, 3] as const)(
    'at depth %i has that many steps in flight, and takes them in order',
    async (depth) => {
      const bench = new EngineBench({ pipelineDepth: depth }, true);
      const stream = bench.submit({ id: 'a', maxTokens: 8 });
      bench.steps();
      expect(bench.executor.pending).toHaveLength(depth);
      expect(bench.engine.stats().stepsInFlight).toBe(depth);
      // The youngest is answered first: nothing can be taken yet.
      const youngest = bench.executor.pending.at(-1)!;
      if (depth > 1) {
        bench.executor.pending.pop();
        youngest.resolve(youngest.answer);
        await settled();
        expect(bench.engine.step().state).toBe('waiting');
        expect(stream.numOutputTokens).toBe(0);
      }
      while (!stream.ended) {
        await bench.executor.deliver();
        bench.steps();
      }
      expect(tokensOf(await outputs(stream))).toEqual(Array.from({ length: 8 }, (_, i) => 600 + 100 * i));
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    },
  );

  it('keeps plans in flight readable while later ones are made', () => {
    const bench = new EngineBench({ pipelineDepth: 3 }, true);
    const plans: ExecutorPlan[] = [];
    bench.executor.onExecute = (plan) => plans.push(plan);
    bench.submit({ id: 'a', maxTokens: 8 });
    bench.steps();
    expect(plans.map(({ step }) => step)).toEqual([0, 1, 2]);
    expect(plans.map((plan) => plan.numComputedTokens[0])).toEqual([0, 6, 7]);
    expect(new Set(plans.map(({ frame }) => frame)).size).toBe(3);
  });

  it('never hands an empty plan to the executor, and tells it later what that said', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a', maxTokens: 1 });
    expect(bench.steps()).toBe('idle');
    bench.submit({ id: 'b', maxTokens: 2 });
    bench.steps();
    bench.submit({ id: 'c', maxTokens: 1 });
    bench.steps();
    expect(bench.executor.seen.map(({ ids, finished }) => ({ ids, finished }))).toEqual([
      { ids: ['a'], finished: [] },
      { ids: ['b'], finished: ['a'] },
      { ids: ['b'], finished: [] },
      { ids: ['c'], finished: ['b'] },
    ]);
  });

  it('tells the executor of a preemption that left nothing to execute', () => {
    const bench = new EngineBench({ numBlocks: 9, enablePrefixCaching: false });
    const held = bench.submit({ id: 'held', prompt: prompt(20), maxTokens: 1 });
    bench.engine.hold(held.handle, 'store', 'job');
    bench.steps();
    // Three blocks of four are free: the twelfth token is the last that has a place.
    const stream = bench.submit({ id: 'a', prompt: prompt(8, 1), maxTokens: 12 });
    expect(bench.steps()).toBe('stalled');
    expect([bench.engine.stats().scheduler.numPreemptions, stream.numOutputTokens]).toEqual([1, 5]);
    bench.engine.complete(held.handle, 'store', 'job');
    bench.steps();
    const told = bench.executor.seen.filter(({ preempted }) => preempted.length > 0);
    expect(told.map(({ preempted, ids }) => [preempted, ids])).toEqual([[['a'], ['a']]]);
    expect(stream.numOutputTokens).toBe(12);
  });

  it('tells the executor of every end and every preemption exactly once', () => {
    const bench = new EngineBench({ numBlocks: 9 });
    for (let i = 0; i < 12; i++) bench.submit({ id: `r${i}`, prompt: prompt(9, i), maxTokens: 9 });
    bench.steps();
    bench.submit({ id: 'last', maxTokens: 1 });
    bench.steps();
    const { seen } = bench.executor;
    const finished = seen.flatMap((one) => one.finished);
    expect(finished.sort()).toEqual(Array.from({ length: 12 }, (_, i) => `r${i}`).sort());
    const preempted = seen.flatMap((one) => one.preempted);
    expect(preempted.length).toBe(bench.engine.stats().scheduler.numPreemptions);
    expect(preempted.length).toBeGreaterThan(0);
  });

  it('tells the executor of an id once and of every handle, also of those that plans without work told of', () => {
    const bench = new EngineBench();
    const seen: [string[], number[]][] = [];
    bench.executor.onExecute = ({ finished, finishedHandles }) =>
      seen.push([[...finished], [...finishedHandles]]);
    const handles = [1, 2, 3].map((i) => {
      const { handle } = bench.submit({ id: 'a', maxTokens: 5 });
      bench.engine.abort('a');
      if (i < 3) bench.engine.step();
      return handle;
    });
    bench.submit({ id: 'b', maxTokens: 1 });
    bench.steps();
    expect(seen[0]).toEqual([['a'], handles]);
  });

  it('delivers what ended while a step was scheduled, though nothing was executed', async () => {
    // The request outgrows the pool: 8 blocks of 4 hold 32 tokens.
    const bench = new EngineBench({ numBlocks: 9 });
    const stream = bench.submit({ id: 'a', prompt: prompt(30), maxTokens: 30 });
    while (stream.numOutputTokens < 3) bench.engine.step();
    expect(bench.engine.step()).toMatchObject({
      scheduledTokens: 0,
      answered: false,
      ended: 1,
      state: 'progress',
    });
    expect(stream.ended).toBe(true);
    expect(bench.steps()).toBe('idle');
    const result = await stream.result();
    expect(result.finishReason).toBe('length');
    expect(result.tokens).toHaveLength(3);
    expect(bench.executor.seen.at(-1)?.ids).toEqual(['a']);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('delivers at depth 2 what ended in an empty plan while a step was in flight', async () => {
    const bench = new EngineBench({ numBlocks: 9, pipelineDepth: 2, enablePrefixCaching: false }, true);
    const long = bench.submit({ id: 'long', prompt: prompt(30), maxTokens: 30 });
    for (let i = 0; i < 20 && !long.ended; i++) {
      bench.steps();
      await bench.executor.deliver();
    }
    expect((await long.result()).finishReason).toBe('length');
    await bench.finish();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('hands drafts to the scheduler at depth 1, and the next plan verifies them', async () => {
    const bench = new EngineBench({ numSpeculativeTokens: 2 });
    const drafted: number[][] = [];
    bench.executor.onExecute = (plan) => {
      const n = plan.numDraftTokens[0];
      drafted.push([...plan.draftTokens.subarray(0, n)]);
    };
    bench.executor.answer = (plan) => ({
      ...answerOf(plan),
      drafts: { counts: Int32Array.of(2), tokens: Int32Array.of(plan.step, 8) },
    });
    const stream = bench.submit({ maxTokens: 3 });
    bench.steps();
    expect(drafted).toEqual([[], [0, 8], [1, 8]]);
    expect((await stream.result()).tokens).toHaveLength(3);
    expect(bench.engine.stats().wrongAnswers).toBe(0);
  });

  it('leaves drafts alone with more than one step in flight', () => {
    const bench = new EngineBench({ numSpeculativeTokens: 2, pipelineDepth: 2 });
    bench.executor.answer = (plan) => ({ ...answerOf(plan), drafts: 5 });
    bench.submit({ maxTokens: 3 });
    bench.steps();
    expect(bench.engine.stats().wrongAnswers).toBe(0);
  });

  it.each([
    ['no object', 5],
    ['too many', { counts: Int32Array.of(3), tokens: Int32Array.of(1, 2, 3) }],
    ['no arrays', { counts: [1], tokens: [1] }],
    ['a bad token', { counts: Int32Array.of(1), tokens: Int32Array.of(-1) }],
  ])('counts wrong drafts (%s) and goes on without them', async (_, drafts) => {
    const bench = new EngineBench({ numSpeculativeTokens: 2 });
    bench.executor.answer = (plan) => ({ ...answerOf(plan), drafts });
    const stream = bench.submit({ maxTokens: 3 });
    bench.steps();
    expect((await stream.result()).finishReason).toBe('length');
    expect(bench.engine.stats().wrongAnswers).toBe(3);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('hands tables to an executor that uses them, and null to one that does not', () => {
    for (const usesTables of [undefined, false]) {
      let given: unknown;
      const bench = new EngineBench({
        executor: {
          ...(usesTables === undefined ? {} : { usesTables }),
          execute(plan, tables) {
            given = tables;
            return answerOf(plan);
          },
        },
      });
      bench.submit();
      bench.engine.step();
      if (usesTables === undefined) {
        const { inputIds, seqLens } = given as StepTables;
        expect([[...inputIds.subarray(0, 7)], [...seqLens]]).toEqual([
          [...prompt(6), -1],
          [6, 0, 0, 0],
        ]);
      } else expect(given).toBeNull();
    }
  });
});

describe('the state that a step reports', () => {
  it('is stalled while there is work and nothing can be scheduled, and idle when there is none', () => {
    const bench = new EngineBench();
    expect(bench.engine.step().state).toBe('idle');
    const stream = bench.submit({ maxTokens: 1 });
    bench.engine.hold(stream.handle, 'store', 'job');
    expect(bench.steps()).toBe('stalled');
    expect(bench.engine.hasWork()).toBe(true);
    bench.engine.complete(stream.handle, 'store', 'job');
    expect(bench.steps()).toBe('idle');
    expect(bench.engine.hasWork()).toBe(false);
    bench.submit();
    bench.engine.pause('all');
    expect(bench.steps()).toBe('idle');
    bench.engine.resume();
    expect(bench.engine.step().state).toBe('progress');
  });
});
