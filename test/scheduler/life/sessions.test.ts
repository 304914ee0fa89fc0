// Chunks and answers, their limits, priority and order among sessions.
import { describe, expect, it } from 'vitest';
import type { RequestInput } from '../../../src/scheduler/request/request.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const SESSION = { id: 's', prompt: prompt(9), maxTokens: 3, resumable: true };

/** Steps until the session waits for input. */
function untilIdle(driver: Driver, handle: number): void {
  driver.run(100, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
}

function session(driver: Driver, input: Partial<RequestInput> = {}): number {
  return driver.add({ ...SESSION, ...input });
}

for (const pipelineDepth of [1, 2, 3] as const) {
  describe(`a session at depth ${pipelineDepth}`, () => {
    it('waits for input when its answer ends, keeps its blocks, and is no work', () => {
      const driver = new Driver({ pipelineDepth });
      const handle = session(driver);
      untilIdle(driver, handle);
      const request = driver.request(handle);
      expect([request.numTokens, request.numComputedTokens]).toEqual([12, 11]);
      expect(driver.last).toEqual(['s:1:length']);
      expect(driver.ends.get(handle)).toEqual([]);
      expect(request.waitReason).toBe('streaming-input');
      while (driver.inFlight.length > 0) driver.update();
      const { scheduler } = driver;
      expect(scheduler.core.blocks(request.slot)).toHaveLength(3);
      expect([scheduler.numUnfinished, scheduler.numSkipped, scheduler.hasWork()]).toEqual([0, 1, false]);
      expect(scheduler.stats()).toMatchObject({ numIdleSessions: 1, sessionChunks: 1 });
      expect(scheduler.stats().finished.length).toBe(0);
    });

    it('answers a chunk to all that was said but the last token, and computes nothing twice', () => {
      const driver = new Driver({ pipelineDepth });
      const handle = session(driver);
      untilIdle(driver, handle);
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.addChunk(handle, { prompt: prompt(6, 4) })).toBe('started');
      const plan = driver.schedule();
      expect([plan.kinds[0], plan.numComputedTokens[0], plan.numScheduledTokens[0]]).toEqual([1, 11, 6]);
      expect([plan.numBlocks[0], plan.numNewBlocks[0], plan.needsAllTokens[0]]).toEqual([5, 5, 1]);
      expect(driver.request(handle).numPromptTokens).toBe(17);
      untilIdle(driver, handle);
      expect(driver.text(handle)).toHaveLength(6);
      expect(driver.scheduler.stats()).toMatchObject({ prefixCacheQueries: 9, promptTokens: 15 });
    });

    it('answers queued chunks one after the other, and ends with the answer to the last one', () => {
      const driver = new Driver({ pipelineDepth });
      const handle = session(driver);
      for (let i = 0; i < 3; i++)
        expect(driver.addChunk(handle, { prompt: prompt(5, 4 + i) })).toBe('queued');
      expect(driver.endSession(handle)).toBe('queued');
      const continued: string[] = [];
      while (driver.scheduler.hasWork()) {
        driver.step();
        continued.push(...driver.last);
      }
      expect(continued.filter((row) => row === 's:1:length')).toHaveLength(4);
      expect(driver.ends.get(handle)).toEqual(['length']);
      expect(driver.text(handle)).toHaveLength(12);
      expect(driver.timesFinished('s')).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('with another beside it lets each continue behind what waits already', () => {
      const driver = new Driver({ pipelineDepth, maxNumSeqs: 1 });
      const a = session(driver, { id: 'a', maxTokens: 2 });
      driver.add({ id: 'b', maxTokens: 2 });
      driver.addChunk(a);
      driver.run(50, () => driver.scheduler.inspect().running[0] !== 'b');
      expect(driver.scheduler.inspect().waiting).toEqual(['a']);
      driver.endSession(a);
      driver.run();
      expect(driver.ends.get(a)).toEqual(['length']);
    });

    it('is ended while it waits: with abort, without a row, and its id is reported once', () => {
      const driver = new Driver({ pipelineDepth });
      const handle = session(driver);
      untilIdle(driver, handle);
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.endSession(handle)).toBe('ended');
      expect(driver.scheduler.hasWork()).toBe(true);
      expect(driver.schedule().finished).toEqual(['s']);
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(driver.scheduler.hasWork()).toBe(false);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('is preempted like any other, and goes on', () => {
      const driver = new Driver({ pipelineDepth, numBlocks: 11 });
      const first = driver.add({ id: 'first', prompt: prompt(15, 1), maxTokens: 12 });
      const handle = session(driver, { maxTokens: 12 });
      driver.addChunk(handle);
      driver.endSession(handle);
      driver.run();
      expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(0);
      expect(driver.ends.get(handle)).toEqual(['length']);
      expect(driver.text(first)).toEqual(driver.model.text(first, 12));
      expect(driver.text(handle)).toHaveLength(24);
    });
  });
}

describe('the limits of a chunk', () => {
  /** Rows `tokens:reason` of each answer. */
  function answers(driver: Driver): string[] {
    const seen: string[] = [];
    while (driver.scheduler.hasWork()) {
      driver.step();
      seen.push(...driver.last.filter((row) => row.split(':').length > 2));
    }
    return seen;
  }

  it('are its own where it has any, and else those of add', () => {
    const driver = new Driver({}, { tokenAt: (_input, position) => 100 + position });
    const handle = session(driver, { maxTokens: 4, stopTokenIds: [111] });
    driver.addChunk(handle, { prompt: prompt(3, 4), maxTokens: 6, stopTokenIds: [] });
    driver.addChunk(handle, { prompt: prompt(3, 5) });
    driver.addChunk(handle, { prompt: prompt(3, 6), eosTokenId: 130, minTokens: 4 });
    driver.addChunk(handle, { prompt: prompt(3, 7), eosTokenId: 131, ignoreEos: true });
    const lengths: number[] = [];
    let before = 0;
    while (driver.scheduler.hasWork() && !driver.request(handle).isFinished) {
      driver.step();
      if (!driver.last.some((row) => /length|stop/.test(row))) continue;
      lengths.push(driver.text(handle).length - before);
      before = driver.text(handle).length;
      if (driver.request(handle).status === 'WAITING_FOR_STREAMING_REQ') break;
    }
    expect(lengths).toEqual([3, 6, 4, 4, 4]);
  });

  it('leave the row of each answer its own reason', () => {
    const driver = new Driver({}, { tokenAt: (_input, position) => 100 + position });
    const handle = session(driver, { maxTokens: 4, stopTokenIds: [110] });
    driver.addChunk(handle);
    driver.endSession(handle);
    expect(answers(driver)).toEqual(['s:1:stop', 's:1:length']);
    expect(driver.ends.get(handle)).toEqual(['length']);
  });

  // 16 tokens are kept: with four more an answer has no room, with five the prompt has none.
  it.each([4, 5])('end the session where nothing more fits the model, with length (%i)', (length) => {
    const driver = new Driver({ maxModelLen: 20, longPrefillTokenThreshold: 3 });
    const handle = session(driver, { maxTokens: 8 });
    driver.addChunk(handle, { prompt: prompt(length, 4) });
    driver.addChunk(handle, { prompt: prompt(3, 5) });
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.text(handle)).toHaveLength(8);
    expect(driver.timesFinished('s')).toBe(1);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('and nothing more the pool: with length as well', () => {
    const driver = new Driver({ numBlocks: 5 });
    const handle = session(driver, { maxTokens: 4 });
    driver.addChunk(handle, { prompt: prompt(5, 4) });
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('priority', () => {
  it('a chunk brings its own arrival, and its session takes the place that follows from it', () => {
    const driver = new Driver({ policy: 'priority', maxNumSeqs: 1 });
    const s = session(driver, { maxTokens: 1, arrivalTime: 0 });
    untilIdle(driver, s);
    driver.add({ id: 'early', arrivalTime: 5, maxTokens: 1 });
    driver.addChunk(s, { arrivalTime: 9 });
    driver.add({ id: 'late', arrivalTime: 20, maxTokens: 1 });
    const order: string[] = [];
    for (let i = 0; i < 3; i++) {
      driver.step();
      order.push(...driver.last.map((row) => row.split(':')[0]));
    }
    expect(order).toEqual(['early', 's', 'late']);
  });
});

describe('first come, first served', () => {
  it('a session that gets a chunk stands among the skipped where it stood before', () => {
    const driver = new Driver({ maxNumSeqs: 3 });
    const handles = ['a', 'b', 'c'].map((id, i) => session(driver, { id, maxTokens: i + 1 }));
    for (const handle of handles) untilIdle(driver, handle);
    driver.scheduler.pause('new');
    expect(driver.scheduler.inspect().skipped).toEqual(['a', 'b', 'c']);
    driver.addChunk(handles[2]);
    driver.addChunk(handles[0]);
    expect(driver.scheduler.inspect().skipped).toEqual(['a', 'b', 'c']);
    driver.scheduler.resume();
    const plan = driver.schedule();
    expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['a', 'c']);
    expect(driver.scheduler.inspect().skipped).toEqual(['b']);
  });
});
