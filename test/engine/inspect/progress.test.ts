// Whether an engine makes progress.
import { describe, expect, it } from 'vitest';
import { EngineBench, prompt } from '../../support/engine-bench.js';

describe('progress', () => {
  it('stands still only while a request waits for a step', async () => {
    const bench = new EngineBench({}, true);
    const { engine, executor } = bench;
    expect(engine.progress()).toEqual({ stillMs: 0, sinceStepMs: null });
    bench.time += 5000;
    expect(engine.progress()).toEqual({ stillMs: 0, sinceStepMs: null });
    // Nobody steps, however healthy the engine is.
    bench.submit({ id: 'a', prompt: prompt(6) });
    bench.time += 70;
    expect(engine.progress()).toEqual({ stillMs: 70, sinceStepMs: null });
    expect(engine.health().healthy).toBe(true);
    engine.step();
    bench.time += 30;
    // The executor has the step: it counts from when the request came.
    expect(engine.progress()).toEqual({ stillMs: 100, sinceStepMs: null });
    await executor.deliver();
    engine.step();
    bench.time += 7;
    expect(engine.progress()).toEqual({ stillMs: 7, sinceStepMs: 7 });
    await bench.finish();
    bench.time += 900;
    expect(engine.progress()).toEqual({ stillMs: 0, sinceStepMs: 900 });
  });

  it('does not stand still while it is paused, nor for the time before it was resumed', async () => {
    const bench = new EngineBench({}, true);
    const { engine } = bench;
    bench.submit({ id: 'a', prompt: prompt(6) });
    engine.pause('all');
    bench.time += 5000;
    expect(engine.progress().stillMs).toBe(0);
    engine.resume();
    bench.time += 20;
    expect(engine.progress().stillMs).toBe(20);
    await bench.finish();
  });

  it('is known of an engine that has ended', () => {
    const bench = new EngineBench();
    bench.submit();
    bench.steps();
    bench.time += 40;
    bench.engine.dispose();
    expect(bench.engine.progress()).toEqual({ stillMs: 0, sinceStepMs: 40 });
  });
});
