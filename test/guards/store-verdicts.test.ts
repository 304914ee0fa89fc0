// F25, F37: KV that workers must not store.
import { describe, expect, it } from 'vitest';
import { prompt } from '../support/driver.js';
import { leftovers, rejection } from '../support/engine-bench.js';
import { RemoteEngine } from './remote-engine.js';

/**
 * Workers must not store KV that a failed row, step or load left unwritten or wrong (`StoreStep.failed`). Each test names the
 * entries whose KV would otherwise get into another tier.
 */

const DEPTHS = [1, 2] as const;
const POLICIES = ['fail', 'recompute'] as const;

/** The handles that the worker was told not to store, step by step. */
function unstored(bench: RemoteEngine): Map<number, number[]> {
  return bench.workers[0].unstoredIn;
}

/** Every handle that was named. */
function all(told: Map<number, number[]>): number[] {
  return [...told.values()].flat();
}

describe('F25 a synchronous load that failed: what was computed behind it is not stored', () => {
  // Pinned by: `spoilEntries` in failSyncLoads (load-failure.ts), `Plan.failedHandles` (plan.ts).
  for (const pipelineDepth of DEPTHS) {
    for (const loadFailurePolicy of POLICIES) {
      it(`${loadFailurePolicy}, depth ${pipelineDepth}`, async () => {
        const bench = new RemoteEngine({ r: { ext: 8 } }, { pipelineDepth, loadFailurePolicy, ranks: 2 });
        const told = unstored(bench);
        bench.workers[1].spoiled.add('r');
        const r = bench.submit({ id: 'r' });
        const o = bench.submit({ id: 'o', prompt: prompt(9, 1) });
        await bench.finish();
        expect(told.get(0)).toEqual([r.handle]);
        expect(all(told)).not.toContain(o.handle);
        expect([...(await o.result()).tokens]).toEqual(bench.kv.text('o', 4));
        expect(leftovers(bench.engine)).toEqual([]);
      });

      it.each([true, false])(
        `${loadFailurePolicy}, depth ${pipelineDepth}: aborted before the verdict, evictFailedLoads %s`,
        async (evictFailedLoads) => {
          const options = {
            pipelineDepth,
            loadFailurePolicy,
            deviations: evictFailedLoads || ['evictFailedLoads'],
          };
          const bench = new RemoteEngine({ r: { ext: 8 } }, options);
          const told = unstored(bench);
          bench.workers[0].spoiled.add('r');
          const r = bench.submit({ id: 'r' });
          bench.steps();
          r.abort();
          await bench.finish();
          expect(told.get(0)).toEqual([r.handle]);
          expect(leftovers(bench.engine)).toEqual([]);
        },
      );

      it(`${loadFailurePolicy}, depth ${pipelineDepth}: whoever shares its blocks`, async () => {
        const bench = new RemoteEngine({ r: { ext: 8 } }, { pipelineDepth, loadFailurePolicy });
        const told = unstored(bench);
        bench.workers[0].spoiled.add('r');
        const r = bench.submit({ id: 'r', prompt: prompt(13) });
        const s = bench.submit({ id: 's', prompt: Int32Array.of(...prompt(8), 901, 902, 903) });
        await bench.finish();
        expect(told.get(0)?.sort()).toEqual([r.handle, s.handle].sort());
        expect([...(await s.result()).tokens]).toEqual(bench.kv.text('s', 4));
        expect(leftovers(bench.engine)).toEqual([]);
      });
    }
  }
});

/** Makes the oldest step that waits fail in its first row. */
function failFirstRow(bench: RemoteEngine, tokens: number[]): void {
  bench.kv.plant = () => ({
    tokens: Int32Array.from(tokens),
    counts: Int32Array.of(0, ...tokens.map(() => 1)),
    errors: Uint8Array.of(1, ...tokens.map(() => 0)),
  });
}

describe('F25 a row that failed: rows in flight behind it are not stored either', () => {
  // Pinned by: `finishReason` in Plan.failedHandles (plan.ts); `dropEntries` (preempt.ts).
  it('the next row of the same request, in flight when the first one failed', async () => {
    const bench = new RemoteEngine({}, { pipelineDepth: 2 });
    const told = unstored(bench);
    const a = bench.submit({ id: 'a', maxTokens: 6 });
    bench.steps();
    failFirstRow(bench, []);
    await bench.kv.deliver();
    bench.steps();
    await bench.finish();
    expect(told.get(0)).toEqual([a.handle]);
    expect(told.get(1)).toEqual([a.handle]);
    expect((await rejection(a.result())) as object).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: whoever shares its blocks, in that step and behind it`, async () => {
      const bench = new RemoteEngine({}, { pipelineDepth });
      const told = unstored(bench);
      const a = bench.submit({ id: 'a', prompt: prompt(13), maxTokens: 2 });
      const b = bench.submit({ id: 'b', prompt: Int32Array.of(...prompt(8), 901, 902, 903), maxTokens: 2 });
      bench.steps();
      failFirstRow(bench, bench.kv.text('b', 1));
      await bench.kv.deliver();
      bench.steps();
      await bench.finish();
      expect(told.get(0)?.sort()).toEqual([a.handle, b.handle].sort());
      if (pipelineDepth === 2) expect(told.get(1)).toContain(b.handle);
      expect([...(await b.result()).tokens]).toEqual(bench.kv.text('b', 2));
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a sharer that was aborted meanwhile, and holds its blocks to be sent`, async () => {
      const bench = new RemoteEngine({ b: { delayAbort: true } }, { pipelineDepth });
      const told = unstored(bench);
      const a = bench.submit({ id: 'a', prompt: prompt(13), maxTokens: 2 });
      const b = bench.submit({ id: 'b', prompt: Int32Array.of(...prompt(8), 901, 902, 903), maxTokens: 2 });
      bench.steps();
      b.abort();
      failFirstRow(bench, bench.kv.text('b', 1));
      await bench.kv.deliver();
      bench.steps();
      expect(told.get(0)?.sort()).toEqual([a.handle, b.handle].sort());
      bench.send(b);
      await bench.finish();
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }
});

describe('F25 a forced reset: what is in flight is not stored under the new weights', () => {
  it('depth 2', async () => {
    const bench = new RemoteEngine({}, { pipelineDepth: 2 });
    const told = unstored(bench);
    const a = bench.submit({ id: 'a', maxTokens: 3 });
    bench.steps();
    bench.engine.resetPrefixCache({ resetRunning: true });
    await bench.finish();
    expect(told.get(0)).toEqual([a.handle]);
    expect([...(await a.result()).tokens]).toEqual(bench.kv.text('a', 3));
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('F37 with protection fence, what ended before its step was answered is not stored', () => {
  // Pinned by: `spoilEnded` (update.ts): nobody kept the blocks, so a step that runs already may have been given them.
  for (const protection of ['fence', 'own'] as const) {
    it(`${protection}: a request that was aborted while its step ran`, async () => {
      const bench = new RemoteEngine({}, { pipelineDepth: 2, protection });
      const told = unstored(bench);
      const a = bench.submit({ id: 'a', maxTokens: 6 });
      bench.steps();
      a.abort();
      await bench.finish();
      expect(told.get(0) ?? []).toEqual(protection === 'fence' ? [a.handle] : []);
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }
});
