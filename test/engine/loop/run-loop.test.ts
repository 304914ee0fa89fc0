// `run()` streams answers, sleeps when idle, gives timers, I/O and other engines their turn, and
// reports a hung executor or a broken clock.
import { describe, expect, it, vi } from 'vitest';
import type { Engine } from '../../../src/index.js';
import { answerOf, EngineBench, leftovers, outputs, prompt, rejection } from '../../support/engine-bench.js';
import { pause, until } from '../../support/waiting.js';

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));

/** How many turns of its loop an engine makes in some real milliseconds. */
async function turnsIn(engine: Engine, ms: number): Promise<number> {
  const before = engine.stats().scheduler.step;
  await pause(ms);
  return engine.stats().scheduler.step - before;
}

/** Timers and immediates of this process that keep it alive, and those that do not, counted by a patched setTimeout. */
function countTimers<T>(act: () => Promise<T>): Promise<{ made: number; result: T }> {
  const original = globalThis.setTimeout;
  let made = 0;
  globalThis.setTimeout = ((...args: Parameters<typeof setTimeout>) => {
    made++;
    return original(...args);
  }) as typeof setTimeout;
  return act()
    .then((result) => ({ made, result }))
    .finally(() => {
      globalThis.setTimeout = original;
    });
}

describe('a running engine', () => {
  it('streams what is submitted, and sleeps while there is nothing to do', async () => {
    const bench = new EngineBench();
    const { engine } = bench;
    void engine.run();
    expect(engine.isRunning).toBe(true);
    expect((await outputs(bench.submit({ maxTokens: 5 }))).length).toBeGreaterThan(1);
    await tick();
    await tick();
    const { made, result } = await countTimers(async () => {
      const before = engine.stats().scheduler.step;
      for (let i = 0; i < 200; i++) await tick();
      return engine.stats().scheduler.step - before;
    });
    expect([made, result]).toEqual([0, 0]);
    expect(await bench.submit({ maxTokens: 2 }).result()).toMatchObject({ finishReason: 'length' });
    engine.dispose();
  });

  it('wakes a reader for every step, when the executor answers at once and when it takes its time', async () => {
    for (const async of [false, true]) {
      const bench = new EngineBench({}, async);
      void bench.engine.run();
      const stream = bench.submit({ maxTokens: 8 });
      const answering = async ? answer(bench) : null;
      expect(await outputs(stream)).toHaveLength(8);
      await answering;
      bench.engine.dispose();
    }
    async function answer(bench: EngineBench) {
      while (bench.engine.numUnfinished > 0) {
        await tick();
        await bench.executor.deliver();
      }
    }
  });

  it('gives timers and I/O their turn, also when the executor never waits', async () => {
    const bench = new EngineBench({ maxModelLen: 4096, numBlocks: 2000 });
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 4000 });
    let turns = 0;
    while (!stream.ended) {
      await tick();
      turns++;
    }
    // One step a turn.
    expect(turns).toBeGreaterThan(3990);
    bench.engine.dispose();
  });

  it('does the same with an executor whose promises are resolved already', async () => {
    const bench = new EngineBench({ maxModelLen: 4096, numBlocks: 2000 });
    bench.executor.answer = (plan) => Promise.resolve(answerOf(plan));
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 2000 });
    let turns = 0;
    while (!stream.ended) {
      await tick();
      turns++;
    }
    expect(turns).toBeGreaterThan(1990);
    bench.engine.dispose();
  });

  it('does not starve another engine of the process', async () => {
    const benches = [0, 1, 2].map(() => new EngineBench({ maxModelLen: 4096, numBlocks: 2000 }));
    const streams = benches.map((bench) => bench.submit({ maxTokens: 1000 }));
    for (const { engine } of benches) void engine.run();
    await Promise.race(streams.map((stream) => stream.result()));
    for (const stream of streams) expect(stream.numOutputTokens).toBeGreaterThan(990);
    for (const { engine } of benches) engine.dispose();
  });

  it('F30 backs off to a millisecond while there is work and nothing can be scheduled', async () => {
    const bench = new EngineBench();
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 1 });
    bench.engine.hold(stream.handle, 'store', 'job');
    await stream.result();
    await pause(5);
    const { made, result } = await countTimers(() => turnsIn(bench.engine, 100));
    expect(result).toBeLessThan(110);
    expect(made).toBeGreaterThanOrEqual(result - 1);
    const before = bench.engine.stats().scheduler.step;
    await until(() => bench.engine.stats().scheduler.step > before + 5);
    expect(bench.engine.complete(stream.handle, 'store', 'job')).toBe(true);
    await until(() => !bench.engine.hasWork());
    await pause(5);
    expect(await turnsIn(bench.engine, 20)).toBe(0);
    expect(leftovers(bench.engine)).toEqual([]);
    bench.engine.dispose();
  });

  it('sleeps while the executor computes, and makes one timer a second at most', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 }, true);
    void bench.engine.run();
    bench.submit({ maxTokens: 50 });
    const timer = setTimeout(() => {});
    const timers = Object.getPrototypeOf(timer) as NodeJS.Timeout;
    clearTimeout(timer);
    const spies = [vi.spyOn(timers, 'ref'), vi.spyOn(timers, 'unref')];
    const { made } = await countTimers(async () => {
      for (let i = 0; i < 20; i++) {
        await tick();
        await tick();
        await bench.executor.deliver();
      }
      await tick();
    });
    const numCalls = spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    for (const spy of spies) spy.mockRestore();
    expect(bench.engine.stats().steps).toBe(20);
    expect(made).toBeLessThanOrEqual(1);
    // A step does not change whether the engine keeps the process alive.
    expect(numCalls).toBeLessThanOrEqual(1);
    bench.engine.dispose();
  });

  it('sleeps while the executor computes also when the time of a request is over meanwhile', async () => {
    const bench = new EngineBench({}, true);
    const { engine } = bench;
    void engine.run();
    const stream = bench.submit({ timeoutMs: 50, maxTokens: 9 });
    const rejected = rejection(stream.result());
    for (let i = 0; i < 5; i++) await tick();
    bench.time += 60;
    const { made } = await countTimers(() => pause(60));
    // The test itself made one of these timers.
    expect(made).toBeLessThan(4);
    await bench.executor.deliver();
    expect(await rejected).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    engine.dispose();
  });

  it('is woken by whatever changes what can be scheduled', async () => {
    const bench = new EngineBench();
    const { engine } = bench;
    void engine.run();
    engine.pause('all');
    const stream = bench.submit({ maxTokens: 2 });
    await pause(5);
    expect(stream.numOutputTokens).toBe(0);
    engine.resume();
    await stream.result();

    const aborted = bench.submit({ maxTokens: 50 });
    engine.pause('all');
    await pause(5);
    aborted.abort();
    await until(() => leftovers(engine).length === 0);
    engine.dispose();
  });

  it('is woken by blocks that come back while the executor computes', async () => {
    const bench = new EngineBench({ pipelineDepth: 2, numBlocks: 9 }, true);
    void bench.engine.run();
    const held = bench.submit({ prompt: prompt(20), maxTokens: 1 });
    bench.engine.hold(held.handle, 'store', 'job');
    await tick();
    await bench.executor.deliver();
    await held.result();
    bench.submit({ id: 'a', prompt: prompt(6, 1), maxTokens: 1 });
    bench.submit({ id: 'b', prompt: prompt(12, 2), maxTokens: 1 });
    await until(() => bench.executor.seen.length > 1);
    await pause(5);
    expect(bench.executor.seen.map(({ ids }) => ids).slice(1)).toEqual([['a']]);
    bench.engine.complete(held.handle, 'store', 'job');
    await tick();
    await tick();
    expect(bench.executor.seen.map(({ ids }) => ids).slice(1)).toEqual([['a'], ['b']]);
    bench.engine.dispose();
  });

  it('can be stopped and goes on where it was', async () => {
    const bench = new EngineBench({}, true);
    const { engine } = bench;
    const running = engine.run();
    expect(engine.run()).toBe(running);
    const stream = bench.submit({ maxTokens: 3 });
    await tick();
    engine.stop();
    engine.stop();
    await running;
    expect(engine.isRunning).toBe(false);
    await bench.executor.deliver();
    await pause(5);
    expect(stream.numOutputTokens).toBe(0);
    expect(bench.engine.explain(stream.id)).toContain('in flight');
    void engine.run();
    await tick();
    expect(stream.numOutputTokens).toBe(1);
    engine.dispose();
  });

  it('gives the executor its next step before the readers have their turn', async () => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      const bench = new EngineBench({ pipelineDepth }, true);
      void bench.engine.run();
      const stream = bench.submit({ maxTokens: 9 });
      await tick();
      const iterator = stream[Symbol.asyncIterator]();
      const submitted = iterator.next().then(() => bench.executor.seen.length);
      await bench.executor.deliver();
      expect(await submitted).toBe(pipelineDepth + 1);
      bench.engine.dispose();
    }
  });

  it('does nothing more when it was stopped, whatever it was about to do', async () => {
    const bench = new EngineBench();
    void bench.engine.run();
    bench.submit();
    bench.engine.stop();
    await tick();
    await tick();
    expect(bench.executor.seen).toEqual([]);

    const stalled = new EngineBench();
    const held = stalled.submit({ maxTokens: 1 });
    stalled.engine.hold(held.handle, 'store', 'job');
    void stalled.engine.run();
    await held.result();
    await pause(5);
    stalled.engine.stop();
    expect(await turnsIn(stalled.engine, 10)).toBe(0);
  });

  it.each([false, true])(
    'can be stopped from inside the executor (which answers later: %s)',
    async (async) => {
      const bench = new EngineBench({ pipelineDepth: 3 }, async);
      bench.executor.onExecute = () => bench.engine.stop();
      const running = bench.engine.run();
      bench.submit({ maxTokens: 9 });
      await running;
      await pause(5);
      expect(bench.executor.seen).toHaveLength(1);
    },
  );

  it('may be stepped by hand besides', async () => {
    const bench = new EngineBench();
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 20 });
    for (let i = 0; i < 10; i++) bench.engine.step();
    expect((await stream.result()).tokens).toHaveLength(20);
    bench.engine.dispose();
  });
});

describe('a running engine that breaks', () => {
  it('by a hung executor notices by itself, within the timeout and not much later', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 30, now: () => performance.now() }, true);
    const running = bench.engine.run();
    const stream = bench.submit();
    const before = performance.now();
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(performance.now() - before).toBeGreaterThan(28);
    expect(await rejection(running)).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(bench.engine.isRunning).toBe(false);
    bench.engine.dispose();
  });

  it('by a clock that throws fails its streams, and nobody has to listen to run', async () => {
    const bench = new EngineBench();
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 9 });
    bench.onClock = () => {
      throw new Error('no clock');
    };
    const error = await rejection(stream.result());
    expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT', cause: { message: 'no clock' } });
    expect(bench.engine.health()).toMatchObject({ healthy: false, state: 'broken' });
    bench.onClock = () => {};
    bench.engine.dispose();
  });

  it('by a broken scheduler says so everywhere', async () => {
    const bench = new EngineBench();
    const running = bench.engine.run();
    const reading = outputs(bench.submit({ maxTokens: 50, prompt: prompt(9) }));
    bench.executor.onExecute = ({ step }) => {
      if (step === 3) bench.engine.scheduler.core.control[0] = 1e6;
    };
    expect(await rejection(reading)).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    expect(await rejection(running)).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    expect(bench.engine.health().reasons[0]).toMatch(/a step broke off: .*pending operations/);
    expect(() => bench.submit()).toThrowError(expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }));
    bench.engine.dispose();
  });
});
