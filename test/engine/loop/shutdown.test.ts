// `shutdown` drains and ends requests, `dispose` ends at once, and a gone engine refuses every
// call.
import { describe, expect, it } from 'vitest';
import type { BlockstepError } from '../../../src/index.js';
import { EngineBench, leftovers, outputs, prompt, rejection, tokensOf } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { pause, until } from '../../support/waiting.js';

const mine = new Error('mine');

/** The error codes of all calls once the engine is disposed. */
function codesOf(bench: EngineBench): Record<string, string> {
  const { engine } = bench;
  const calls = {
    submit: () => bench.submit(),
    step: () => engine.step(),
    run: () => engine.run(),
    abort: () => engine.abort('a'),
    abortAll: () => engine.abortAll(),
    pause: () => engine.pause('new'),
    stats: () => engine.stats(),
  };
  return Object.fromEntries(
    Object.entries(calls).map(([name, call]) => {
      try {
        call();
        return [name, 'ok'];
      } catch (error) {
        return [name, (error as BlockstepError).code.replace('ERR_BLOCKSTEP_', '')];
      }
    }),
  );
}

// Pinned by: `submit` (submit.ts), `begin` (shutdown.ts).
describe('an engine that is gone', () => {
  const rest = {
    step: 'DISPOSED',
    run: 'DISPOSED',
    abort: 'DISPOSED',
    abortAll: 'DISPOSED',
    pause: 'DISPOSED',
    stats: 'DISPOSED',
  };

  it('by a shutdown takes no requests because of it, and for all else it was disposed', async () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a', maxTokens: 1 });
    await bench.engine.shutdown();
    expect(codesOf(bench)).toEqual({ submit: 'SHUTDOWN', ...rest });
    bench.engine.dispose();
    expect(codesOf(bench)).toEqual({ submit: 'SHUTDOWN', ...rest });
  });

  it('by dispose was disposed for all calls, also when a shutdown awaits its executor afterwards', async () => {
    const bench = new EngineBench();
    bench.engine.dispose();
    expect(codesOf(bench)).toEqual({ submit: 'DISPOSED', ...rest });
    await bench.engine.shutdown();
    expect(codesOf(bench)).toEqual({ submit: 'DISPOSED', ...rest });
  });
});

describe('dispose', () => {
  it('ends every stream with a code, after what came before, and frees all', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 }, true);
    const read = bench.submit({ maxTokens: 9 });
    bench.steps();
    await bench.executor.deliver();
    bench.steps();
    const waiting = bench.submit();
    const next = waiting[Symbol.asyncIterator]().next();
    bench.engine.dispose();
    expect(await rejection(next)).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    const iterator = read[Symbol.asyncIterator]();
    expect((await iterator.next()).value?.tokens).toEqual(Int32Array.of(600));
    expect(await rejection(iterator.next())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(await rejection(read.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(() => bench.engine.scheduler.stats()).toThrow();
    expect(bench.executor.disposals).toBe(1);
    await bench.executor.deliver(2);
    bench.engine.dispose();
    bench.engine[Symbol.dispose]();
    expect(bench.executor.disposals).toBe(1);
  });

  it('resolves run', async () => {
    const bench = new EngineBench();
    const running = bench.engine.run();
    bench.engine.dispose();
    await running;
  });

  it('frees all also when the executor does not want to go', async () => {
    const bench = new EngineBench({
      executor: {
        execute: () => ({ tokens: new Int32Array(0), counts: new Int32Array(0) }),
        dispose() {
          throw mine;
        },
      },
    });
    const stream = bench.submit();
    expect(() => bench.engine.dispose()).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_EXECUTOR', cause: mine }),
    );
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(() => bench.engine.scheduler.stats()).toThrow();
    bench.engine.dispose();
    expect(await rejection(bench.engine.shutdown())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
  });

  it('is refused inside a callback of the scheduler, with nothing changed', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    let code: unknown;
    bench.onClock = () => {
      bench.onClock = () => {};
      try {
        bench.engine.dispose();
      } catch (error) {
        code = (error as { code: unknown }).code;
      }
    };
    bench.engine.pause('new');
    expect(code).toBe('ERR_BLOCKSTEP_REENTRANT');
    bench.engine.resume();
    bench.steps();
    expect((await stream.result()).finishReason).toBe('length');
    expect(bench.executor.disposals).toBe(0);
  });
});

describe('shutdown', () => {
  it('goes on until all is done, takes nothing new, then disposes', async () => {
    const bench = new EngineBench();
    const streams = Array.from({ length: 9 }, (_, i) => bench.submit({ prompt: prompt(5, i), maxTokens: 9 }));
    const ended = bench.engine.shutdown();
    expect(() => bench.submit()).toThrowError(expect.objectContaining({ code: 'ERR_BLOCKSTEP_SHUTDOWN' }));
    expect(bench.engine.health()).toEqual({
      healthy: true,
      state: 'draining',
      authority: 'host',
      reasons: [],
    });
    await ended;
    for (const stream of streams) expect((await stream.result()).finishReason).toBe('length');
    expect(bench.engine.health().state).toBe('disposed');
    expect(bench.executor.disposals).toBe(1);
    expect(() => bench.submit()).toThrowError(expect.objectContaining({ code: 'ERR_BLOCKSTEP_SHUTDOWN' }));
  });

  it('is one for all calls, also after the end', async () => {
    const bench = new EngineBench();
    bench.submit();
    const ended = bench.engine.shutdown();
    expect(bench.engine.shutdown()).toBe(ended);
    await ended;
    expect(bench.engine.shutdown()).toBe(ended);
    const other = new EngineBench();
    other.engine.dispose();
    await other.engine.shutdown();
    await other.engine[Symbol.asyncDispose]();
    expect(other.executor.disposals).toBe(1);
  });

  it('aborts what is left when time is up, without a reason', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ maxTokens: 50 });
    bench.steps();
    await bench.executor.deliver();
    bench.steps();
    const ended = bench.engine.shutdown({ drainMs: 100 });
    await pause(5);
    expect(stream.ended).toBe(false);
    bench.time += 100;
    await bench.executor.deliver();
    await ended;
    const all = await outputs(stream);
    expect(all.at(-1)?.finishReason).toBe('abort');
    expect(tokensOf(all).length).toBeGreaterThan(0);
  });

  it('with a drain of 0 aborts at once, and waits for no executor', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit();
    bench.engine.step();
    await bench.engine.shutdown({ drainMs: 0 });
    expect((await stream.result()).finishReason).toBe('abort');
  });

  it('can be shortened, and not lengthened, by a later call', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit();
    bench.engine.step();
    const ended = bench.engine.shutdown({ drainMs: 1_000_000 });
    await pause(3);
    expect(stream.ended).toBe(false);
    void bench.engine.shutdown({ drainMs: 0 });
    void bench.engine.shutdown({ drainMs: 1_000_000 });
    await ended;
    expect(stream.ended).toBe(true);
  });

  it('waits for blocks that a transfer holds, as long as there is time', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    bench.engine.hold(stream.handle, 'store', 'job');
    let done = false;
    const ended = bench.engine.shutdown().then(() => {
      done = true;
    });
    await until(() => stream.ended);
    await pause(5);
    expect(done).toBe(false);
    bench.engine.complete(stream.handle, 'store', 'job');
    await ended;
  });

  it('of a paused engine aborts what is left', async () => {
    const bench = new EngineBench();
    const stream = bench.submit();
    bench.engine.pause('all');
    const ended = bench.engine.shutdown({ drainMs: 50 });
    await pause(5);
    expect(stream.ended).toBe(false);
    bench.time += 50;
    await ended;
    expect((await stream.result()).finishReason).toBe('abort');
  });

  it('of a broken engine disposes it', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 10 }, true);
    const stream = bench.submit();
    bench.engine.step();
    const ended = bench.engine.shutdown();
    bench.time += 10;
    expect(() => bench.engine.step()).toThrow();
    await ended;
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(bench.engine.health().state).toBe('disposed');
  });

  it('may be begun inside the executor, and ended by dispose', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 5 });
    let ended: Promise<void> | undefined;
    bench.executor.onExecute = () => {
      ended = bench.engine.shutdown();
    };
    bench.engine.step();
    bench.engine.dispose();
    await ended;
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
  });

  it('cannot be stopped, and run and step do not disturb it', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 30 });
    const ended = bench.engine.shutdown();
    bench.engine.stop();
    expect(bench.engine.isRunning).toBe(true);
    void bench.engine.run();
    bench.engine.step();
    await ended;
    expect((await stream.result()).tokens).toHaveLength(30);
  });

  it.each([
    ['rejects', () => Promise.reject(mine)],
    [
      'throws',
      () => {
        throw mine;
      },
    ],
  ])('rejects when the dispose of the executor %s, with all freed', async (_, dispose) => {
    const bench = new EngineBench({
      executor: { execute: () => ({ tokens: new Int32Array(0), counts: new Int32Array(0) }), dispose },
    });
    expect(await rejection(bench.engine.shutdown())).toMatchObject({
      code: 'ERR_BLOCKSTEP_EXECUTOR',
      cause: mine,
    });
    expect(bench.engine.health().state).toBe('disposed');
    expect(() => bench.engine.scheduler.stats()).toThrow();
  });

  it('waits for the executor to go, but not for a hung one', async () => {
    let gone!: () => void;
    let asked!: () => void;
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    const dispose = () => {
      asked();
      return new Promise<void>((resolve) => (gone = resolve));
    };
    const execute = () => new Promise<never>(() => {});
    const bench = new EngineBench({ executor: { execute, dispose } });
    let done = false;
    const ended = bench.engine.shutdown().then(() => {
      done = true;
    });
    await isAsked;
    await pause(5);
    expect(done).toBe(false);
    gone();
    await ended;

    const hung = new EngineBench({ executor: { execute, dispose }, executorTimeoutMs: 10 });
    hung
      .submit()
      .result()
      .catch(() => {});
    hung.engine.step();
    hung.time += 10;
    expect(() => hung.engine.step()).toThrow();
    await hung.engine.shutdown();
  });

  it('leaves nothing behind in the engine when it drains', async () => {
    const bench = new EngineBench({ pipelineDepth: 3 });
    for (let i = 0; i < 30; i++) bench.submit({ prompt: prompt(9, i), maxTokens: 7 });
    let found: string[] | null = null;
    const original = schedulerOf(bench.engine).dispose.bind(schedulerOf(bench.engine));
    schedulerOf(bench.engine).dispose = () => {
      found = leftovers(bench.engine);
      original();
    };
    await bench.engine.shutdown();
    expect(found).toEqual([]);
  });
});
