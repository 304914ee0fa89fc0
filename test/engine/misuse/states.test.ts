// Every call in every state works or is refused; clocks that throw, strict mode, calls from
// diagnostics subscribers.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../../src/index.js';
import { EngineBench, prompt, rejection, settled } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';

const STATES = ['new', 'working', 'in flight', 'running', 'draining', 'broken', 'hung', 'disposed'] as const;
type State = (typeof STATES)[number];

/** An engine in each state that it can be in, reached by ordinary calls, or by the mishap that leads there. */
function benchIn(state: State): EngineBench {
  const bench = new EngineBench({ executorTimeoutMs: 50 }, true);
  if (state === 'new') return bench;
  for (const id of ['a', 'b'])
    bench
      .submit({ id, maxTokens: 9 })
      .result()
      .catch(() => {});
  switch (state) {
    case 'in flight':
      bench.engine.step();
      break;
    case 'running':
      void bench.engine.run();
      break;
    case 'draining':
      bench.engine.shutdown().catch(() => {});
      break;
    case 'broken':
      bench.engine.scheduler.core.control[0] = 1e6;
      expect(() => bench.engine.step()).toThrow();
      break;
    case 'hung':
      bench.engine.step();
      bench.time += 50;
      expect(() => bench.engine.step()).toThrow();
      break;
    case 'disposed':
      bench.engine.dispose();
  }
  return bench;
}

/** Every method with good arguments. */
const CALLS: Record<string, (bench: EngineBench) => unknown> = {
  submit: ({ engine }) => engine.submit({ id: 'n', prompt: prompt(4), maxTokens: 1 }).id,
  'submit, aborted': ({ engine }) =>
    engine.submit({ id: 'n', prompt: prompt(4), maxTokens: 1 }, { signal: AbortSignal.abort() }).ended,
  abort: ({ engine }) => engine.abort('a'),
  abortAll: ({ engine }) => engine.abortAll(),
  step: ({ engine }) => typeof engine.step().state,
  run: ({ engine }) => engine.run() instanceof Promise,
  pause: ({ engine }) => engine.pause('new'),
  resume: ({ engine }) => engine.resume(),
  resetPrefixCache: ({ engine }) => typeof engine.resetPrefixCache().ok,
  hold: ({ engine }) => engine.hold(2 ** 40, 'load', 'x'),
  complete: ({ engine }) => engine.complete(2 ** 40, 'load', 'x'),
  verify: ({ engine }) => engine.verify(),
  stats: ({ engine }) => typeof engine.stats().steps,
};

/** The error code of each call in every state in which it is refused; `ok` where they work. */
const EXPECTED: Record<State, Record<string, string>> = {
  new: {},
  working: {},
  'in flight': {},
  running: {},
  draining: { submit: 'ERR_BLOCKSTEP_SHUTDOWN', 'submit, aborted': 'ERR_BLOCKSTEP_SHUTDOWN' },
  broken: Object.fromEntries(Object.keys(CALLS).map((name) => [name, 'ERR_BLOCKSTEP_INVARIANT'])),
  hung: {
    ...Object.fromEntries(Object.keys(CALLS).map((name) => [name, 'ERR_BLOCKSTEP_EXECUTOR_HUNG'])),
    // The scheduler is well, and its counts may help.
    stats: 'ok',
  },
  disposed: Object.fromEntries(Object.keys(CALLS).map((name) => [name, 'ERR_BLOCKSTEP_DISPOSED'])),
};

/** The calls that work in every state. */
const ALWAYS: Record<string, (bench: EngineBench) => unknown> = {
  health: ({ engine }) => engine.health().state,
  'explain an id': ({ engine }) => engine.explain('a'),
  'explain a handle': ({ engine }) => engine.explain(2 ** 40),
  hasWork: ({ engine }) => engine.hasWork(),
  stop: ({ engine }) => engine.stop(),
  isRunning: ({ engine }) => engine.isRunning,
  scheduler: ({ engine }) => engine.scheduler.inspect(),
  counts: ({ engine }) => [engine.numRunning, engine.numWaiting, engine.numUnfinished],
};

describe.each(STATES)('when %s', (state) => {
  it.each(Object.keys(CALLS))('%s works, or is refused with the right code', (name) => {
    const bench = benchIn(state);
    let found = 'ok';
    try {
      CALLS[name](bench);
    } catch (error) {
      found = (error as BlockstepError).code ?? String(error);
    }
    expect(found).toBe(EXPECTED[state][name] ?? 'ok');
    bench.engine.dispose();
  });

  it.each(Object.keys(ALWAYS))('%s works', (name) => {
    const bench = benchIn(state);
    expect(() => ALWAYS[name](bench)).not.toThrow();
    bench.engine.dispose();
  });

  it.each(['dispose', 'shutdown', 'asyncDispose'] as const)(
    '%s ends it, once, and every reader is told',
    async (how) => {
      const bench = benchIn(state);
      const { engine } = bench;
      const open =
        state !== 'new' &&
        state !== 'broken' &&
        state !== 'hung' &&
        state !== 'disposed' &&
        state !== 'draining';
      const stream = open ? bench.submit({ id: 'open' }) : null;
      const reading = stream === null ? null : Promise.allSettled([stream.result()]);
      if (how === 'dispose') engine.dispose();
      else {
        const ended = how === 'shutdown' ? engine.shutdown({ drainMs: 20 }) : engine[Symbol.asyncDispose]();
        for (let i = 0; i < 60; i++) {
          await new Promise((resolve) => setImmediate(resolve));
          await bench.executor.deliver(9);
        }
        await ended;
      }
      engine.dispose();
      await engine.shutdown();
      expect(engine.health().state).toBe('disposed');
      expect(engine.isRunning).toBe(false);
      expect(bench.executor.disposals).toBe(1);
      const [told] = (await reading) ?? [];
      if (told?.status === 'rejected') expect(told.reason).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
      else if (told !== undefined) expect(['length', 'abort']).toContain(told.value.finishReason);
    },
  );

  it('a stream can be left, aborted and read again', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 50 }, true);
    const stream = bench.submit({ id: 'a' });
    const iterator = stream[Symbol.asyncIterator]();
    const other = benchIn(state);
    if (state === 'disposed') bench.engine.dispose();
    stream.abort();
    stream.abort('again');
    await iterator.return();
    await stream[Symbol.asyncDispose]();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    if (state === 'disposed') {
      expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    } else expect((await stream.result()).finishReason).toBe('abort');
    expect(stream.ended).toBe(true);
    bench.engine.dispose();
    other.engine.dispose();
  });
});

describe('a clock that throws or tells no time', () => {
  const BAD = [Number.NaN, Number.POSITIVE_INFINITY, '1', null, undefined, {}];

  it('makes step throw and changes nothing, whichever of its reads it hits', async () => {
    for (const bad of [...BAD, 'throws']) {
      // The n-th read of the clock in a step goes wrong, for every n.
      for (let nth = 1; nth < 12; nth++) {
        const bench = new EngineBench();
        const stream = bench.submit({ id: 'a', maxTokens: 3 });
        bench.submit({ id: 'b' }).abort();
        const good = bench.time;
        let reads = 0;
        bench.onClock = () => {
          bench.time = good;
          if (++reads !== nth) return;
          if (bad === 'throws') throw new Error('mine');
          bench.time = bad as number;
        };
        for (let i = 0; i < 12; i++) {
          try {
            bench.engine.step();
          } catch (error) {
            if (bad === 'throws') expect((error as Error).message).toBe('mine');
            else expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_BAD_ARG');
          }
        }
        bench.onClock = () => {};
        bench.time = good;
        expect([...(await stream.result()).tokens]).toEqual([600, 700, 800]);
        expect(bench.engine.health().healthy).toBe(true);
        bench.engine.verify();
        bench.engine.dispose();
      }
    }
  });

  it('never makes an answer an unhandled rejection', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ maxTokens: 1 });
    bench.engine.step();
    bench.onClock = () => {
      throw new Error('mine');
    };
    await bench.executor.deliver();
    stream.abort();
    bench.onClock = () => {};
    await bench.finish();
    expect((await stream.result()).finishReason).toBe('abort');
  });
});

describe('strict mode', () => {
  it('breaks the engine on an anomaly inside a step, loudly', async () => {
    const bench = new EngineBench({ strict: true });
    const stream = bench.submit({ id: 'a', maxTokens: 9 });
    bench.engine.step();
    // A foreign hand restamps a running request as finished would be: it is in `running` and is not
    // tracked.
    const request = bench.engine.scheduler.get('a')!;
    bench.submit({ id: 'b', prompt: prompt(5, 1) });
    request.status = 'WAITING';
    bench.engine.abort('a');
    expect(() => bench.engine.step()).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }),
    );
    expect((await stream.result()).finishReason).toBe('abort');
    expect(bench.engine.health().reasons[0]).toMatch(/realigned-status/);
    bench.engine.dispose();
  });
});

describe('an error of the scheduler that comes when the update was done', () => {
  it('breaks the engine, and the update is not done twice', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 9 });
    const scheduler = schedulerOf(bench.engine);
    const original = scheduler.update.bind(scheduler);
    let updates = 0;
    scheduler.update = (plan, result) => {
      original(plan, result);
      updates++;
      throw new BlockstepError('ERR_BLOCKSTEP_ANOMALY', 'found at the end');
    };
    expect(() => bench.engine.step()).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }),
    );
    expect(updates).toBe(1);
    expect(await rejection(stream.result())).toMatchObject({ cause: { message: 'found at the end' } });
    bench.engine.dispose();
  });
});

describe('from inside a diagnostics subscriber', () => {
  const CHANNELS = [
    'request:add',
    'request:admit',
    'request:finish',
    'request:submit',
    'step',
    'engine:step',
  ];

  it.each(CHANNELS)('of %s whatever is called is carried out or refused, and never half', async (channel) => {
    const bench = new EngineBench();
    const codes = new Set<string>();
    let heard = 0;
    const listener = () => {
      if (heard++ > 8) return;
      for (const [name, call] of Object.entries({
        submit: () => bench.submit({ prompt: prompt(3, heard), maxTokens: 1 }),
        abort: () => bench.engine.abort('b'),
        step: () => bench.engine.step(),
        pause: () => bench.engine.pause('new'),
        resume: () => bench.engine.resume(),
        dispose: () => bench.engine.dispose(),
        explain: () => bench.engine.explain('a'),
        health: () => bench.engine.health(),
        stats: () => bench.engine.stats(),
      })) {
        if (channel === 'request:submit' && name === 'dispose') continue;
        try {
          call();
        } catch (error) {
          codes.add(`${name} ${(error as BlockstepError).code}`);
        }
      }
    };
    subscribe(`blockstep:${channel}`, listener);
    const streams = ['a', 'b', 'c'].map((id, i) =>
      bench.submit({ id, prompt: prompt(6, i + 20), maxTokens: 3 }),
    );
    try {
      bench.steps();
    } finally {
      unsubscribe(`blockstep:${channel}`, listener);
    }
    bench.engine.resume();
    bench.steps();
    await settled();
    expect(heard).toBeGreaterThan(0);
    expect([...codes].filter((code) => !code.endsWith('ERR_BLOCKSTEP_REENTRANT'))).toEqual([]);
    for (const stream of [streams[0], streams[2]]) expect((await stream.result()).tokens).toHaveLength(3);
    expect(streams[1].ended).toBe(true);
    bench.engine.verify();
    expect(bench.engine.health().healthy).toBe(true);
    bench.engine.dispose();
  });
});
