// An engine whose log cannot be written breaks as a whole; `health` of a hung engine.
import { describe, expect, it } from 'vitest';
import type { RequestStream } from '../../../src/index.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { codeOf } from '../../support/driver.js';
import { EngineBench, prompt, rejection } from '../../support/engine-bench.js';

/** A log sink whose disk is full for some of its writes. */
class FullSink {
  #writes = 0;
  #from = Number.POSITIVE_INFINITY;
  #to = Number.POSITIVE_INFINITY;

  write(): void {
    const n = this.#writes++;
    if (n < this.#from || n >= this.#to) return;
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  }

  /** From now on the disk is full, after so many writes that it still takes, and for so many. */
  fill(after = 0, count = Number.POSITIVE_INFINITY): void {
    this.#from = this.#writes + after;
    this.#to = this.#from + count;
  }
}

/** An engine with a log, and a connector that pins a block when it is told to, which has to be logged. */
class FullBench extends EngineBench {
  readonly log: FullSink;
  readonly connector: ScriptedConnector;
  readonly streams: RequestStream[] = [];

  constructor() {
    const log = new FullSink();
    const connector = new ScriptedConnector({}, { protection: 'pin' });
    const worker = {
      getFinished: () => {
        connector.during('getFinished', null);
        return null;
      },
    };
    connector.hasPendingWork = () => {
      connector.during('hasPendingWork', null);
      return false;
    };
    super({ log, connector, workers: [worker], maxNumSeqs: 2 }, true);
    this.log = log;
    this.connector = connector;
  }

  get session(): RequestStream {
    return this.streams[0];
  }

  /** A session that waits for input, a request in flight, and one that waits. */
  async fillUp(): Promise<void> {
    this.streams.push(this.submit({ id: 's', resumable: true, maxTokens: 1 }));
    await this.finish();
    this.streams.push(this.submit({ id: 'a', prompt: prompt(6, 1), maxTokens: 9 }));
    this.engine.step();
    this.streams.push(this.submit({ id: 'b', prompt: prompt(6, 2), maxTokens: 9 }));
  }

  pin(): void {
    this.connector.pins?.pin(Int32Array.of(1));
  }

  pinIn(method: string): void {
    this.connector.during = (called) => {
      if (called === method) this.pin();
    };
  }
}

/** The call with the full disk; the bench is prepared for it first. */
type Entry = (bench: FullBench) => (() => unknown) | Promise<() => unknown>;

/** Every call of the engine that goes into the scheduler, and has something written to the log there. */
const CALLS: Record<string, Entry> = {
  submit: (bench) => () => bench.submit({ id: 'new', prompt: prompt(6, 3) }),
  'submit of an id whose abort waits': (bench) => {
    bench.engine.abort('b');
    return () => bench.submit({ id: 'b', prompt: prompt(6, 3) });
  },
  'submit, whose error the connector catches': (bench) => {
    bench.pinIn('new');
    // The request, then the pin.
    bench.log.fill(1, 1);
    return () => bench.submit({ id: 'new', prompt: prompt(6, 3) });
  },
  addChunk:
    ({ session }) =>
    () =>
      session.addChunk({ prompt: prompt(2) }),
  endInput:
    ({ session }) =>
    () =>
      session.endInput(),
  'abort by id, in the step': ({ engine }) => {
    engine.abort('b');
    return () => engine.step();
  },
  'abort by handle, in the step': ({ engine, streams }) => {
    streams[1].abort();
    return () => engine.step();
  },
  'abortAll, in the step': ({ engine }) => {
    engine.abortAll();
    return () => engine.step();
  },
  'abort of an id that is unknown': ({ engine }) => {
    pinUnlogged(engine.scheduler);
    return () => engine.abort('nobody');
  },
  'step, at its schedule': async ({ engine, executor }) => {
    await executor.deliver();
    engine.step();
    return () => engine.step();
  },
  'step, at its update': async ({ engine, executor }) => {
    await executor.deliver();
    return () => engine.step();
  },
  'step, whose error a worker catches': (bench) => {
    bench.pinIn('getFinished');
    bench.log.fill(0, 1);
    return () => bench.engine.step();
  },
  hold:
    ({ engine, streams }) =>
    () =>
      engine.hold(streams[1].handle, 'store', 'job'),
  complete: ({ engine, streams }) => {
    engine.hold(streams[1].handle, 'store', 'job');
    return () => engine.complete(streams[1].handle, 'store', 'job');
  },
  fenceTransfers:
    ({ engine }) =>
    () =>
      engine.fenceTransfers(),
  pause:
    ({ engine }) =>
    () =>
      engine.pause('new'),
  resume:
    ({ engine }) =>
    () =>
      engine.resume(),
  resetPrefixCache:
    ({ engine }) =>
    () =>
      engine.resetPrefixCache(),
  verify: ({ engine }) => {
    pinUnlogged(engine.scheduler);
    return () => engine.verify();
  },
  hasWork: async (bench) => {
    bench.engine.abort(['a', 'b']);
    await bench.finish();
    bench.pinIn('hasPendingWork');
    return () => bench.engine.hasWork();
  },
  'a pin by the connector, outside of every call': (bench) => () => {
    expect(() => bench.pin()).toThrow('no space left on device');
    bench.engine.stats();
  },
  dispose:
    ({ engine }) =>
    () =>
      engine.dispose(),
};

/** Commands that no call has handed to the log yet; together they change nothing. */
function pinUnlogged({ core }: EngineBench['engine']['scheduler']): void {
  core.native.pin(Int32Array.of(1));
  core.native.unpin(Int32Array.of(1));
}

// Pinned by: `change`, `judge`, `checkWhole`, and the argument of `onBroken` (engine-state.ts),
// `Shutdown` (shutdown.ts).
describe('a scheduler that breaks because its log cannot be written', () => {
  it.each(Object.keys(CALLS))(
    'in %s: it throws a code, every stream ends with it, run() rejects, health says why',
    async (name) => {
      const bench = new FullBench();
      const { engine, log } = bench;
      await bench.fillUp();
      const act = await CALLS[name](bench);
      const aborted = bench.streams.map(({ ended }) => ended);
      const running = engine.run();
      if (!name.includes('catches')) log.fill();
      let error: unknown;
      try {
        act();
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT', cause: { code: 'ENOSPC' } });
      const isDisposed = name === 'dispose';
      const { healthy, state, reasons } = engine.health();
      expect({ healthy, state }).toEqual({ healthy: false, state: isDisposed ? 'disposed' : 'broken' });
      expect(reasons.join()).toContain('no space left on device');
      for (const [i, stream] of bench.streams.entries()) {
        if (aborted[i]) expect((await stream.result()).finishReason).toBe('abort');
        else expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
      }
      const refused = isDisposed ? 'ERR_BLOCKSTEP_DISPOSED' : 'ERR_BLOCKSTEP_INVARIANT';
      for (const [later, call] of Object.entries(LATER)) {
        expect(
          codeOf(() => call(bench)),
          later,
        ).toBe(refused);
      }
      expect(engine.explain('a')).toEqual(expect.any(String));
      expect(await rejection(running)).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
      await engine.shutdown();
      expect(engine.health().state).toBe('disposed');
      expect(bench.executor.disposals).toBe(1);
    },
  );

  it.each([0, 60_000])(
    'in shutdown() with %d ms to drain: it resolves, and health says why',
    async (drainMs) => {
      const bench = new FullBench();
      const { engine } = bench;
      await bench.fillUp();
      const running = engine.run();
      bench.log.fill();
      const ended = engine.shutdown({ drainMs });
      // Otherwise no step can be made, and the first to be written are the aborts behind the drain.
      if (drainMs > 0) await bench.executor.deliver();
      await ended;
      expect(await rejection(running)).toMatchObject({
        code: 'ERR_BLOCKSTEP_INVARIANT',
        cause: { code: 'ENOSPC' },
      });
      expect(engine.health().reasons.join()).toContain('no space left on device');
      expect(bench.streams.every(({ ended }) => ended)).toBe(true);
      expect(bench.executor.disposals).toBe(1);
    },
  );

  it.each([1, 2, 3])(
    'in shutdown(), at question %d to a connector that catches it: it resolves',
    async (nth) => {
      const bench = new FullBench();
      let asked = 0;
      bench.connector.during = (method) => {
        if (method === 'hasPendingWork' && ++asked === nth) bench.pin();
      };
      bench.log.fill();
      const running = bench.engine.run();
      await bench.engine.shutdown({ drainMs: 60_000 });
      expect(asked).toBeGreaterThanOrEqual(nth);
      expect(bench.engine.health().state).toBe('disposed');
      expect(await rejection(running)).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    },
  );

  it('in the last record of dispose(): all is freed, and it throws a code', async () => {
    const log = new FullSink();
    const bench = new EngineBench({ log });
    const stream = bench.submit({ id: 'a' });
    pinUnlogged(bench.engine.scheduler);
    log.fill();
    expect(() => bench.engine.dispose()).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT', cause: expect.any(Error) as Error }),
    );
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    expect(bench.engine.health().state).toBe('disposed');
    expect(bench.executor.disposals).toBe(1);
    await bench.engine.shutdown();
  });

  it('nothing is written by what only reads: a full disk does not matter there', async () => {
    const bench = new FullBench();
    await bench.fillUp();
    bench.log.fill();
    const { engine } = bench;
    expect(engine.stats().streams).toBe(3);
    expect(engine.explain('a')).toContain('running');
    expect(engine.health().healthy).toBe(true);
    expect(engine.hasWork()).toBe(true);
    expect([engine.numRunning, engine.numWaiting, engine.numUnfinished]).toEqual([1, 1, 2]);
  });

  it('a connector that lets go of a pin on its own account breaks it at once, though no call of the engine was made', async () => {
    const log = new FullSink();
    const connector = new ScriptedConnector({}, { protection: 'pin' });
    const bench = new EngineBench({ log, connector }, true);
    const a = bench.submit({ id: 'a' });
    bench.engine.step();
    const { core } = bench.engine.scheduler;
    const block = core.freeQueue().slice(0, 1);
    connector.pins?.pin(block);
    log.fill();
    expect(() => connector.pins?.unpin(block)).toThrow('no space left');
    expect(bench.engine.health()).toMatchObject({ healthy: false, state: 'broken' });
    expect(await rejection(a.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
  });

  it('what is only refused breaks nothing', () => {
    const bench = new EngineBench({ strict: true });
    expect(() => bench.engine.hold(2 ** 40, 'store', 'job')).toThrow(/stale-handle/);
    expect(() => bench.submit({ id: 'x', maxTokens: 0 })).toThrow(/maxTokens/);
    expect(bench.engine.health().healthy).toBe(true);
  });
});

/** Every call that always throws once the engine is broken. */
const LATER: Record<string, (bench: FullBench) => unknown> = {
  submit: (bench) => bench.submit({ id: 'later' }),
  abort: ({ engine }) => engine.abort('a'),
  abortAll: ({ engine }) => engine.abortAll(),
  step: ({ engine }) => engine.step(),
  run: ({ engine }) => engine.run(),
  pause: ({ engine }) => engine.pause('new'),
  resume: ({ engine }) => engine.resume(),
  resetPrefixCache: ({ engine }) => engine.resetPrefixCache(),
  hold: ({ engine }) => engine.hold(1, 'store', 'job'),
  complete: ({ engine }) => engine.complete(1, 'store', 'job'),
  fenceTransfers: ({ engine }) => engine.fenceTransfers(),
  verify: ({ engine }) => engine.verify(),
  stats: ({ engine }) => engine.stats(),
  addChunk: ({ session }) => session.addChunk({ prompt: prompt(2) }),
  endInput: ({ session }) => session.endInput(),
};

// Pinned by: `scheduledNothing` (health.ts), `hasRunnable` (inspection.ts).
describe('health of an engine that is wedged', () => {
  it('with no block free at all: says so after stallSteps', () => {
    const bench = new EngineBench({ stallSteps: 10 });
    const { core } = bench.engine.scheduler;
    core.native.pin(core.freeQueue());
    bench.submit({ id: 'a' });
    for (let i = 0; i < 10; i++) expect(bench.engine.step().state).toBe('stalled');
    expect(bench.engine.health().reasons.join()).toMatch(
      /nothing was scheduled .* 1 waiting requests and 0 free blocks/,
    );
  });

  it('with a request among the skipped: an adapter that finds no place, since what runs cannot', () => {
    const bench = new EngineBench({
      stallSteps: 10,
      maxLoras: 1,
      numBlocks: 5,
      maxModelLen: 16,
      maxNumSeqs: 2,
    });
    bench.submit({ id: 'a', adapter: 'x', prompt: prompt(7), maxTokens: 9 });
    bench.submit({ id: 'b', adapter: 'y', prompt: prompt(3, 1) });
    bench.engine.step();
    const { core } = bench.engine.scheduler;
    core.native.pin(core.freeQueue());
    const { handle } = { handle: bench.engine.scheduler.get('a')?.handle as number };
    bench.engine.hold(handle, 'store', 'job');
    for (let i = 0; i < 14; i++) bench.engine.step();
    expect(bench.engine.scheduler.inspect()).toMatchObject({ running: ['a'], skipped: ['b'] });
    expect(bench.engine.health().reasons.join()).toMatch(
      /with 1 running and 1 waiting requests and 0 free blocks/,
    );
  });
});
