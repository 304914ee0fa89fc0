// Lost blocks that are reported to a scheduler without an engine.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/index.js';
import { readLog, replayCommands, replayInputs } from '../../../src/replay.js';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { MemorySink } from '../../support/recorded-log.js';

function driverOf(options: Partial<SchedulerOptions> = {}): Driver {
  return new Driver({ loadFailurePolicy: 'recompute', ...options });
}

/** The blocks of an unfinished request. */
function blocksOf(driver: Driver, handle: number): number[] {
  return [...driver.scheduler.core.blocks(driver.request(handle).slot)];
}

/** The KV of the blocks is lost, and the next report names them. */
function lose(driver: Driver, ...blocks: number[]): void {
  for (const block of blocks) driver.model.lose(block);
  driver.report = { lostBlocks: blocks };
}

// Pinned by: `loseBlocks` and all that it calls (lost-blocks.ts), `update`, `failStep`, `updateTransfers` (step.ts).
describe('lost blocks of a scheduler used alone', () => {
  it('come with an update: the holder is computed again from the first of them on', () => {
    const driver = driverOf();
    const a = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 3 });
    driver.schedule();
    driver.update();
    lose(driver, blocksOf(driver, a)[1]);
    driver.schedule();
    driver.update();
    expect(driver.last).toEqual([]);
    const plan = driver.schedule();
    expect([plan.numComputedTokens[0], plan.numHitBlocks[0]]).toEqual([4, 1]);
    driver.update();
    driver.run();
    expect(driver.text(a)).toEqual(driver.model.text(a, 3));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it.each([1, 2, 3] as const)('depth %i: come between updates, with steps in flight', (pipelineDepth) => {
    const driver = driverOf({ pipelineDepth });
    const a = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 6 });
    driver.schedule();
    driver.update();
    driver.model.lose(blocksOf(driver, a)[2]);
    const lostBlocks = [blocksOf(driver, a)[2]];
    for (let i = 0; i < pipelineDepth; i++) driver.schedule();
    driver.scheduler.updateTransfers({ lostBlocks });
    const plan = driver.inFlight[0].plan;
    driver.update();
    expect(plan.failedHandles()).toEqual([a]);
    driver.run();
    expect(driver.text(a)).toEqual(driver.model.text(a, 6));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('come between updates: what somebody computes on them in a step in flight, who has left, is not found', () => {
    const driver = driverOf({ pipelineDepth: 2, maxNumBatchedTokens: 8 });
    const a = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 6 });
    driver.schedule();
    driver.update();
    const [first] = blocksOf(driver, a);
    driver.model.lose(first);
    driver.schedule();
    driver.abort('a');
    expect(driver.scheduler.core.published().length).toBe(3);
    driver.scheduler.updateTransfers({ lostBlocks: [first] });
    expect(driver.scheduler.core.published().length).toBe(0);
    driver.update();
  });

  it('who was preempted since gets no token of that step, also where somebody has taken the block anew', () => {
    const driver = driverOf({ pipelineDepth: 2, numBlocks: 5, reserveFullIsl: false });
    const b = driver.add({ id: 'b', prompt: prompt(7), maxTokens: 3 });
    const a = driver.add({ id: 'a', prompt: prompt(6, 1), maxTokens: 3 });
    driver.schedule();
    driver.update();
    const [, block] = blocksOf(driver, a);
    lose(driver, block);
    driver.schedule();
    expect(driver.schedule().preempted).toEqual(['a']);
    expect(blocksOf(driver, b)).toContain(block);
    driver.update();
    expect(driver.last).toEqual(['b:1']);
    driver.run();
    expect([driver.text(a), driver.text(b)]).toEqual([driver.model.text(a, 3), driver.model.text(b, 3)]);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('policy fail: the end goes out with the next update, and says why', () => {
    const driver = driverOf({ loadFailurePolicy: 'fail' });
    const a = driver.add({ id: 'a', prompt: prompt(9) });
    const b = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 3 });
    driver.schedule();
    driver.update();
    const request = driver.request(a);
    driver.scheduler.updateTransfers({ lostBlocks: [blocksOf(driver, a)[0]] });
    expect(request.isFinished).toBe(true);
    driver.schedule();
    driver.update();
    expect(driver.last).toContain('a:0:error');
    expect(request.failure).toMatch(/the executor lost a block/);
    driver.run();
    expect(driver.text(b)).toEqual(driver.model.text(b, 3));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('what was computed on them is not to be stored: of holders, and of those who have left', () => {
    const driver = driverOf({ pipelineDepth: 2 });
    const [a, b, c] = ['a', 'b', 'c'].map((id) =>
      driver.add({ id, prompt: prompt(id === 'c' ? 5 : 9, +(id === 'c')) }),
    );
    driver.schedule();
    driver.update();
    lose(driver, blocksOf(driver, a)[0]);
    const first = driver.schedule();
    const second = driver.schedule();
    driver.abort('b');
    driver.update();
    expect(first.failedHandles()).toEqual([a, b]);
    driver.update();
    expect(second.failedHandles()).toEqual([a, b]);
    driver.run();
    expect(driver.text(c)).toEqual(driver.model.text(c, 8));
  });

  it('with a step that fails: an idle session that holds one gives its blocks back', () => {
    const driver = driverOf();
    const session = driver.add({ id: 's', prompt: prompt(9), maxTokens: 1, resumable: true });
    driver.schedule();
    driver.update();
    const a = driver.add({ id: 'a', prompt: prompt(9, 1) });
    lose(driver, blocksOf(driver, session)[0]);
    driver.schedule(() => true);
    driver.failStep();
    expect(driver.ends.get(a)).toEqual(['error']);
    expect(blocksOf(driver, session)).toEqual([]);
  });

  it('are refused in no array, with nothing changed; in strict mode one that is none throws when all is done', () => {
    const driver = driverOf();
    driver.add({ id: 'a', prompt: prompt(9) });
    const plan = driver.schedule();
    const digest = driver.scheduler.digest();
    const { tokens, counts } = driver.inFlight[0];
    for (const lostBlocks of [null, 1, {}, new Set([1])] as never[])
      expect(codeOf(() => driver.scheduler.update(plan, { tokens, counts }, { lostBlocks }))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    expect(driver.scheduler.digest()).toBe(digest);
    driver.update();
    const strict = driverOf({ strict: true });
    const a = strict.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    strict.schedule();
    strict.update();
    const blocks = blocksOf(strict, a);
    expect(codeOf(() => strict.scheduler.updateTransfers({ lostBlocks: [99, blocks[0], -1] }))).toBe(
      'ERR_BLOCKSTEP_ANOMALY',
    );
    expect(strict.request(a).status).toBe('PREEMPTED');
    strict.run();
    expect(strict.text(a)).toEqual(strict.model.text(a, 2));
  });

  it('stand in the log, and are lost again when it is run again', () => {
    const log = new MemorySink();
    const driver = driverOf({ log, pipelineDepth: 2 });
    const a = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 5, params: { image: 1n, self: () => 1 } });
    driver.schedule();
    lose(driver, blocksOf(driver, a)[1], 77);
    driver.schedule();
    driver.update();
    driver.update();
    driver.step();
    driver.scheduler.updateTransfers({ lostBlocks: [blocksOf(driver, a)[0]] });
    driver.run();
    const digest = driver.scheduler.digest();
    const again = new MemorySink();
    const replayed = replayInputs(log.bytes, undefined, again);
    expect(replayed.digest()).toBe(digest);
    expect(replayed.stats().numPreemptions).toBe(2);
    expect([...readLog(again.bytes)].slice(1)).toEqual([...readLog(log.bytes)].slice(1));
    expect(replayCommands(log.bytes).digest).toBe(digest);
    expect(Buffer.from(log.bytes).includes('params')).toBe(false);
  });
});
