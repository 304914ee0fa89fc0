// `explain` names why a request runs or waits, at a cost that does not grow with the queue.
import { describe, expect, it } from 'vitest';
import { carryRules } from '../../../src/scheduler/options/single-rules.js';
import type { Request } from '../../../src/scheduler/request/request.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { EngineBench, prompt } from '../../support/engine-bench.js';

/** Notes in `visited` whichever of the requests has one of its links, its id, status or uses read. */
function watch(requests: readonly Request[]): Set<number> {
  const visited = new Set<number>();
  for (const request of requests) {
    for (const field of ['prev', 'next', 'id', 'status', 'outstanding', 'priority'] as const) {
      let value: unknown = request[field];
      Object.defineProperty(request, field, {
        get: () => {
          visited.add(request.handle);
          return value;
        },
        set: (next: unknown) => {
          value = next;
        },
      });
    }
  }
  return visited;
}

const A = 'request "a", 6 prompt tokens, 0 of at most 4 generated: ';

describe('however many requests wait', () => {
  for (const policy of ['fcfs', 'priority'] as const) {
    it(`${policy}: explain looks at about a thousand of them, and stats at none`, () => {
      const bench = new EngineBench({ maxNumSeqs: 2, policy });
      const ids = Array.from({ length: 3000 }, (_, i) => `r${i}`);
      for (const id of ids) bench.submit({ id, arrivalTime: bench.time++ });
      bench.engine.step();
      const { requests } = bench.engine.scheduler.inspect();
      const visited = watch(requests);
      const explained = (id: string): [string, number] => {
        visited.clear();
        return [bench.engine.explain(id), visited.size];
      };
      bench.engine.scheduler.stats();
      expect(visited.size).toBe(0);
      const [first, few] = explained('r3');
      expect(first).toContain('place 2 of 2998 in the queue');
      expect(few).toBeLessThan(10);
      const [last, many] = explained('r2999');
      expect(last).toContain('behind at least 1000 of 2998 in the queue; 2 requests run');
      expect(many).toBeGreaterThan(900);
      expect(many).toBeLessThan(2100);
      expect(explained('r1')[1]).toBeLessThan(10);
      expect(() => bench.engine.explain('nobody')).not.toThrow();
    });
  }

  it('the place of one that was passed over counts those before it, and not those that wait for input', () => {
    const bench = new EngineBench({ maxNumSeqs: 1, policy: 'priority' });
    bench.submit({ id: 'idle', maxTokens: 1, resumable: true });
    bench.steps();
    const grammar = { ready: () => false, acceptTokens: () => true, validateTokens: () => 0 };
    bench.submit({ id: 'held', grammar, priority: -1 });
    for (const id of ['x', 'y', 'a']) bench.submit({ id, arrivalTime: bench.time++ });
    bench.engine.step();
    expect(bench.engine.explain('y')).toContain('place 2 of 3 in the queue; 1 requests run');
  });
});

describe('explain', () => {
  it('tells when nobody makes steps', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a' });
    bench.time += 12;
    expect(bench.engine.explain('a')).toBe(
      `${A}waiting for 12 ms, place 1 of 1 in the queue; nobody makes the next step: call run() or step()`,
    );
    void bench.engine.run();
    expect(bench.engine.explain('a')).toMatch(/; the next step decides$/);
    bench.engine.dispose();
  });

  it('tells of running requests, in flight or not', async () => {
    const bench = new EngineBench({}, true);
    const { handle } = bench.submit({ id: 'a' });
    bench.engine.step();
    bench.time += 7;
    const words = `${A}running, first scheduled 7 ms ago; in flight in step 0, submitted to the executor 7 ms ago`;
    expect(bench.engine.explain('a')).toBe(words);
    expect(bench.engine.explain(handle)).toBe(words);
    await bench.executor.deliver();
    expect(bench.engine.step().answered).toBe(true);
    expect(bench.engine.explain('a')).toMatch(
      /1 of at most 4 generated: running, .*; it is due in the next step$/,
    );
    bench.engine.pause('all');
    expect(bench.engine.explain('a')).toMatch(/; everything is paused$/);
  });

  it('tells of prompts that are computed in parts', () => {
    const bench = new EngineBench({ maxNumBatchedTokens: 4 });
    bench.submit({ id: 'a', prompt: prompt(11) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/: running, 4 prompt tokens scheduled, first scheduled/);
  });

  it('tells why a request is not admitted: the number of sequences', () => {
    const bench = new EngineBench({ maxNumSeqs: 2 });
    for (const [i, id] of ['x', 'y', 'z', 'a'].entries()) bench.submit({ id, prompt: prompt(6, i) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(
      /place 2 of 2 in the queue; 2 requests run, the most that maxNumSeqs allows$/,
    );
  });

  it('the seats that sessions keep while they wait for input', () => {
    const bench = new EngineBench(carryRules({ maxNumSeqs: 1, sessionSeats: 'withIdle' }));
    bench.submit({ id: 'session', maxTokens: 1, resumable: true });
    for (let i = 0; i < 3; i++) bench.engine.step();
    bench.submit({ id: 'a', prompt: prompt(6, 1) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(
      /; 0 requests run and 1 sessions wait for input, the most that maxNumSeqs allows$/,
    );
  });

  it('the outputs that steps in flight bring for a preempted request', async () => {
    const options = carryRules({ numBlocks: 7, pipelineDepth: 3, preemptedOutputs: 'await' });
    const bench = new EngineBench(options, true);
    bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 16 });
    bench.submit({ id: 'a', maxTokens: 16 });
    while (!bench.engine.explain('a').includes('preempted')) {
      if (bench.engine.step().stepsInFlight === 3) await bench.executor.deliver(1);
    }
    await bench.executor.deliver(1);
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/; steps from before its preemption still bring its outputs$/);
    await bench.finish();
  });

  it('the rows', () => {
    const connector = new ScriptedConnector({
      held: { ext: 4, async: true },
      other: { ext: 4, async: true },
    });
    const bench = new EngineBench({ maxNumSeqs: 2, numRows: 2, connector });
    bench.submit({ id: 'held' });
    bench.submit({ id: 'other', prompt: prompt(6, 1) });
    bench.engine.step();
    bench.submit({ id: 'a' });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/; all 2 rows of the KV slot table are in use$/);
  });

  it('the blocks, its own need and that of the head of the queue', () => {
    const bench = new EngineBench({ numBlocks: 9 });
    const held = bench.submit({ id: 'held', prompt: prompt(20), maxTokens: 1 });
    bench.engine.hold(held.handle, 'store', 'job');
    bench.steps();
    bench.submit({ id: 'a', prompt: prompt(17, 1) });
    bench.submit({ id: 'b', prompt: prompt(3, 2) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(
      /place 1 of 2 in the queue; it needs 5 free blocks, there are 3$/,
    );
    expect(bench.engine.explain('b')).toMatch(
      /place 2 of 2 in the queue; request "a" at the head of the queue needs 5 free blocks, there are 3$/,
    );
    bench.engine.pause('new');
    expect(bench.engine.explain('a')).toMatch(/; admission is paused$/);
    bench.engine.pause('all');
    expect(bench.engine.explain('a')).toMatch(/; everything is paused$/);
  });

  it('needs no free block for cached ones that others hold', () => {
    const bench = new EngineBench({ numBlocks: 9, maxNumBatchedTokens: 64 });
    const held = bench.submit({ id: 'held', prompt: prompt(20), maxTokens: 1 });
    bench.engine.hold(held.handle, 'store', 'job');
    bench.steps();
    // 8 blocks in all, 5 of them held and cached: 3 are free, 4 are needed.
    bench.submit({ id: 'a', prompt: Int32Array.of(...prompt(20), ...prompt(12, 3)) });
    bench.submit({ id: 'b', prompt: Int32Array.of(...prompt(16), ...prompt(16, 4)) });
    bench.engine.step();
    expect(bench.executor.seen.at(-1)?.ids).toEqual(['a']);
    expect(bench.engine.explain('b')).toMatch(/; it needs 4 free blocks, there are 0$/);
  });

  it('needs no free block for those that it holds already', () => {
    const bench = new EngineBench({ numBlocks: 9, maxNumBatchedTokens: 64 });
    const held = bench.submit({ id: 'held', prompt: prompt(16), maxTokens: 1 });
    bench.engine.hold(held.handle, 'store', 'job');
    const session = bench.submit({ id: 'a', prompt: prompt(9, 1), maxTokens: 1, resumable: true });
    bench.steps();
    // 8 blocks in all: 4 of `held`, 3 of the session, whose text of 9 tokens and a chunk of 12 fill 6.
    session.addChunk({ prompt: prompt(12, 2) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/; it needs 3 free blocks, there are 1$/);
  });

  it('the budget of the step', () => {
    const bench = new EngineBench({ maxNumBatchedTokens: 8 });
    bench.submit({ id: 'x', prompt: prompt(30) });
    bench.submit({ id: 'a' });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/; the last step used its whole budget of 8 tokens$/);
  });

  it('a preemption, its own and in the last step', () => {
    const bench = new EngineBench({ numBlocks: 6, blockSize: 4 });
    bench.submit({ id: 'x', prompt: prompt(8), maxTokens: 20 });
    bench.submit({ id: 'a', prompt: prompt(7, 1), maxTokens: 20 });
    while (bench.engine.stats().scheduler.numPreemptions === 0) bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(
      /generated, preempted once: preempted and waiting to be computed again for 0 ms, .*; (it needs \d+ free blocks|the last step preempted)/,
    );
  });

  it('the pipeline', () => {
    const bench = new EngineBench({}, true);
    bench.submit({ id: 'x' });
    bench.engine.step();
    bench.submit({ id: 'a' });
    bench.time += 3;
    expect(bench.engine.explain('a')).toMatch(
      /; the next step is made when the executor has answered step 0, submitted 3 ms ago$/,
    );
  });

  it('tells of aborted requests, and of finished ones whose blocks are held', () => {
    const bench = new EngineBench();
    const { handle } = bench.submit({ id: 'a', maxTokens: 1 });
    bench.engine.hold(handle, 'store', 'job 7');
    bench.submit({ id: 'b' }).abort();
    expect(bench.engine.explain('b')).toMatch(/: aborted, its blocks are freed before the next step$/);
    bench.steps();
    bench.time += 5;
    const words =
      /: finished \(length\) 5 ms ago, its blocks are still used by store:job 7 for \d+ ms; left: 59995 ms of deadlines.reclaim$/;
    expect(bench.engine.explain('a')).toMatch(words);
    expect(bench.engine.explain(handle)).toMatch(words);
    bench.engine.complete(handle, 'store', 'job 7');
    expect(bench.engine.explain('a')).toBe(
      'request "a" is unknown: it was never submitted, or has ended and holds no blocks',
    );
  });

  it('works in every state', () => {
    const bench = new EngineBench({ executorTimeoutMs: 10 }, true);
    for (const id of ['a', 'b'])
      bench
        .submit({ id })
        .result()
        .catch(() => {});
    bench.engine.step();
    bench
      .submit({ id: 'c', prompt: prompt(30) })
      .result()
      .catch(() => {});
    bench.time += 10;
    expect(() => bench.engine.step()).toThrow();
    expect(bench.engine.explain('a')).toMatch(/; the engine is broken: the executor has not answered step 0/);
    expect(bench.engine.explain('c')).toMatch(/no step will be made; the engine is broken/);
    bench.engine.dispose();
    expect(bench.engine.explain('c')).toMatch(/no step will be made; the engine was disposed$/);
    expect(bench.engine.explain('nobody')).toMatch(/is unknown/);
  });

  it('works while the native side is broken and nobody has noticed yet', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a', prompt: prompt(30) });
    bench.submit({ id: 'b', prompt: prompt(30, 1) });
    bench.submit({ id: 'c', prompt: prompt(30, 2) });
    bench.engine.step();
    bench.engine.scheduler.core.control[0] = 1e6;
    expect(bench.engine.explain('b')).toMatch(/: running/);
    expect(bench.engine.explain('c')).toMatch(
      /; the reason is unavailable: BlockstepError: .*pending operations/,
    );
  });
});
