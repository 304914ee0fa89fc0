// Every method of a worker throws, answers nonsense, calls back, aborts.
import { describe, expect, it } from 'vitest';
import type { ConnectorOutput, WorkerConnector } from '../../src/connector.js';
import { EngineBench, leftovers, prompt } from '../support/engine-bench.js';
import { RemoteConnector, type RemoteLoad } from './remote.js';

const METHODS = ['handlePreemptions', 'startLoads', 'startStores', 'onStepSettled', 'getFinished'] as const;
type Method = (typeof METHODS)[number] | 'shutdown';

/** A worker that does all that it is asked for at once. */
class Diligent implements WorkerConnector {
  /** Whose KV is sent. */
  readonly sends = new Set<number>();
  readonly #loaded: { handle: number; step: number }[] = [];

  handlePreemptions(): void {}

  startLoads(metadata: unknown): void {
    const { loads } = metadata as { loads: readonly RemoteLoad[] };
    this.#loaded.push(...loads.map(({ handle, step }) => ({ handle, step })));
  }

  startStores(): void {}

  onStepSettled(): void {}

  getFinished(finished: readonly number[]): ConnectorOutput | null {
    const sent = finished.filter((handle) => this.sends.has(handle));
    return {
      finishedReceiving: this.#loaded.splice(0),
      finishedSending: sent.map((handle) => ({ handle })),
    };
  }

  shutdown(): void {}
}

type Attack = (normal: () => unknown, bench: EngineBench) => unknown;

/** An engine of two ranks, of which the second one does something of its own in one method. */
function attacked(method: Method, attack: Attack, pipelineDepth: 1 | 2 = 1) {
  const connector = new RemoteConnector(
    { v: { ext: 4, async: true, delayFree: true } },
    { reporters: [[0, 1]] },
  );
  const good = [new Diligent(), new Diligent()];
  let calls = 0;
  let bench: EngineBench | undefined;
  const second = new Proxy(good[1], {
    get: (target, name) => {
      const own = Reflect.get(target, name) as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        const normal = (): unknown => Reflect.apply(own, target, args);
        if (name !== method || bench === undefined) return normal();
        calls++;
        return attack(normal, bench);
      };
    },
  });
  const deadlines = { load: 100, reclaim: 100 };
  bench = new EngineBench({ connector, workers: [good[0], second], deadlines, pipelineDepth });
  return { bench, connector, good, calls: () => calls };
}

/**
 * `v` is loaded, runs and is sent; `b` runs beside it; transfers that are never reported are given
 * up. @returns how `v` ended
 */
async function live({ bench, connector, good }: ReturnType<typeof attacked>): Promise<string | undefined> {
  const b = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 8 });
  const v = bench.submit({ id: 'v', maxTokens: 2 });
  for (const worker of good) worker.sends.add(v.handle);
  for (let i = 0; i < 4; i++) {
    bench.steps();
    bench.engine.verify();
    bench.time += 100;
  }
  await expect(b.result()).resolves.toMatchObject({ finishReason: 'length', tokens: { length: 8 } });
  expect(bench.engine.hasWork()).toBe(false);
  expect(bench.engine.health()).toEqual({ healthy: true, state: 'open', authority: 'host', reasons: [] });
  bench.engine.fenceTransfers();
  expect(leftovers(bench.engine)).toEqual([]);
  expect(connector.calls.filter((call) => call.startsWith('finished v'))).toHaveLength(1);
  return v.result().then(
    ({ finishReason }) => finishReason,
    (error: unknown) => (error as { code: string }).code,
  );
}

const NONSENSE: Record<string, () => unknown> = {
  undefined: () => undefined,
  'a number': () => 5,
  'a string': () => 'all',
  'an array': () => [1],
  'a promise': () => Promise.resolve(null),
  'a list that is a number': () => ({ finishedReceiving: 5, invalidBlocks: 5 }),
  'reports that are none': () => ({ finishedReceiving: [null, 5, 'x', undefined], failedReceiving: [[]] }),
  'handles that are none': () => ({ finishedSending: [{ handle: 'v' }, { handle: -1 }, { handle: 1.5 }] }),
  'blocks that are none': () => ({ invalidBlocks: [null, {}, { block: 'x' }, { block: -1 }, { block: 99 }] }),
  'a list that throws': () => ({
    finishedReceiving: {
      [Symbol.iterator]: () => {
        throw new Error('planted');
      },
    },
  }),
  'a getter that throws': () => ({
    get invalidBlocks() {
      throw new Error('planted');
    },
  }),
};

// Pinned by: the boundary around every call of a worker, `#try` in src/engine/workers/workers.ts, and `parseOutput`.
describe('a hostile worker costs the requests whose KV it moves, never the engine', () => {
  /** Loads of a step in which a worker failed before they began have failed. */
  const ENDS: Partial<Record<Method, string>> = {
    handlePreemptions: 'ERR_BLOCKSTEP_REQUEST',
    startLoads: 'ERR_BLOCKSTEP_REQUEST',
    getFinished: 'ERR_BLOCKSTEP_REQUEST',
  };

  for (const method of METHODS) {
    for (const depth of [1, 2] as const) {
      it(`${method} throws, always, at depth ${depth}`, async () => {
        const run = attacked(
          method,
          () => {
            throw new Error('planted');
          },
          depth,
        );
        expect(await live(run)).toBe(ENDS[method] ?? 'length');
        expect(run.calls()).toBeGreaterThan(0);
        expect(run.bench.engine.stats().workerFailures).toBe(run.calls());
      });
    }

    it(`${method} steps and disposes the engine: refused, and it may go on`, async () => {
      const codes = new Set<unknown>();
      const run = attacked(method, (normal, { engine }) => {
        for (const call of [() => engine.step(), () => engine.dispose()]) {
          try {
            codes.add(call());
          } catch (error) {
            codes.add((error as { code: unknown }).code);
          }
        }
        return normal();
      });
      expect(await live(run)).toBe('length');
      expect([...codes]).toEqual(['ERR_BLOCKSTEP_REENTRANT']);
      expect(run.bench.engine.stats().workerFailures).toBe(0);
    });

    it(`${method} aborts what it serves: done before the next step`, async () => {
      for (const depth of [1, 2] as const) {
        const run = attacked(
          method,
          (normal, { engine }) => {
            engine.abort('v');
            return normal();
          },
          depth,
        );
        expect(await live(run)).toBe('abort');
      }
    });
  }

  it('getFinished throws once: what it had to say comes with the next round', async () => {
    let first = true;
    const run = attacked('getFinished', (normal) => {
      if (!first) return normal();
      first = false;
      throw new Error('planted');
    });
    expect(await live(run)).toBe('length');
  });

  for (const [what, answer] of Object.entries(NONSENSE)) {
    it(`getFinished answers ${what}: the reports of the other ranks are taken`, async () => {
      let rounds = 0;
      const run = attacked('getFinished', () => (rounds++ < 20 ? answer() : null));
      expect(await live(run)).toBe('ERR_BLOCKSTEP_REQUEST');
      const { workerFailures, scheduler } = run.bench.engine.stats();
      expect(scheduler.loadTimeouts).toBe(1);
      expect(scheduler.outstanding.load.count).toBe(0);
      expect(workerFailures).toBeLessThanOrEqual(run.calls());
    });
  }

  it('getFinished speaks for another rank: its reports are its own', async () => {
    const run = attacked('getFinished', (normal) => {
      const { finishedReceiving = [] } = normal() as ConnectorOutput;
      return {
        finishedReceiving: finishedReceiving.flatMap((each) => [0, 0, 0].map((rank) => ({ ...each, rank }))),
      };
    });
    expect(await live(run)).toBe('length');
    expect(run.bench.engine.stats().scheduler.anomalies).toEqual({ 'duplicate-completion': 2 });
  });

  it('shutdown throws: the engine is disposed all the same', () => {
    const run = attacked('shutdown', () => {
      throw new Error('planted');
    });
    run.bench.engine.dispose();
    expect(run.calls()).toBe(1);
    expect(run.bench.engine.health().state).toBe('disposed');
  });
});
