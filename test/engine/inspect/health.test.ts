// `health`, `stats` and the diagnostics channels of an engine.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { answerOf, EngineBench, prompt } from '../../support/engine-bench.js';

/** Prevents every further schedule: all but one block is pinned behind the scheduler's back. */
function starve(bench: EngineBench): void {
  const { core } = bench.engine.scheduler;
  const free = core.freeQueue();
  core.native.pin(free.subarray(0, free.length - 1));
}

describe('health', () => {
  it('is good at first, and knows the life of the engine', () => {
    const bench = new EngineBench();
    expect(bench.engine.health()).toEqual({ healthy: true, state: 'open', authority: 'host', reasons: [] });
    bench.engine.dispose();
    expect(bench.engine.health()).toEqual({
      healthy: false,
      state: 'disposed',
      authority: 'host',
      reasons: ['the engine was disposed'],
    });
  });

  it('tells of a scheduler that has work and free blocks and schedules nothing for so many steps', () => {
    const bench = new EngineBench({ stallSteps: 10 });
    bench.submit({ id: 'a', prompt: prompt(20) });
    starve(bench);
    for (let i = 0; i < 9; i++) {
      expect(bench.engine.step().state).toBe('stalled');
      bench.time += 5;
    }
    expect(bench.engine.health().healthy).toBe(true);
    bench.engine.step();
    expect(bench.engine.health()).toEqual({
      healthy: false,
      state: 'open',
      authority: 'host',
      reasons: [
        'nothing was scheduled in the last 10 steps (45 ms), with 0 running and 1 waiting requests and 1 free blocks',
      ],
    });
  });

  it('is good again when something is scheduled, or there is no work any more', () => {
    for (const recover of ['abort', 'unpin'] as const) {
      const bench = new EngineBench({ stallSteps: 3 });
      bench.submit({ id: 'a', prompt: prompt(20) });
      const free = bench.engine.scheduler.core.freeQueue();
      starve(bench);
      for (let i = 0; i < 5; i++) bench.engine.step();
      expect(bench.engine.health().healthy).toBe(false);
      if (recover === 'abort') bench.engine.abort('a');
      else bench.engine.scheduler.core.native.unpin(free.subarray(0, free.length - 1));
      bench.engine.step();
      expect(bench.engine.health()).toEqual({ healthy: true, state: 'open', authority: 'host', reasons: [] });
    }
  });

  it('is not troubled by a pause, by held blocks, or by having nothing to do', () => {
    const bench = new EngineBench({ stallSteps: 3 });
    for (let i = 0; i < 9; i++) bench.engine.step();
    const held = bench.submit({ maxTokens: 1 });
    bench.engine.hold(held.handle, 'lease', 'peer');
    for (let i = 0; i < 9; i++) bench.engine.step();
    bench.submit();
    bench.engine.pause('new');
    for (let i = 0; i < 9; i++) bench.engine.step();
    bench.engine.pause('all');
    for (let i = 0; i < 9; i++) bench.engine.step();
    expect(bench.engine.health().healthy).toBe(true);
  });

  it('is not troubled while the executor computes', () => {
    const bench = new EngineBench({ stallSteps: 3, pipelineDepth: 3 }, true);
    bench.submit({ maxTokens: 1 });
    bench.submit({ id: 'b', prompt: prompt(30), maxTokens: 1 });
    for (let i = 0; i < 20; i++) bench.engine.step();
    expect(bench.engine.health().healthy).toBe(true);
  });

  it('tells of an executor that fails every step, until it does not', () => {
    const bench = new EngineBench();
    bench.executor.answer = () => {
      throw new Error('no device');
    };
    for (let i = 0; i < 3; i++) {
      expect(bench.engine.health().healthy).toBe(true);
      bench.submit();
      bench.engine.step();
    }
    expect(bench.engine.health().reasons).toEqual(['the last 3 steps failed: Error: no device']);
    bench.executor.answer = answerOf;
    bench.submit();
    bench.engine.step();
    expect(bench.engine.health().healthy).toBe(true);
  });

  it('is told to whoever listens, whenever it changes', () => {
    const heard: { healthy: boolean; reasons: string[] }[] = [];
    const listener = (message: unknown) => heard.push(message as (typeof heard)[number]);
    subscribe('blockstep:engine:health', listener);
    try {
      const bench = new EngineBench({ stallSteps: 2 });
      bench.submit({ id: 'a', prompt: prompt(20) });
      starve(bench);
      for (let i = 0; i < 5; i++) bench.engine.step();
      bench.engine.abort('a');
      bench.engine.step();
      bench.engine.dispose();
      const sick = new EngineBench({ executorTimeoutMs: 5 }, true);
      sick
        .submit()
        .result()
        .catch(() => {});
      sick.engine.step();
      sick.time += 5;
      expect(() => sick.engine.step()).toThrow();
      sick.engine.dispose();
    } finally {
      unsubscribe('blockstep:engine:health', listener);
    }
    expect(heard.map(({ healthy }) => healthy)).toEqual([false, true, false, false]);
    expect(heard[0].reasons[0]).toMatch(/nothing was scheduled/);
  });
});

describe('stats', () => {
  it('are plain data, derived from the state', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 }, true);
    const read = bench.submit({ id: 'a', maxTokens: 9 });
    bench.submit({ id: 'b', maxTokens: 9 });
    const reader = read[Symbol.asyncIterator]();
    const next = reader.next();
    bench.steps();
    bench.time += 20;
    await bench.executor.deliver();
    bench.steps();
    await next;
    void reader.next();
    bench.submit({ id: 'c' }).abort();
    const stats = bench.engine.stats();
    expect(structuredClone(stats)).toEqual(stats);
    expect(stats).toMatchObject({
      streams: 2,
      readersWaiting: 1,
      bufferedTokens: 1,
      stepsInFlight: 2,
      abortsQueued: 1,
      steps: 1,
      failedSteps: 0,
      wakes: 1,
      scheduler: { numRunning: 2, numWaiting: 1 },
    });
    expect(stats.stepLatencyMs.last).toBe(20);
    for (const figure of ['mean', 'p50', 'p99', 'max'] as const) {
      expect(stats.stepLatencyMs[figure]).toBeCloseTo(20, 1);
    }
  });

  it('have no latency before the first step', () => {
    expect(new EngineBench().engine.stats().stepLatencyMs).toEqual({
      last: null,
      mean: null,
      p50: null,
      p99: null,
      max: null,
    });
  });
});

describe('channels', () => {
  it('tell of submitted requests and of steps', () => {
    const heard: unknown[] = [];
    const listener = (message: unknown, name: string | symbol) => heard.push([name, message]);
    subscribe('blockstep:request:submit', listener);
    subscribe('blockstep:engine:step', listener);
    try {
      const bench = new EngineBench();
      const { number: engine } = bench.engine;
      expect(new EngineBench().engine.number).toBe(engine + 1);
      const { handle } = bench.submit({ id: 'a', maxTokens: 1 });
      bench.executor.onExecute = () => {
        bench.time += 3;
      };
      bench.steps();
      expect(heard).toEqual([
        ['blockstep:request:submit', { id: 'a', handle }],
        [
          'blockstep:engine:step',
          { engine, step: 0, numRequests: 1, totalTokens: 6, latencyMs: 3, failed: false },
        ],
      ]);
    } finally {
      unsubscribe('blockstep:request:submit', listener);
      unsubscribe('blockstep:engine:step', listener);
    }
  });

  it('tell what a request may take when it comes, and what it took when it ends', () => {
    const heard: unknown[] = [];
    const listener = (message: unknown) => heard.push(message);
    const names = ['blockstep:request:add', 'blockstep:request:finish'];
    for (const name of names) subscribe(name, listener);
    try {
      const bench = new EngineBench();
      const { handle } = bench.submit({ id: 'a', maxTokens: 3 });
      expect(heard).toEqual([{ id: 'a', handle, numPromptTokens: 6, maxTokens: 3 }]);
      bench.time += 10;
      bench.executor.onExecute = () => {
        bench.time += 3;
      };
      bench.steps();
      const times = { firstScheduledMs: 10, firstTokenMs: 13, endedMs: 19 };
      expect(heard[1]).toEqual({ id: 'a', handle, reason: 'length', numOutputTokens: 3, ...times });
      const aborted = bench.submit({ id: 'b' });
      bench.time += 4;
      aborted.abort();
      bench.steps();
      const none = { firstScheduledMs: null, firstTokenMs: null, endedMs: 4 };
      expect(heard[3]).toEqual({
        id: 'b',
        handle: aborted.handle,
        reason: 'abort',
        numOutputTokens: 0,
        ...none,
      });
    } finally {
      for (const name of names) unsubscribe(name, listener);
    }
  });
});
