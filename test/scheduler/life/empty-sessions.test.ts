// Sessions that begin without a prompt and wait for their first chunk.
import { describe, expect, it } from 'vitest';
import type { RequestInput } from '../../../src/scheduler/request/request.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const EMPTY = { id: 's', prompt: [], maxTokens: 3, resumable: true } as const;

/** Steps until the session waits for input. */
function untilIdle(driver: Driver, handle: number): void {
  driver.run(100, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
  while (driver.inFlight.length > 0) driver.update();
}

const add = (driver: Driver, input: Partial<RequestInput> = {}) => driver.add({ ...EMPTY, ...input });

describe.each([1, 2, 3] as const)('a session without a prompt, at depth %i', (pipelineDepth) => {
  it('waits for its first chunk: it is no work, holds nothing, and is not in the backlog', () => {
    const driver = new Driver({ pipelineDepth });
    const handle = add(driver);
    const { scheduler } = driver;
    expect(driver.request(handle)).toMatchObject({
      ...{ status: 'WAITING_FOR_STREAMING_REQ', waitReason: 'streaming-input', container: 'skipped' },
      ...{ numTokens: 0, numPromptTokens: 0, backlogTokens: 0 },
    });
    expect([scheduler.numUnfinished, scheduler.hasWork()]).toEqual([0, false]);
    expect(driver.schedule().totalTokens).toBe(0);
    expect(scheduler.stats()).toMatchObject({ numIdleSessions: 1, promptTokens: 0 });
    scheduler.verify();
  });

  it('computes its first chunk as a request with that prompt, and goes on as every session', () => {
    const driver = new Driver({ pipelineDepth });
    const other = new Driver({ pipelineDepth });
    const handle = add(driver);
    const usual = other.add({ ...EMPTY, prompt: prompt(9) });
    expect(driver.addChunk(handle, { prompt: prompt(9) })).toBe('started');
    expect(driver.request(handle).backlogTokens).toBe(9);
    for (const [each, session] of [[driver, handle] as const, [other, usual] as const]) {
      untilIdle(each, session);
      expect(each.addChunk(session, { prompt: prompt(6, 4), maxTokens: 2 })).toBe('started');
      untilIdle(each, session);
    }
    expect(driver.text(handle)).toEqual(other.text(usual));
    const { request } = { request: driver.request(handle) };
    expect(request.numTokens).toBe(other.request(usual).numTokens);
    expect(request.session?.numChunks).toBe(2);
    const counts = ({
      promptTokens,
      prefixCacheQueries,
      sessionChunks,
      generationTokens,
    }: ReturnType<typeof driver.scheduler.stats>) => ({
      promptTokens,
      prefixCacheQueries,
      sessionChunks,
      generationTokens,
    });
    expect(counts(driver.scheduler.stats())).toEqual(counts(other.scheduler.stats()));
    driver.scheduler.verify();
    driver.endSession(handle);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('finds the prefix of its first chunk in the cache, and leaves it there', () => {
    const driver = new Driver({ pipelineDepth });
    const before = driver.add({ id: 'before', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    expect(before).toBeGreaterThan(0);
    const handle = add(driver);
    driver.addChunk(handle, { prompt: prompt(9) });
    driver.schedule();
    expect(driver.request(handle).numCachedTokens).toBe(8);
  });

  it('queues the chunks behind its first', () => {
    const driver = new Driver({ pipelineDepth });
    const handle = add(driver);
    expect(driver.addChunk(handle, { prompt: prompt(5) })).toBe('started');
    expect(driver.addChunk(handle, { prompt: prompt(4) })).toBe('queued');
    expect(driver.endSession(handle)).toBe('queued');
    driver.run();
    expect(driver.text(handle)).toHaveLength(6);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('a session without a prompt', () => {
  it('ends with abort when it is aborted, or its input ends before it began', () => {
    const driver = new Driver();
    const handle = add(driver);
    expect(driver.scheduler.abort(handle)).toEqual(['s']);
    const next = add(driver);
    expect(driver.endSession(next)).toBe('ended');
    expect(driver.addChunk(next, { prompt: prompt(3) })).toBe('skipped');
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('ends with an error when its first chunk does not come in time', () => {
    let now = 0;
    const driver = new Driver({ now: () => now, deadlines: { streamingInput: 50 } });
    const handle = add(driver);
    now = 49;
    driver.step();
    expect(driver.request(handle).isFinished).toBe(false);
    now = 50;
    driver.step();
    expect(driver.scheduler.stats().streamingInputTimeouts).toBe(1);
    expect(driver.scheduler.get('s')).toBeUndefined();
  });

  it('begins its time limit with its first chunk', () => {
    let now = 0;
    const driver = new Driver({ now: () => now, deadlines: { streamingInput: 0 } });
    const handle = add(driver, { timeoutMs: 30 });
    now = 100;
    driver.step();
    driver.addChunk(handle, { prompt: prompt(5) });
    expect(driver.request(handle).isFinished).toBe(false);
    now = 130;
    driver.step();
    expect(driver.scheduler.stats().requestTimeouts).toBe(1);
  });

  it('refuses a first chunk that does not fit, and stays', () => {
    const driver = new Driver({ maxModelLen: 64 });
    const handle = add(driver);
    const code = (length: number) => {
      try {
        return driver.addChunk(handle, { prompt: prompt(length) });
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    expect(code(64)).toBe('ERR_BLOCKSTEP_UNFIT');
    driver.scheduler.verify();
    expect(code(63)).toBe('started');
  });

  it('is refused with a grammar, and a request that is no session always', () => {
    const driver = new Driver();
    const grammar = { ready: () => true, acceptTokens: () => true, validateTokens: () => 0 };
    const why = 'prompt must be at least one token';
    expect(() => driver.scheduler.add({ ...EMPTY, grammar: grammar as never })).toThrow(why);
    expect(() => driver.scheduler.add({ ...EMPTY, resumable: false })).toThrow(why);
    expect(driver.scheduler.get('s')).toBeUndefined();
  });
});
