// F38: a load into blocks that were freed under a step in flight.
import { describe, expect, it } from 'vitest';
import type { Script } from '../support/connector/scripted-connector.js';
import { prompt } from '../support/driver.js';
import { leftovers } from '../support/engine-bench.js';
import { RemoteEngine, WRONG } from './remote-engine.js';

describe('F38 a load into blocks that were freed under a step in flight', () => {
  // Pinned by: notBefore and onStepSettled (begin and settle, workers.ts), steps with synchronous loads kept back (#submit, step-loop.ts).
  /**
   * Six blocks. `r` stops with the answer to the first of two steps in flight, and the second still writes its last block.
   * Then `q` gets its blocks, to load into them.
   */
  async function freedUnderStep(script: Script, hasty = false) {
    const bench = new RemoteEngine({ q: script }, { numBlocks: 7, pipelineDepth: 2, maxNumSeqs: 2 });
    for (const worker of bench.workers) worker.hasty = hasty;
    bench.kv.prompts.set('r', prompt(22));
    const [first] = bench.kv.text('r', 1);
    const r = bench.submit({ id: 'r', prompt: prompt(22), maxTokens: 20, stopTokenIds: [first] });
    bench.steps();
    expect(bench.kv.pending).toHaveLength(2);
    const old = bench.blocks(r);
    expect(old).toHaveLength(6);
    const q = bench.submit({ id: 'q', prompt: prompt(22, 1), maxTokens: 2 });
    await bench.kv.deliver();
    bench.steps();
    await expect(r.result()).resolves.toMatchObject({ finishReason: 'stop', tokens: Int32Array.of(first) });
    return { bench, q, old };
  }

  it('asynchronous: the blocks are given out at once, and written only when the step was executed', async () => {
    const { bench, q, old } = await freedUnderStep({ ext: 21, async: true });
    // Freed under step 1, which is still to be executed.
    expect(bench.kv.pending).toHaveLength(1);
    expect(bench.blocks(q).sort()).toEqual(old.sort());
    bench.land('q');
    expect(bench.kv.log).toEqual(['step 0']);
    expect(bench.steps()).toBe('waiting');
    expect(bench.kv.log).toEqual(['step 0']);
    await bench.kv.deliver();
    await bench.finish();
    expect(bench.kv.log.slice(0, 3)).toEqual(['step 0', 'step 1', 'load q on rank 0']);
    expect([...(await q.result()).tokens]).toEqual(bench.kv.text('q', 2));
    expect(bench.anomalies).toEqual({});
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('a worker that does not wait for it reads what the step has written over it: the memory of this test tells', async () => {
    const { bench, q } = await freedUnderStep({ ext: 21, async: true }, true);
    bench.land('q');
    expect(bench.kv.log).toEqual(['step 0', 'load q on rank 0']);
    await bench.finish();
    expect([...(await q.result()).tokens]).toContain(WRONG);
  });

  it('a load is told not to write before the step that was dispatched last', async () => {
    const bench = new RemoteEngine({ q: { ext: 8, async: true } }, { pipelineDepth: 2 });
    const [worker] = bench.workers;
    bench.submit({ id: 'r', maxTokens: 9 });
    bench.engine.step();
    bench.submit({ id: 'q', prompt: prompt(9, 1) });
    bench.engine.step();
    const begins = worker.begun.filter(({ ids }) => ids.includes('q'));
    expect(begins).toEqual([{ step: 1, notBefore: 0, ids: ['q'] }]);
    bench.land('q');
    await bench.finish();
    expect(bench.kv.log.indexOf('load q on rank 0')).toBe(bench.kv.log.indexOf('step 0') + 1);
  });

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}, synchronous: the step that reads it is kept back behind those in flight, its load with it`, async () => {
      const bench = new RemoteEngine({ q: { ext: 8 } }, { pipelineDepth });
      const [worker] = bench.workers;
      const r = bench.submit({ id: 'r', maxTokens: 9 });
      bench.steps();
      await bench.kv.deliver();
      const q = bench.submit({ id: 'q', prompt: prompt(9, 1), maxTokens: 2 });
      bench.engine.step();
      bench.engine.step();
      const kept = bench.engine.stats().scheduler.step - 1;
      expect(bench.engine.step().state).toBe('waiting');
      expect(bench.engine.stats()).toMatchObject({ stepsInFlight: pipelineDepth });
      expect(bench.kv.pending).toHaveLength(pipelineDepth - 1);
      expect(worker.calls).not.toContain(`startLoads ${kept}`);
      expect(bench.kv.log).not.toContain('load q on rank 0');
      // Nothing is scheduled behind one that is kept back.
      expect(bench.engine.step()).toMatchObject({ scheduledTokens: 0, state: 'waiting' });
      await bench.kv.deliver(pipelineDepth - 1);
      for (let i = 0; i < pipelineDepth; i++) bench.engine.step();
      expect(bench.kv.log.slice(-2)).toEqual([`step ${kept - 1}`, 'load q on rank 0']);
      await bench.finish();
      expect([...(await q.result()).tokens]).toEqual(bench.kv.text('q', 2));
      expect([...(await r.result()).tokens]).toEqual(bench.kv.text('r', 9));
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }

  it('synchronous, into blocks that were freed under the step: the text is right', async () => {
    const { bench, q, old } = await freedUnderStep({ ext: 21 });
    expect(bench.blocks(q).sort()).toEqual(old.sort());
    expect(bench.kv.log).toEqual(['step 0']);
    await bench.finish();
    expect(bench.kv.log.slice(0, 3)).toEqual(['step 0', 'step 1', 'load q on rank 0']);
    expect([...(await q.result()).tokens]).toEqual(bench.kv.text('q', 2));
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('aborted while its step is kept back: the load still comes before the step, and nobody else has the blocks', async () => {
    const { bench, q } = await freedUnderStep({ ext: 21 });
    q.abort();
    const next = bench.submit({ id: 'next', prompt: prompt(22, 2), maxTokens: 1 });
    expect(bench.engine.step().scheduledTokens).toBe(0);
    await bench.finish();
    expect([...(await next.result()).tokens]).toEqual(bench.kv.text('next', 1));
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('with nothing in flight, a load begins with the empty step that admits it', async () => {
    const bench = new RemoteEngine({ q: { ext: 8, async: true } }, { pipelineDepth: 2, ranks: 2 });
    const q = bench.submit({ id: 'q', maxTokens: 2 });
    expect(bench.steps()).toBe('stalled');
    bench.workers[0].land('q');
    expect(bench.kv.log).toEqual(['load q on rank 0']);
    bench.steps();
    expect(bench.engine.stats().scheduler.numLoading).toBe(1);
    bench.workers[1].land('q');
    await bench.finish();
    expect([...(await q.result()).tokens]).toEqual(bench.kv.text('q', 2));
    expect(leftovers(bench.engine)).toEqual([]);
  });
});
