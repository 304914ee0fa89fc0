// Blocks that an executor lost: all requests that share them are computed again or fail, by policy.
import { describe, expect, it } from 'vitest';
import { type BlockstepError, EntryKind } from '../../../src/index.js';
import { throwingProxy } from '../../misuse/bad-values.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { leftovers, rejection } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { continuation } from './attentive-executor.js';
import { ForgetfulBench, said, text } from './forgetful-bench.js';

describe('a block that the executor lost', () => {
  it.each([1, 2, 3] as const)('depth %i: its holder is computed again from it on', async (pipelineDepth) => {
    const bench = new ForgetfulBench({ pipelineDepth });
    const a = bench.submit('a', text(14));
    bench.engine.step();
    bench.lose(bench.blocksOf(a)[1]);
    await bench.answer();
    await bench.finish();
    expect(await said(a)).toEqual(continuation(text(14), 6));
    expect(bench.seen.flat()).toContain(`a ${EntryKind.resumed} 4`);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('all who share it are computed again, and nobody else', async () => {
    const bench = new ForgetfulBench();
    const [a, b, c] = [
      bench.submit('a', text(9)),
      bench.submit('b', text(13)),
      bench.submit('c', text(9, 1)),
    ];
    bench.engine.step();
    bench.lose(bench.blocksOf(a)[0]);
    await bench.answer();
    await bench.finish();
    const resumed = bench.seen.flat().filter((entry) => entry.includes(` ${EntryKind.resumed} `));
    // The later request hits blocks that the earlier request computes in the same step.
    expect(resumed.sort()).toEqual([`a ${EntryKind.resumed} 0`, `b ${EntryKind.resumed} 8`]);
    expect(await Promise.all([a, b, c].map(said))).toEqual([
      continuation(text(9), 6),
      continuation(text(13), 6),
      continuation(text(9, 1), 6),
    ]);
  });

  it('is cached and nobody holds it: nobody finds it any more, and what lies in front of it is still found', async () => {
    const bench = new ForgetfulBench();
    const a = bench.submit('a', text(14));
    bench.engine.step();
    const blocks = bench.blocksOf(a);
    await bench.finish();
    const other = bench.submit('other', text(5, 1));
    bench.lose(blocks[2]);
    await bench.finish();
    expect(await said(other)).toEqual(continuation(text(5, 1), 6));
    const again = bench.submit('a', text(14));
    await bench.finish();
    expect((await again.result()).numCachedTokens).toBe(8);
    expect(await said(again)).toEqual(continuation(text(14), 6));
  });

  it.each([1, 2, 3] as const)(
    'policy fail, depth %i: whoever holds it ends, and the others go on',
    async (pipelineDepth) => {
      const bench = new ForgetfulBench({ loadFailurePolicy: 'fail', pipelineDepth });
      const [a, b] = [bench.submit('a', text(9)), bench.submit('b', text(9, 1))];
      bench.engine.step();
      const [, lost] = bench.blocksOf(a);
      for (let i = 0; i < 3; i++) {
        await bench.answer();
        bench.engine.step();
      }
      bench.lose(lost);
      await bench.finish();
      const read: number[] = [];
      const reading = (async () => {
        for await (const { tokens } of a) read.push(...tokens);
      })();
      const error = (await rejection(reading)) as BlockstepError;
      expect(read.length).toBeGreaterThan(1);
      expect(read).toEqual(continuation(text(9), read.length));
      expect(error.code).toBe('ERR_BLOCKSTEP_REQUEST');
      expect(error.message).toBe('request "a" failed: the executor lost a block of its KV');
      expect(await said(b)).toEqual(continuation(text(9, 1), 6));
      expect(leftovers(bench.engine)).toEqual([]);
      // Its blocks behind the lost block are not found when the text is computed again.
      const longer = [...text(9), ...continuation(text(9), 6)];
      for (const id of ['first', 'second']) {
        const again = bench.submit(id, longer);
        await bench.finish();
        expect(await said(again)).toEqual(continuation(longer, 6));
      }
    },
  );

  it('policy fail: idle sessions that hold it end too, more of them than the step has entries', async () => {
    const bench = new ForgetfulBench({ loadFailurePolicy: 'fail', numRows: 64 });
    const ids = Array.from({ length: 24 }, (_, i) => `s${i}`);
    const open = ids.map((id) => bench.submit(id, text(5), { resumable: true, maxTokens: 1 }));
    for (let i = 0; i < 60; i++) {
      bench.engine.step();
      await bench.answer();
    }
    const shared = bench.blocksOf(open[0])[0];
    expect(open.map((stream) => bench.blocksOf(stream)[0])).toEqual(ids.map(() => shared));
    const other = bench.submit('other', text(5, 1));
    bench.lose(shared);
    await bench.finish();
    for (const stream of open)
      expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    expect(await said(other)).toEqual(continuation(text(5, 1), 6));
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('policy recompute: an idle session that holds it answers its next chunk rightly', async () => {
    const bench = new ForgetfulBench();
    const session = bench.submit('s', text(9), { resumable: true, maxTokens: 2 });
    for (let i = 0; i < 5; i++) {
      bench.engine.step();
      await bench.answer();
    }
    bench.submit('other', text(5, 1));
    bench.lose(bench.blocksOf(session)[1]);
    await bench.finish();
    session.addChunk({ prompt: Int32Array.of(7, 8), maxTokens: 3 });
    session.endInput();
    await bench.finish();
    const first = continuation(text(9), 2);
    const second = continuation([...text(9), first[0], 7, 8], 3);
    expect(await said(session)).toEqual([...first, ...second]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('whoever was preempted while the step ran has no row: what the step brings for it is dropped', async () => {
    // Of 7 blocks each wants 4; the second one is preempted for the first while its step is computed.
    const bench = new ForgetfulBench({
      pipelineDepth: 2,
      numBlocks: 8,
      reserveFullIsl: false,
      maxModelLen: 28,
    });
    const [a, b] = [bench.submit('a', text(11)), bench.submit('b', text(11, 1))];
    bench.engine.step();
    await bench.answer();
    for (let i = 0; i < 20 && bench.engine.stats().scheduler.numPreemptions === 0; i++) {
      bench.lose(bench.blocksOf(b)[0]);
      bench.engine.step();
      if (bench.engine.stats().scheduler.numPreemptions === 0) await bench.answer();
    }
    await bench.finish();
    expect(await Promise.all([a, b].map(said))).toEqual([
      continuation(text(11), 6),
      continuation(text(11, 1), 6),
    ]);
  });

  it('whoever ended with an error of his own while the step ran leaves nothing that was computed on it', async () => {
    const bench = new ForgetfulBench({ pipelineDepth: 2 });
    const a = bench.submit('a', text(5));
    bench.engine.step();
    const shared = bench.blocksOf(a)[0];
    await bench.finish();
    bench.submit('late', text(14), { timeoutMs: 5 });
    bench.lose(shared);
    bench.engine.step();
    bench.time = 10;
    bench.engine.step();
    await bench.finish();
    for (const id of ['first', 'second']) {
      const stream = bench.submit(id, text(14));
      await bench.finish();
      expect(await said(stream)).toEqual(continuation(text(14), 6));
    }
  });

  it('together with a row that fails: that request ends with its own error, the other one is computed again', async () => {
    const bench = new ForgetfulBench();
    const [a, b] = [bench.submit('a', text(9)), bench.submit('b', text(13))];
    bench.engine.step();
    bench.fail(Uint8Array.of(1, 0));
    bench.lose(bench.blocksOf(a)[0]);
    await bench.finish();
    expect(await rejection(a.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
    expect(await said(b)).toEqual(continuation(text(13), 6));
  });

  it('of a request whose load is under way: it computes from that block on when the load is over', async () => {
    const connector = new ScriptedConnector({ b: { ext: 8, async: true, oneshot: true } });
    const bench = new ForgetfulBench({ connector });
    const a = bench.submit('a', text(5));
    bench.engine.step();
    const shared = bench.blocksOf(a)[0];
    await bench.finish();
    const b = bench.submit('b', text(13));
    bench.engine.step();
    expect(bench.blocksOf(b)[0]).toBe(shared);
    const other = bench.submit('other', text(5, 1));
    bench.lose(shared);
    await bench.finish();
    await said(other);
    schedulerOf(bench.engine).updateTransfers({ finishedReceiving: [{ handle: b.handle }] });
    await bench.finish();
    expect(await said(b)).toEqual(continuation(text(13), 6));
    expect(bench.seen.flat()).toContain(`b ${EntryKind.new} 0`);
  });
});

describe('lost blocks that are none', () => {
  it('are counted, each, and the step is good', async () => {
    const bench = new ForgetfulBench();
    const a = bench.submit('a', text(5));
    bench.lose(0, 33, 2 ** 40, -1, 1.5, 'x' as never, null as never);
    await bench.finish();
    expect(await said(a)).toEqual(continuation(text(5), 6));
    const { scheduler, wrongAnswers, failedSteps } = bench.engine.stats();
    expect(scheduler.anomalies['invalid-block']).toBe(7);
    expect({ wrongAnswers, failedSteps }).toEqual({ wrongAnswers: 0, failedSteps: 0 });
  });

  it('in strict mode break the engine, as any anomaly that a step finds', async () => {
    const bench = new ForgetfulBench({ strict: true });
    const a = bench.submit('a', text(5));
    bench.lose(33);
    bench.engine.step();
    await bench.answer();
    expect(() => bench.engine.step()).toThrow(/block 33 is not in the pool/);
    expect(await rejection(a.result())).toMatchObject({
      code: expect.stringMatching('ERR_BLOCKSTEP') as string,
    });
  });

  it.each<[string, unknown]>([
    ['a number', 1],
    ['a string', 'x'],
    ['null', null],
    ['an object', {}],
    ['a set', new Set([1])],
    ['a proxy that throws', throwingProxy([])],
  ])('in %s: the step fails', async (_, lostBlocks) => {
    const bench = new ForgetfulBench();
    bench.executor.atOnce = () => true;
    bench.executor.adds = () => ({ lostBlocks });
    const a = bench.submit('a', text(5));
    bench.engine.step();
    expect(await rejection(a.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
    expect(bench.engine.stats()).toMatchObject({ wrongAnswers: 1, failedSteps: 1 });
  });
});
