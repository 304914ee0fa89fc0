// Sessions and grammars through an engine.
import { describe, expect, it } from 'vitest';
import type { ExecutorPlan, Grammar } from '../../../src/index.js';
import {
  answerOf,
  EngineBench,
  leftovers,
  outputs,
  prompt,
  rejection,
  settled,
} from '../../support/engine-bench.js';
import { pause, until } from '../../support/waiting.js';

describe('a session', () => {
  it('has an output with a reason for each answer, and goes on until its input has ended', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 2, resumable: true });
    const all = outputs(stream);
    for (let i = 0; i < 3; i++) {
      bench.steps();
      await settled();
      if (i < 2) expect(stream.addChunk({ prompt: prompt(3, i + 1) })).toBe('started');
    }
    expect(stream.ended).toBe(false);
    expect(stream.endInput()).toBe('ended');
    expect(bench.engine.stats()).toMatchObject({ streams: 0, readersWaiting: 0 });
    const read = await all;
    const answer = [
      [1, null, false],
      [1, 'length', true],
    ];
    expect(
      read.map(({ tokens, finishReason, continues }) => [tokens.length, finishReason, continues]),
    ).toEqual([...answer, ...answer, ...answer, [0, 'length', false]]);
    expect((await stream.result()).tokens).toHaveLength(6);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('keeps its answers apart for a slow reader too', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2, stopTokenIds: [700], resumable: true });
    expect(stream.addChunk({ prompt: prompt(2, 1), maxTokens: 3 })).toBe('queued');
    expect(stream.endInput()).toBe('queued');
    bench.steps();
    const read = await outputs(stream);
    expect(
      read.map(({ tokens, finishReason, stopReason, continues }) => [
        tokens.length,
        finishReason,
        stopReason,
        continues,
      ]),
    ).toEqual([
      [2, 'stop', 700, true],
      [3, 'length', null, false],
    ]);
  });

  it('takes chunks of what lives and is a session only', async () => {
    const bench = new EngineBench();
    const plain = bench.submit({ id: 'plain', maxTokens: 1 });
    expect(plain.addChunk({ prompt: prompt(2) })).toBe('skipped');
    expect(plain.endInput()).toBe('skipped');
    const session = bench.submit({ id: 'session', maxTokens: 1, resumable: true });
    expect(() => session.addChunk({ prompt: [] as never })).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG' }),
    );
    bench.steps();
    session.abort();
    expect([session.addChunk({ prompt: prompt(2) }), session.endInput()]).toEqual(['skipped', 'skipped']);
    bench.steps();
    expect((await session.result()).finishReason).toBe('abort');
    expect(leftovers(bench.engine)).toEqual([]);
    bench.engine.dispose();
    expect(() => session.addChunk({ prompt: prompt(2) })).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_DISPOSED' }),
    );
  });

  it('whose input ends before it said anything ends with its answer', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1, resumable: true });
    expect(stream.endInput()).toBe('queued');
    bench.steps();
    expect(await stream.result()).toMatchObject({ finishReason: 'length' });
  });

  it('that waits too long for its next chunk fails, and the engine is not troubled', async () => {
    const bench = new EngineBench({ deadlines: { streamingInput: 100 } });
    const stream = bench.submit({ id: 'a', maxTokens: 1, resumable: true });
    expect(bench.steps()).toBe('idle');
    expect(bench.engine.explain('a')).toMatch(
      /: waiting for 0 ms for the next chunk of its session; left: 100 ms of deadlines.streamingInput$/,
    );
    bench.time += 99;
    expect(bench.engine.step().state).toBe('idle');
    bench.time += 1;
    expect(bench.engine.step()).toMatchObject({ ended: 1, state: 'progress' });
    expect(await rejection(stream.result())).toMatchObject({
      code: 'ERR_BLOCKSTEP_REQUEST',
      message: 'request "a" failed: waited 100 ms for the next chunk of its session',
    });
    expect(bench.engine.stats().failedRequests).toBe(0);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('wakes a running engine when its time is over, which sleeps until then', async () => {
    let looks = 0;
    const now = (): number => {
      looks++;
      return performance.now();
    };
    const bench = new EngineBench({ deadlines: { streamingInput: 500 }, now });
    void bench.engine.run();
    const stream = bench.submit({ maxTokens: 1, resumable: true });
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    // Looks at the clock for the answer, for the deadline, and once a second; an engine that does
    // not sleep looks once a millisecond.
    expect(looks).toBeLessThan(100);
    bench.engine.dispose();
  });

  it('does not keep a shutdown from its end', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1, resumable: true });
    bench.steps();
    const ended = bench.engine.shutdown({ drainMs: 50 });
    expect(stream.addChunk({ prompt: prompt(2, 1) })).toBe('started');
    await pause(5);
    bench.time += 50;
    await ended;
    expect((await outputs(stream)).map(({ finishReason }) => finishReason)).toEqual([
      'length',
      'length',
      'abort',
    ]);
  });
});

/** Allows everything from its `isReady` on, up to a number of tokens. */
class FakeGrammar implements Grammar {
  isReady = true;
  accepted: number[] = [];
  most = Number.POSITIVE_INFINITY;

  ready(): boolean {
    return this.isReady;
  }

  acceptTokens(tokens: Int32Array): boolean {
    this.accepted.push(...tokens);
    return this.accepted.length <= this.most;
  }

  validateTokens(tokens: Int32Array): number {
    return tokens.length;
  }
}

describe('a grammar', () => {
  it('is waited for, also by a running engine that has nothing else to do', async () => {
    const bench = new EngineBench();
    const grammar = new FakeGrammar();
    grammar.isReady = false;
    void bench.engine.run();
    const stream = bench.submit({ id: 'a', grammar, maxTokens: 2 });
    await pause(10);
    bench.time += 3;
    expect(bench.engine.explain('a')).toMatch(
      /: waiting for 3 ms for its grammar; left: 59997 ms of deadlines.grammar$/,
    );
    expect(bench.engine.health().healthy).toBe(true);
    grammar.isReady = true;
    expect([...(await stream.result()).tokens]).toEqual(grammar.accepted);
    bench.engine.dispose();
  });

  it('becomes ready while a step runs, and its request is admitted beside it', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 }, true);
    const grammar = new FakeGrammar();
    grammar.isReady = false;
    void bench.engine.run();
    bench.submit({ id: 'a', prompt: prompt(6, 1), maxTokens: 1 });
    const stream = bench.submit({ id: 'b', grammar, maxTokens: 1 });
    await until(() => bench.executor.seen.length > 0);
    await pause(5);
    expect(bench.executor.seen.map(({ ids }) => ids)).toEqual([['a']]);
    grammar.isReady = true;
    await until(() => bench.executor.seen.length > 1);
    expect(bench.executor.seen.map(({ ids }) => ids)).toEqual([['a'], ['b']]);
    await bench.executor.deliver(2);
    await stream.result();
    bench.engine.dispose();
  });

  it('that refuses what was generated fails its request alone', async () => {
    const bench = new EngineBench();
    const grammar = new FakeGrammar();
    grammar.most = 2;
    const bad = bench.submit({ id: 'a', grammar, maxTokens: 5 });
    const good = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 5 });
    bench.steps();
    expect(await rejection(bad.result())).toMatchObject({
      code: 'ERR_BLOCKSTEP_REQUEST',
      message: expect.stringMatching(/request "a" .*grammar/),
    });
    expect((await good.result()).tokens).toHaveLength(5);
    expect(bench.engine.stats()).toMatchObject({ failedRequests: 0, wrongAnswers: 0 });
  });

  it.each([2, 3] as const)(
    'at depth %i keeps a step back until it knows what came before',
    async (pipelineDepth) => {
      const bench = new EngineBench({ pipelineDepth }, true);
      const grammar = new FakeGrammar();
      const known: number[] = [];
      bench.executor.onExecute = (plan) => {
        expect(plan.bitmaskEntries()).toEqual([0]);
        known.push(grammar.accepted.length);
      };
      const stream = bench.submit({ grammar, maxTokens: 4 });
      bench.steps();
      expect(bench.executor.seen).toHaveLength(1);
      expect(bench.engine.stats().stepsInFlight).toBe(2);
      await bench.finish();
      expect(known).toEqual([0, 1, 2, 3]);
      expect([...(await stream.result()).tokens]).toEqual([600, 700, 800, 900]);
      expect(leftovers(bench.engine)).toEqual([]);
    },
  );

  it('has the tables of a step that was kept back, though a request of it has ended', async () => {
    const seen: number[][] = [];
    const pending: (() => void)[] = [];
    const bench = new EngineBench({
      pipelineDepth: 2,
      executor: {
        execute(plan, tables) {
          seen.push([...tables!.seqLens]);
          const answer = answerOf(plan);
          return new Promise((resolve) => pending.push(() => resolve(answer)));
        },
      },
    });
    bench.submit({ id: 'a', grammar: new FakeGrammar(), maxTokens: 3 });
    bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 9, eosTokenId: 600 });
    for (let i = 0; i < 20; i++) {
      bench.steps();
      pending.shift()?.();
      await settled();
    }
    expect(seen.slice(0, 2)).toEqual([
      [6, 6, 0, 0],
      [7, 7, 0, 0],
    ]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('sees the drafts that the executor made for a step that was kept back', async () => {
    const bench = new EngineBench({ pipelineDepth: 2, numSpeculativeTokens: 2 }, true);
    const drafted: number[][] = [];
    bench.executor.onExecute = (plan) =>
      drafted.push([...plan.draftTokens.subarray(0, plan.numDraftTokens[0])]);
    bench.executor.answer = (plan: ExecutorPlan) => ({
      ...answerOf(plan),
      drafts: { counts: new Int32Array(plan.numRequests).fill(2), tokens: Int32Array.of(plan.step, 8, 9, 9) },
    });
    const stream = bench.submit({ id: 'a', grammar: new FakeGrammar(), maxTokens: 4 });
    await bench.finish();
    expect(drafted).toEqual([[], [0, 8], [1, 8], [2, 8]]);
    expect((await stream.result()).tokens).toHaveLength(4);
    expect(bench.engine.stats().wrongAnswers).toBe(0);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('counts no drafts as refused for a request that the step before had no place for', async () => {
    const bench = new EngineBench(
      { pipelineDepth: 2, numSpeculativeTokens: 3, maxNumBatchedTokens: 8 },
      true,
    );
    const seen: string[] = [];
    bench.executor.onExecute = (plan) => {
      const entries = Array.from({ length: plan.numRequests }, (_, i) => {
        const drafts = plan.draftTokens.subarray(3 * i, 3 * i + plan.numDraftTokens[i]);
        return `${plan.requests[i].id} ${drafts.join()} ${plan.numInvalidDraftTokens[i]}`;
      });
      if (plan.step < 3) seen.push(...entries);
    };
    bench.executor.answer = (plan: ExecutorPlan) => ({
      ...answerOf(plan),
      drafts: {
        counts: new Int32Array(plan.numRequests).fill(3),
        tokens: new Int32Array(3 * plan.numRequests).fill(9),
      },
    });
    bench.submit({ id: 'g', prompt: prompt(2), grammar: new FakeGrammar(), maxTokens: 9 });
    bench.submit({ id: 'short', prompt: prompt(2, 1), maxTokens: 2 });
    bench.submit({ id: 'later', prompt: prompt(2, 2), maxTokens: 9 });
    await bench.finish();
    expect(seen).toEqual([
      ...['g  0', 'short  0', 'later  0'],
      ...['g 9,9,9 0', 'short 9,9,9 0'],
      ...['g 9,9,9 0', 'later -1,-1,-1 0'],
    ]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('leaves the drafts of a step that was not kept back to the executor', async () => {
    const bench = new EngineBench({ pipelineDepth: 2, numSpeculativeTokens: 2 }, true);
    const plans: ExecutorPlan[] = [];
    bench.executor.onExecute = (plan) => plans.push(plan);
    bench.executor.answer = (plan: ExecutorPlan) => ({
      ...answerOf(plan),
      drafts: { counts: Int32Array.of(2), tokens: Int32Array.of(7, 8) },
    });
    bench.submit({ maxTokens: 9 });
    bench.steps();
    await bench.executor.deliver();
    expect(bench.engine.step().answered).toBe(true);
    expect([...plans[1].draftTokens.subarray(0, 2)]).toEqual([-1, -1]);
  });

  it('is not troubled by wrong drafts for a step that was kept back', async () => {
    for (const drafts of [
      5,
      { counts: Int32Array.of(-1), tokens: new Int32Array(2) },
      { counts: Int32Array.of(9), tokens: new Int32Array(9) },
      { counts: Int32Array.of(2), tokens: new Int32Array(9) },
    ]) {
      const bench = new EngineBench({ pipelineDepth: 2, numSpeculativeTokens: 2 }, true);
      bench.executor.answer = (plan: ExecutorPlan) => ({ ...answerOf(plan), drafts });
      const stream = bench.submit({ id: 'a', grammar: new FakeGrammar(), maxTokens: 4 });
      bench.submit({ id: 'b', grammar: new FakeGrammar(), prompt: prompt(6, 1), maxTokens: 4 });
      await bench.finish();
      expect((await stream.result()).tokens).toHaveLength(4);
      expect(bench.engine.stats().wrongAnswers).toBeGreaterThan(0);
      expect(leftovers(bench.engine)).toEqual([]);
    }
  });
});
