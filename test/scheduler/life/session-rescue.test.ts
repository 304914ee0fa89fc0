// Sessions keep every token where vLLM 28be48fa loses some: stops inside drafts, preemption,
// resets, failed steps.
import { describe, expect, it } from 'vitest';
import { Driver, leftovers, prompt } from '../../support/driver.js';
import { resetDone } from './reset-result.js';

/** Each case describes what vLLM 28be48fa does to a session; blockstep keeps its text whole. */

const END = 5;
/** Ends the first answer with its `at`-th token; the prompt has nine. */
const endsAt = (at: number) => (_input: unknown, position: number, root: number) =>
  position === 9 + at - 1 ? END : 1000 + ((root + 31 * position) % 5000);

function addSession(driver: Driver): number {
  return driver.add({ id: 's', prompt: prompt(9), maxTokens: 12, eosTokenId: END, resumable: true });
}

/** Delivers what is in flight. */
function settle(driver: Driver): void {
  while (driver.inFlight.length > 0) driver.update();
}

describe('a stop inside accepted drafts', () => {
  for (const pipelineDepth of [1, 2, 3] as const) {
    for (const queued of [false, true]) {
      // vLLM: num_computed_tokens stays above num_tokens, so the first prompt tokens of the chunk are never computed, or
      // `assert num_new_tokens > 0` fails.
      it(`depth ${pipelineDepth}, chunk queued: ${queued}: every token of the chunk is computed`, () => {
        const speculation = { numSpeculativeTokens: 3, speculativeMethod: 'draft_model' } as const;
        const driver = new Driver({ pipelineDepth, ...speculation }, { tokenAt: endsAt(3) });
        const handle = addSession(driver);
        const chunk = { prompt: prompt(2, 7), maxTokens: 4, ignoreEos: true };
        if (queued) driver.addChunk(handle, chunk);
        while (driver.text(handle).length < 3) driver.step();
        const request = driver.request(handle);
        if (!queued) {
          expect([request.numTokens, request.numComputedTokens]).toEqual([12, 11]);
          settle(driver);
          expect(driver.addChunk(handle, chunk)).toBe('started');
        } else expect([request.numTokens, request.numComputedTokens]).toEqual([13, 11]);
        driver.endSession(handle);
        expect([request.numDraftTokens, request.numOutputPlaceholders]).toEqual([0, 0]);
        while (driver.inFlight.length === pipelineDepth) driver.update();
        const plan = driver.schedule();
        expect([plan.numComputedTokens[0], plan.numScheduledTokens[0]]).toEqual([11, 2]);
        driver.run();
        expect(driver.text(handle)).toHaveLength(7);
        expect(driver.ends.get(handle)).toEqual(['length']);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }
});

describe('a stop inside accepted drafts that took a block of their own', () => {
  it('leaves the session that block, and the plan says so', () => {
    const driver = new Driver({ numSpeculativeTokens: 3 }, { tokenAt: endsAt(3) });
    const handle = addSession(driver);
    while (driver.text(handle).length < 3) driver.step();
    driver.addChunk(handle, { prompt: prompt(1, 7), maxTokens: 6, ignoreEos: true });
    const plan = driver.schedule();
    const held = driver.scheduler.core.blocks(driver.request(handle).slot).length;
    expect([plan.numScheduledTokens[0], plan.numBlocks[0], plan.numNewBlocks[0]]).toEqual([1, held, held]);
    expect(held).toBe(4);
  });

  it('leaves the session no drafts, but gives it some again when it decodes', () => {
    const driver = new Driver({ numSpeculativeTokens: 3 }, { tokenAt: endsAt(3) });
    const handle = addSession(driver);
    driver.addChunk(handle, { prompt: prompt(1, 7), maxTokens: 9, ignoreEos: true });
    while (driver.text(handle).length < 3) driver.step();
    expect(driver.request(handle).numDraftTokens).toBe(0);
    driver.step();
    expect(driver.request(handle).numDraftTokens).toBe(3);
  });
});

describe('a stop token while the next batch is in flight', () => {
  for (const pipelineDepth of [2, 3] as const) {
    for (const queued of [false, true]) {
      // vLLM: the next batch appends its token behind the stop; its own stop queues the session a second time, and
      // admission raises RuntimeError.
      it(`depth ${pipelineDepth}, chunk queued: ${queued}: nothing comes behind the stop`, () => {
        const driver = new Driver({ pipelineDepth }, { tokenAt: endsAt(2) });
        const handle = addSession(driver);
        const chunk = { prompt: prompt(3, 7), maxTokens: 2, ignoreEos: true };
        if (queued) driver.addChunk(handle, chunk);
        while (driver.text(handle).length < 2) driver.step();
        expect(driver.inFlight.length).toBeGreaterThan(0);
        const dropped = driver.scheduler.stats().droppedOutputs;
        const inFlight = driver.inFlight.length;
        const { numWaiting, numSkipped } = driver.scheduler;
        expect([numWaiting, numSkipped]).toEqual(queued ? [1, 0] : [0, 1]);
        settle(driver);
        expect(driver.text(handle)).toHaveLength(2);
        expect(driver.scheduler.stats().droppedOutputs - dropped).toBe(inFlight);
        expect(driver.scheduler.numWaiting + driver.scheduler.numSkipped).toBe(1);
        if (!queued) driver.addChunk(handle, chunk);
        driver.endSession(handle);
        driver.run();
        expect(driver.text(handle)).toHaveLength(4);
        expect(driver.ends.get(handle)).toEqual(['length']);
      });
    }
  }
});

describe('a session that was preempted and is stopped by a batch in flight', () => {
  for (const pipelineDepth of [2, 3] as const) {
    for (const queued of [false, true]) {
      // vLLM: its whole text is deleted, because num_computed_tokens is 0, and it is taken out of
      // `waiting` again right after it was queued. The session is in no queue any more.
      it(`depth ${pipelineDepth}, chunk queued: ${queued}: keeps its text and goes on`, () => {
        const driver = new Driver(
          { pipelineDepth, numBlocks: 7, deviations: NO_RECLAIM },
          { tokenAt: endsAt(4) },
        );
        const first = driver.add({ id: 'first', prompt: prompt(7, 1), maxTokens: 12 });
        const handle = addSession(driver);
        const chunk = { prompt: prompt(2, 7), maxTokens: 2, ignoreEos: true };
        if (queued) driver.addChunk(handle, chunk);
        while (driver.scheduler.stats().numPreemptions === 0) {
          if (driver.inFlight.length === pipelineDepth) driver.update();
          driver.schedule();
        }
        const request = driver.request(handle);
        expect(request.status).toBe('PREEMPTED');
        expect(driver.text(handle).length + request.numOutputPlaceholders).toBe(4);
        settle(driver);
        expect(driver.text(handle)).toHaveLength(4);
        expect(request.numTokens).toBe(queued ? 14 : 13);
        expect(request.numComputedTokens).toBe(0);
        expect(request.container).toBe(queued ? 'waiting' : 'skipped');
        driver.scheduler.verify();
        if (!queued) driver.addChunk(handle, chunk);
        driver.endSession(handle);
        driver.run();
        expect(driver.text(handle)).toHaveLength(6);
        expect(driver.ends.get(handle)).toEqual(['length']);
        expect(driver.text(first)).toEqual(driver.model.text(first, 12));
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }
});

describe('a forced reset with a batch in flight', () => {
  for (const pipelineDepth of [2, 3] as const) {
    for (const numSpeculativeTokens of [0, 3]) {
      // vLLM with drafts: it drops one output for each placeholder instead of one for each batch.
      // Tokens are lost, and the request may wait for ever.
      it(`depth ${pipelineDepth}, ${numSpeculativeTokens} drafts: drops what is in flight and no more`, () => {
        const speculation = { numSpeculativeTokens, speculativeMethod: 'draft_model' } as const;
        const driver = new Driver({ pipelineDepth, ...speculation });
        const handle = driver.add({ id: 's', prompt: prompt(9), maxTokens: 12, resumable: true });
        while (driver.text(handle).length < 3) driver.step();
        while (driver.inFlight.length < pipelineDepth) driver.schedule();
        const { numTokens } = driver.request(handle);
        const reset = driver.scheduler.resetPrefixCache({ resetRunning: true });
        expect(reset).toEqual(resetDone({ preempted: ['s'] }));
        settle(driver);
        expect(driver.request(handle).numTokens).toBe(numTokens);
        driver.addChunk(handle, { prompt: prompt(2, 7) });
        driver.endSession(handle);
        driver.run();
        expect(driver.text(handle)).toHaveLength(24);
        expect(driver.ends.get(handle)).toEqual(['length']);
      });
    }
  }
});

describe('a failed step', () => {
  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: that only computed behind a session's stop costs the session nothing but blocks`, () => {
      const driver = new Driver({ pipelineDepth }, { tokenAt: endsAt(2) });
      const handle = addSession(driver);
      while (driver.text(handle).length < 1) driver.step();
      driver.schedule(() => true);
      while (driver.inFlight.length > 1) driver.update();
      driver.failStep();
      const request = driver.request(handle);
      expect([request.status, request.numComputedTokens]).toEqual(['WAITING_FOR_STREAMING_REQ', 0]);
      driver.scheduler.verify();
      driver.addChunk(handle, { maxTokens: 2, ignoreEos: true });
      driver.endSession(handle);
      driver.run();
      expect(driver.text(handle)).toHaveLength(4);
      expect(driver.ends.get(handle)).toEqual(['length']);
    });
  }

  it('of a session that was aborted meanwhile has no blocks to look at', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    const handle = addSession(driver);
    driver.schedule(() => true);
    driver.schedule(() => true);
    driver.abort(handle);
    driver.failStep();
    driver.failStep();
    expect(driver.ends.get(handle)).toEqual(['abort']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('that computed for a session ends it with error', () => {
    const driver = new Driver();
    const handle = addSession(driver);
    driver.step();
    driver.schedule(() => true);
    driver.failStep();
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(driver.addChunk(handle)).toBe('skipped');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

const NO_RECLAIM = ['reclaimIdleSessions'];

describe('with all deviations off', () => {
  it('the text of a session is rescued all the same: these are no decisions of vLLM', () => {
    const driver = new Driver({ pipelineDepth: 2, deviations: false }, { tokenAt: endsAt(2) });
    const handle = addSession(driver);
    driver.addChunk(handle, { prompt: prompt(3, 7), ignoreEos: true });
    driver.endSession(handle);
    driver.run();
    expect(driver.text(handle)).toHaveLength(14);
    expect(driver.ends.get(handle)).toEqual(['length']);
  });
});
