// A submission beyond the bounded queue is refused with `retryAfterMs`; admitted requests are never
// queued again.
import { describe, expect, it } from 'vitest';
import { BlockstepError, type EngineOptions, type SubmitInput } from '../../../src/index.js';
import { EngineBench, leftovers, outputs, prompt } from '../../support/engine-bench.js';

const bounded = (options: Partial<EngineOptions> = {}) =>
  new EngineBench({ maxQueuedRequests: 3, maxNumSeqs: 2, enablePrefixCaching: false, ...options });

type Input = Partial<SubmitInput> & { id?: string };

/** The error of a submission that has to be refused; nothing may have changed. */
function refusal(bench: EngineBench, input: Input = {}, code = 'ERR_BLOCKSTEP_OVERLOADED'): BlockstepError {
  const look = () => {
    const { overloads: _, ...stats } = bench.engine.stats();
    return [stats, bench.engine.scheduler.inspect()];
  };
  const before = look();
  try {
    bench.submit(input);
  } catch (error) {
    expect(look()).toEqual(before);
    expect(error).toBeInstanceOf(BlockstepError);
    expect((error as BlockstepError).code).toBe(code);
    return error as BlockstepError;
  }
  throw new Error('it was let in');
}

function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as BlockstepError).code;
  }
  return 'let in';
}

const queued = ({ engine }: EngineBench) => {
  const { queuedRequests, queuedTokens, overloads } = engine.stats();
  return [queuedRequests, queuedTokens, overloads];
};

// Pinned by: `checkRoom` (overload.ts), `Backlog`, and where requests enter it and leave it.
describe('a submission beyond what may be queued', () => {
  it('of requests is refused, and says so', () => {
    const bench = bounded();
    for (let i = 0; i < 3; i++) bench.submit();
    expect(queued(bench)).toEqual([3, 18, 0]);
    const error = refusal(bench);
    expect(error.message).toBe('3 requests wait to be admitted, the most that maxQueuedRequests allows');
    expect(error.retryAfterMs).toBe(null);
    expect(queued(bench)).toEqual([3, 18, 1]);
    bench.engine.step();
    expect(queued(bench)).toEqual([1, 6, 1]);
    bench.submit();
    bench.submit();
    refusal(bench);
  });

  it('of tokens is refused, and says so', () => {
    const bench = bounded({ maxQueuedRequests: 99, maxQueuedTokens: 20 });
    bench.submit({ prompt: prompt(12) });
    expect(refusal(bench, { prompt: prompt(9) }).message).toBe(
      'the prompts that wait to be admitted have 12 tokens, and maxQueuedTokens is 20: there is no room for 9 more',
    );
    bench.submit({ prompt: prompt(8) });
    expect(queued(bench)).toEqual([2, 20, 1]);
    refusal(bench, { prompt: prompt(1) });
  });

  it('is told that it is too long where it always would be, also with an empty queue', () => {
    const bench = bounded({ maxQueuedTokens: 20 });
    const message = 'a prompt of 21 tokens can never be accepted: maxQueuedTokens is 20';
    expect(refusal(bench, { prompt: prompt(21) }, 'ERR_BLOCKSTEP_UNFIT').message).toBe(message);
    for (let i = 0; i < 3; i++) bench.submit();
    expect(refusal(bench, { prompt: prompt(21) }, 'ERR_BLOCKSTEP_UNFIT').message).toBe(message);
    expect(queued(bench)[2]).toBe(0);
  });

  it('that is wrong is told that, and not to come again', () => {
    const bench = bounded({ maxQueuedRequests: 1 });
    bench.submit({ id: 'a' });
    refusal(bench, { maxTokens: 0 }, 'ERR_BLOCKSTEP_BAD_ARG');
    refusal(bench, { prompt: new Int32Array(0) }, 'ERR_BLOCKSTEP_BAD_ARG');
    refusal(bench, { id: 'a' }, 'ERR_BLOCKSTEP_DUPLICATE_ID');
    refusal(bench, { prompt: prompt(64) }, 'ERR_BLOCKSTEP_UNFIT');
    expect(queued(bench)[2]).toBe(0);
  });

  it('is nothing without bounds', () => {
    for (const bounds of [{}, { maxQueuedRequests: Number.POSITIVE_INFINITY }]) {
      const bench = new EngineBench(bounds);
      for (let i = 0; i < 500; i++) bench.submit({ prompt: prompt(20) });
      expect(queued(bench)).toEqual([500, 10_000, 0]);
      bench.engine.dispose();
    }
  });

  it('by a signal that is aborted already is no matter of the queue', async () => {
    const bench = bounded({ maxQueuedRequests: 1 });
    bench.submit();
    const stream = bench.submit({}, { signal: AbortSignal.abort('mine') });
    await expect(stream.result()).rejects.toBe('mine');
  });
});

describe('there is room again', () => {
  it('at once when a client aborts or stops what waits, also from inside a step', () => {
    const bench = bounded();
    const streams = [bench.submit({ id: 'a' }), bench.submit(), bench.submit()];
    streams[1].abort();
    expect(queued(bench)).toEqual([2, 12, 0]);
    bench.submit();
    refusal(bench);
    streams[2].stop();
    bench.engine.abort('a');
    expect(queued(bench)).toEqual([1, 6, 1]);
    bench.submit();
    bench.submit();
    const told: unknown[] = [];
    bench.executor.onExecute = () => {
      bench.executor.onExecute = () => {};
      // Two of the three were just admitted.
      told.push(queued(bench)[0]);
      const inside = [bench.submit(), bench.submit()];
      told.push(codeOf(() => bench.submit()));
      inside[0].abort();
      told.push(codeOf(() => bench.submit()));
    };
    bench.engine.step();
    expect(told).toEqual([1, 'ERR_BLOCKSTEP_OVERLOADED', 'let in']);
    bench.engine.abortAll();
    expect(queued(bench).slice(0, 2)).toEqual([0, 0]);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('when what waits takes too long', () => {
    const bench = bounded({ deadlines: { queue: 50 } });
    bench.engine.pause('new');
    for (let i = 0; i < 3; i++) bench.submit();
    bench.time += 60;
    refusal(bench);
    bench.engine.step();
    expect(queued(bench)).toEqual([0, 0, 1]);
  });

  it('when the engine breaks, or is disposed, nothing is queued any more', () => {
    const bench = bounded({ executorTimeoutMs: 10 });
    bench.executor.answer = () => new Promise(() => {});
    for (let i = 0; i < 3; i++) bench.submit();
    bench.engine.step();
    bench.time += 20;
    expect(() => bench.engine.step()).toThrow();
    expect(queued(bench).slice(0, 2)).toEqual([0, 0]);
  });
});

describe('who was admitted once is not queued again', () => {
  it('when it is preempted', () => {
    const bench = bounded({ numBlocks: 9, maxNumSeqs: 4, maxModelLen: 40, maxQueuedRequests: 1 });
    bench.submit({ id: 'a', prompt: prompt(12), maxTokens: 20 });
    bench.engine.step();
    bench.submit({ id: 'b', prompt: prompt(13, 1), maxTokens: 20 });
    while (bench.engine.scheduler.stats().numPreemptions === 0) bench.engine.step();
    expect(bench.engine.scheduler.get('b')?.status).toBe('PREEMPTED');
    expect(queued(bench)).toEqual([0, 0, 0]);
    bench.submit({ id: 'c' });
    refusal(bench);
  });

  it('when it is a session that goes on; one that was never admitted counts with its first chunk', async () => {
    const bench = bounded({ maxQueuedRequests: 2 });
    const session = bench.submit({ maxTokens: 1, resumable: true });
    session.addChunk({ prompt: prompt(7) });
    expect(queued(bench)).toEqual([1, 6, 0]);
    bench.steps();
    session.addChunk({ prompt: prompt(5) });
    expect(queued(bench)).toEqual([0, 0, 0]);
    const reading = outputs(session);
    session.endInput();
    bench.steps();
    expect((await reading).length).toBeGreaterThan(0);
    expect(queued(bench)).toEqual([0, 0, 0]);
  });
});

describe('retryAfterMs', () => {
  it('is how long the room for the request takes at the recent rate, and grows while nothing is admitted', () => {
    const bench = bounded({ maxNumSeqs: 1, maxQueuedTokens: 40 });
    // A request is admitted every 40 ms, four steps of 10.
    const step = () => {
      bench.time += 10;
      bench.engine.step();
    };
    for (let i = 0; i < 60; i++) {
      while (bench.engine.stats().queuedRequests < 3) bench.submit({ maxTokens: 4 });
      step();
    }
    const { retryAfterMs, message } = refusal(bench);
    expect(retryAfterMs).toBeGreaterThanOrEqual(38);
    expect(retryAfterMs).toBeLessThanOrEqual(44);
    expect(message).toMatch(new RegExp(`; try again in ${retryAfterMs} ms$`));
    // 18 tokens wait: a prompt of 40 needs 18 of them gone, three requests of 6.
    const long = refusal(bench, { prompt: prompt(40) }).retryAfterMs as number;
    expect(long).toBeGreaterThanOrEqual(3 * 38);
    expect(long).toBeLessThanOrEqual(3 * 44);
    bench.engine.pause('all');
    bench.time += 6000;
    expect(refusal(bench).retryAfterMs).toBeGreaterThan(400);
  });
});
