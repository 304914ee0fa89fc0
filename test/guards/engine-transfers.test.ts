// F25, F28, F29, F30, F58, F60: an engine with workers.
import { describe, expect, it } from 'vitest';
import type { BlockstepError, RequestStream } from '../../src/index.js';
import { prompt } from '../support/driver.js';
import { leftovers, rejection } from '../support/engine-bench.js';
import { pause, until } from '../support/waiting.js';
import { RemoteEngine } from './remote-engine.js';

const DEPTHS = [1, 2] as const;

function codeOf(error: unknown): string {
  return (error as BlockstepError).code;
}

describe('F25 what a failed step was to write is not stored', () => {
  // Pinned by: StoreStep.failed (end, workers.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: the workers are told for which requests nothing was computed`, async () => {
      const bench = new RemoteEngine({}, { pipelineDepth });
      const [worker] = bench.workers;
      const a = bench.submit({ id: 'a', maxTokens: 3 });
      const b = bench.submit({ id: 'b', prompt: prompt(9, 1), maxTokens: 3 });
      bench.steps();
      bench.kv.plant = () => ({
        tokens: Int32Array.of(bench.kv.text('b', 1)[0]),
        counts: Int32Array.of(0, 1),
        errors: Uint8Array.of(1, 0),
      });
      await bench.kv.deliver();
      bench.steps();
      expect(worker.unstored).toEqual([a.handle]);
      expect(codeOf(await rejection(a.result()))).toBe('ERR_BLOCKSTEP_EXECUTOR');
      worker.unstored.length = 0;
      await bench.kv.deliver(pipelineDepth - 1);
      bench.steps();
      bench.kv.plant = () => {
        throw new Error('planted');
      };
      await bench.kv.deliver();
      bench.steps();
      expect(worker.unstored).toContain(b.handle);
      expect(codeOf(await rejection(b.result()))).toBe('ERR_BLOCKSTEP_EXECUTOR');
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }
});

describe('F28 a worker that throws, or answers nonsense', () => {
  // Pinned by: one exception boundary around every call of a worker (Workers.#try, workers.ts).
  for (const pipelineDepth of DEPTHS) {
    for (const method of ['getFinished', 'startStores', 'onStepSettled', 'startLoads']) {
      it(`depth ${pipelineDepth}: ${method} costs no request that loads nothing, and no step`, async () => {
        const bench = new RemoteEngine({}, { pipelineDepth, ranks: 2 });
        bench.workers[0].during = (called) => {
          if (called === method) throw new Error('planted');
        };
        const r = bench.submit({ id: 'r', maxTokens: 5 });
        await bench.finish();
        expect([...(await r.result()).tokens]).toEqual(bench.kv.text('r', 5));
        expect(bench.engine.stats().workerFailures).toBeGreaterThan(0);
        expect(bench.engine.health().healthy).toBe(true);
        expect(leftovers(bench.engine)).toEqual([]);
      });
    }

    it(`depth ${pipelineDepth}: startLoads loses the loads of that step; what other ranks began is waited for`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth, ranks: 2 });
      bench.workers[1].during = (called) => {
        if (called === 'startLoads') throw new Error('planted');
      };
      const r = bench.submit({ id: 'r' });
      const o = bench.submit({ id: 'o', prompt: prompt(9, 1) });
      await bench.finish();
      expect(await rejection(r.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
      expect([...(await o.result()).tokens]).toEqual(bench.kv.text('o', 4));
      expect(bench.free).toBe(30);
      bench.workers[0].land('r');
      bench.workers[1].extra.push({ finishedReceiving: [{ handle: r.handle }] });
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a synchronous load that could not be begun is not read`, async () => {
      for (const loadFailurePolicy of ['fail', 'recompute'] as const) {
        const bench = new RemoteEngine({ r: { ext: 8 } }, { pipelineDepth, loadFailurePolicy });
        bench.workers[0].during = (called) => {
          if (called === 'startLoads') throw new Error('planted');
        };
        const r = bench.submit({ id: 'r' });
        await bench.finish();
        if (loadFailurePolicy === 'fail')
          expect(codeOf(await rejection(r.result()))).toBe('ERR_BLOCKSTEP_REQUEST');
        else expect([...(await r.result()).tokens]).toEqual(bench.kv.text('r', 4));
        expect(leftovers(bench.engine)).toEqual([]);
      }
    });

    for (const [what, answer] of [
      [
        'reports of nothing',
        { finishedReceiving: [null, {}, { handle: 'r' }], invalidBlocks: [null, { block: 'x' }] },
      ],
      [
        'blocks out of range',
        { invalidBlocks: [{ block: -1 }, { block: 0 }, { block: 1e9 }, { block: 0.5 }] },
      ],
      [
        'requests that nobody knows',
        { finishedSending: [{ handle: 12345 }], failedReceiving: [{ handle: 0 }] },
      ],
      [
        'a getter that throws',
        Object.defineProperty({}, 'finishedReceiving', { get: () => JSON.parse('{') }),
      ],
    ] as const) {
      it(`depth ${pipelineDepth}: an answer of ${what} is counted, and what else was said is heard`, async () => {
        const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth, ranks: 2 });
        const r = bench.submit({ id: 'r' });
        const o = bench.submit({ id: 'o', prompt: prompt(9, 1) });
        const [worker] = bench.workers;
        let said = 0;
        worker.instead = () => (said++ === 2 ? answer : undefined);
        bench.steps();
        bench.land('r');
        await bench.finish();
        expect(said).toBeGreaterThan(2);
        for (const stream of [r, o])
          expect([...(await stream.result()).tokens]).toEqual(bench.kv.text(stream.id, 4));
        const counted =
          bench.engine.stats().workerFailures + Object.values(bench.anomalies).reduce((a, b) => a + b, 0);
        expect(counted).toBeGreaterThan(0);
        expect(leftovers(bench.engine)).toEqual([]);
      });
    }
  }
});

describe('F28 a worker whose answer is none', () => {
  for (const [what, answer] of [
    ['a number', 7],
    ['a promise', Promise.resolve(null)],
    ['a list that is none', { finishedReceiving: 7 }],
  ] as const) {
    it(`${what}: is counted, so that nobody waits for reports that were lost without a trace`, () => {
      const bench = new RemoteEngine({});
      bench.workers[0].instead = () => answer;
      bench.submit({ id: 'r' });
      bench.engine.step();
      expect(bench.engine.stats().workerFailures).toBeGreaterThan(0);
    });
  }
});

describe('F29 the last request has finished, and its blocks are still sent', () => {
  // Pinned by: hasWork counts what drains (hasWork, inspection.ts), and each round asks the workers (#handOverReports, step-loop.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: the engine stays at work until they were, and asks in every round`, async () => {
      const bench = new RemoteEngine({ r: { delayFree: true } }, { pipelineDepth, ranks: 2 });
      const r = bench.submit({ id: 'r' });
      expect(await bench.finish()).toBe('stalled');
      expect((await r.result()).transferParams).toEqual({ remote: 'r' });
      for (let i = 0; i < 5; i++) expect(bench.engine.step().state).toBe('stalled');
      expect(bench.engine.hasWork()).toBe(true);
      expect(bench.engine.numUnfinished).toBe(0);
      // The workers know that it has finished though no step has anything to execute.
      for (const worker of bench.workers) expect(worker.finished).toEqual([r.handle]);
      bench.workers[0].extra.push({ finishedSending: [{ handle: r.handle }] });
      bench.engine.step();
      expect(bench.free).toBe(29);
      bench.workers[1].extra.push({ finishedSending: [{ handle: r.handle }] });
      expect(bench.steps()).toBe('idle');
      expect(bench.engine.hasWork()).toBe(false);
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: running by itself it gets them back with no further request`, async () => {
      const bench = new RemoteEngine({ r: { delayFree: true } }, { pipelineDepth });
      void bench.engine.run();
      const r = bench.submit({ id: 'r', maxTokens: 1 });
      await until(() => bench.kv.pending.length > 0);
      await bench.kv.deliver();
      await r.result();
      await pause(5);
      expect(bench.free).toBeLessThan(32);
      bench.send(r);
      await until(() => bench.free === 32);
      await until(() => !bench.engine.hasWork());
      bench.engine.dispose();
    });
  }

  it('a connector with work of its own keeps it stepping, and no longer', () => {
    const bench = new RemoteEngine({});
    bench.connector.pending = true;
    expect(bench.engine.hasWork()).toBe(true);
    expect(bench.engine.step().state).toBe('stalled');
    bench.connector.pending = false;
    expect(bench.engine.hasWork()).toBe(false);
    expect(bench.engine.step().state).toBe('idle');
  });

  it('a shutdown waits for the blocks, for as long as it may', async () => {
    for (const drainMs of [30_000, 0]) {
      const bench = new RemoteEngine({ r: { delayFree: true } });
      const r = bench.submit({ id: 'r' });
      await bench.finish();
      let gone = false;
      const ended = bench.engine.shutdown({ drainMs }).then(() => {
        gone = true;
      });
      if (drainMs > 0) {
        await pause(5);
        expect(gone).toBe(false);
        bench.send(r);
      }
      await ended;
      expect(bench.workers[0].calls.filter((call) => call === 'shutdown')).toHaveLength(1);
      expect(bench.connector.calls.filter((call) => call === 'shutdown')).toHaveLength(1);
    }
  });

  it('quarantined blocks keep it awake no more; a late report brings them back with the next round', async () => {
    const bench = new RemoteEngine({ r: { delayFree: true } }, { deadlines: { reclaim: 100 } });
    const r = bench.submit({ id: 'r' });
    await bench.finish();
    bench.time += 100;
    expect(bench.steps()).toBe('idle');
    expect(bench.engine.hasWork()).toBe(false);
    expect(bench.engine.stats().scheduler).toMatchObject({ numQuarantined: 1, quarantinedBlocks: 3 });
    bench.send(r);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('F30 a load ends while the engine has nothing else to do', () => {
  // Pinned by: a request that loads is unfinished, so rounds go on (hasWork, inspection.ts; #canSchedule, step-loop.ts; BACKOFF_MS, run-loop.ts).
  for (const pipelineDepth of DEPTHS) {
    for (const bad of [false, true]) {
      it(`depth ${pipelineDepth}: ${bad ? 'with a bad block, to be computed' : 'well'}; nobody has to come to wake it`, async () => {
        const scripts = { r: { ext: 8, async: true, oneshot: true } };
        const bench = new RemoteEngine(scripts, {
          pipelineDepth,
          loadFailurePolicy: 'recompute',
          deadlines: false,
        });
        void bench.engine.run();
        const r = bench.submit({ id: 'r', maxTokens: 2 });
        await until(() => bench.engine.stats().scheduler.numLoading === 1);
        await pause(5);
        expect(bench.kv.pending).toHaveLength(0);
        expect(bench.engine.hasWork()).toBe(true);
        if (bad) {
          const [block] = bench.blocks(r);
          bench.workers[0].extra.push({ invalidBlocks: [{ block, handle: r.handle }] });
        }
        bench.land('r');
        for (let i = 0; i < 2; i++) {
          await until(() => bench.kv.pending.length > 0);
          await bench.kv.deliver();
        }
        expect([...(await r.result()).tokens]).toEqual(bench.kv.text('r', 2));
        await until(() => !bench.engine.hasWork());
        expect(leftovers(bench.engine)).toEqual([]);
        bench.engine.dispose();
      });
    }

    it(`depth ${pipelineDepth}: a load that failed for good is told to its reader, with no other request there`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth, deadlines: false });
      void bench.engine.run();
      const r = bench.submit({ id: 'r' });
      await until(() => bench.engine.stats().scheduler.numLoading === 1);
      bench.workers[0].extra.push({ failedReceiving: [{ handle: r.handle }] });
      bench.land('r');
      expect(codeOf(await rejection(r.result()))).toBe('ERR_BLOCKSTEP_REQUEST');
      await until(() => !bench.engine.hasWork());
      expect(leftovers(bench.engine)).toEqual([]);
      bench.engine.dispose();
    });

    it(`depth ${pipelineDepth}: and so is one whose deadline passes`, async () => {
      const bench = new RemoteEngine(
        { r: { ext: 8, async: true } },
        { pipelineDepth, deadlines: { load: 50 } },
      );
      void bench.engine.run();
      const r = bench.submit({ id: 'r' });
      await until(() => bench.engine.stats().scheduler.numLoading === 1);
      bench.time += 50;
      const error = await rejection(r.result());
      expect((error as Error).message).toMatch(/waited 50 ms for its KV to be loaded/);
      bench.land('r');
      await until(() => !bench.engine.hasWork());
      expect(leftovers(bench.engine)).toEqual([]);
      bench.engine.dispose();
    });
  }
});

describe('F58 the first reason is the reason', () => {
  // Pinned by: finish does nothing the second time (finish.ts), and a stream ends once (abortStream, abort.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: aborted while it loads; that its load fails afterwards changes nothing`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = bench.submit({ id: 'r' });
      bench.steps();
      r.abort();
      bench.workers[0].extra.push({ failedReceiving: [{ handle: r.handle }] });
      bench.land('r');
      await bench.finish();
      expect(await r.result()).toMatchObject({ finishReason: 'abort', tokens: new Int32Array(0) });
      expect(bench.connector.calls.filter((call) => call.startsWith('finished'))).toEqual([
        'finished r abort 2',
      ]);
      expect(bench.engine.stats().scheduler.finished).toMatchObject({ abort: 1, error: 0 });
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: its load failed, and the abort that comes behind is too late`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = bench.submit({ id: 'r' });
      bench.steps();
      bench.workers[0].extra.push({ failedReceiving: [{ handle: r.handle }] });
      bench.steps();
      r.abort('too late');
      bench.engine.abort(r.handle);
      const error = (await rejection(r.result())) as Error;
      expect(error.message).toMatch(/its KV could not be loaded/);
      bench.land('r');
      await bench.finish();
      expect(bench.engine.stats().scheduler.finished).toMatchObject({ abort: 0, error: 1 });
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: aborted with a reason during the last step of a synchronous load that failed`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, delayFree: true } }, { pipelineDepth });
      const r = bench.submit({ id: 'r', maxTokens: 1 });
      bench.engine.step();
      const [block] = bench.blocks(r);
      r.abort('the client has left');
      bench.workers[0].extra.push({ invalidBlocks: [{ block }] });
      await bench.finish();
      expect(await rejection(r.result())).toBe('the client has left');
      expect(bench.connector.calls.filter((call) => call.startsWith('finished'))).toEqual([
        'finished r abort 3',
      ]);
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: what would have been its last step read a load that failed: an error, and no token`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, delayFree: true } }, { pipelineDepth });
      const r = bench.submit({ id: 'r', maxTokens: 1 });
      bench.engine.step();
      const [block] = bench.blocks(r);
      await bench.kv.deliver();
      bench.workers[0].extra.push({ invalidBlocks: [{ block, handle: r.handle }] });
      await bench.finish();
      expect(codeOf(await rejection(r.result()))).toBe('ERR_BLOCKSTEP_REQUEST');
      expect(r.numOutputTokens).toBe(0);
      expect(bench.connector.calls.filter((call) => call.startsWith('finished'))).toEqual([
        'finished r error 0',
      ]);
      bench.send(r);
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: who ends while a step is in flight is told with it, though its slot is another's by then`, async () => {
      const bench = new RemoteEngine({ r: { ext: 8, async: true } }, { pipelineDepth });
      bench.submit({ id: 'o', prompt: prompt(9, 1), maxTokens: 30 });
      const r = bench.submit({ id: 'r' });
      bench.steps();
      bench.workers[0].extra.push({ failedReceiving: [{ handle: r.handle }] });
      bench.land('r');
      bench.steps();
      bench.submit({ id: 'next', prompt: prompt(9, 2), maxTokens: 30 });
      for (let i = 0; i < 9; i++) {
        await bench.kv.deliver();
        bench.steps();
      }
      expect(r.ended).toBe(true);
    });

    it(`depth ${pipelineDepth}: it stopped and is still sent; the abort neither ends it again nor frees it`, async () => {
      const bench = new RemoteEngine({ r: { delayFree: true } }, { pipelineDepth });
      const r = bench.submit({ id: 'r' });
      await bench.finish();
      const result = await r.result();
      bench.engine.abort(['r', r.handle]);
      bench.steps();
      expect(result.finishReason).toBe('length');
      expect(await r.result()).toBe(result);
      expect(bench.free).toBe(29);
      expect(bench.anomalies).toEqual({ 'abort-unknown': 1, 'abort-finished': 1 });
      bench.send(r);
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }
});

describe('F60 one engine whose peers lie does not take others with it', () => {
  // Pinned by: external events are skipped and counted (reports.ts, guards.ts), workers stand
  // inside a boundary (workers.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: two engines in step, one with hostile workers: both answer everything that they were asked`, async () => {
      const scripts = { a: { ext: 8, async: true }, b: { delayFree: true }, c: { ext: 8 } };
      const hostile = new RemoteEngine(scripts, { pipelineDepth, ranks: 2 });
      const sound = new RemoteEngine(scripts, { pipelineDepth, ranks: 2 });
      const pairs = ['a', 'b', 'c'].map((id, i) =>
        [hostile, sound].map((bench) => bench.submit({ id, prompt: prompt(9, i) })),
      );
      const [stranger] = hostile.workers;
      let lies = 0;
      stranger.during = (method) => {
        if (++lies % 7 === 0 && method !== 'startLoads') throw new Error('planted');
        const handle = pairs[lies % 3][0].handle + (lies % 2) * 2 ** 21;
        stranger.extra.push({
          finishedReceiving: [{ handle, child: 3 }],
          finishedSending: [{ handle: handle + 5 }],
          invalidBlocks: [{ block: 1000 + lies }],
        });
      };
      for (let i = 0; i < 60; i++) {
        for (const bench of [hostile, sound]) {
          // Peers of a collective go on only if each of them does: none may throw.
          const { state } = bench.engine.step();
          if (state === 'waiting') await bench.kv.deliver();
          bench.engine.verify();
          bench.land('a');
        }
      }
      for (const bench of [hostile, sound]) {
        const streams = pairs.map((pair) => pair[bench === hostile ? 0 : 1]);
        for (const stream of streams) {
          expect([...(await stream.result()).tokens]).toEqual(bench.kv.text(stream.id, 4));
        }
        stranger.during = () => {};
        stranger.extra = [];
        bench.send(streams[1] as RequestStream);
        await bench.finish();
        expect(bench.engine.health()).toMatchObject({ healthy: true, state: 'open' });
        expect(leftovers(bench.engine)).toEqual([]);
      }
      expect(Object.values(hostile.anomalies).reduce((a, b) => a + b, 0)).toBeGreaterThan(50);
      expect(sound.anomalies).toEqual({});
    });
  }
});
