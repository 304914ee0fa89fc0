import { describe, expect, it } from 'vitest';
import { RemoteDriver } from '../../guards/remote.js';
import { leftovers, prompt } from '../../support/driver.js';

// Pinned by: `failLoads`, `takeInvalid`, `takeFailed` and `wasFound` (load-failure.ts).
describe('a load that fails with the update of a step from before it', () => {
  /** `r` computes its prompt in a step in flight, is preempted by force, and loads the prompt in the next step. */
  function loadingBehind(loadFailurePolicy: 'fail' | 'recompute') {
    const driver = new RemoteDriver(
      { r: { ext: 8, async: true, defer: 1 } },
      { deviations: false, loadFailurePolicy, pipelineDepth: 2, enablePrefixCaching: false },
    );
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    driver.empty();
    driver.connector.instead.match = () => ({ numTokens: 0, async: false });
    driver.schedule();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    delete driver.connector.instead.match;
    driver.schedule();
    expect(driver.request(r).load).not.toBeNull();
    const { blocks } = driver.connector.loadOf(r);
    driver.report = { invalidBlocks: [{ block: blocks[1] }], finishedReceiving: [{ handle: r }] };
    driver.update();
    return { driver, r };
  }

  it('fails there: recompute, from the block on that did not come', () => {
    const { driver, r } = loadingBehind('recompute');
    expect(driver.request(r).numComputedTokens).toBe(4);
    // The test says that the rest has come.
    driver.land(r);
    driver.run();
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('fails there: fail', () => {
    const { driver, r } = loadingBehind('fail');
    expect(driver.ends.get(r)).toEqual(['error']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('a load that fails over a block that was published before, without `limitLoadRetries`', () => {
  for (const how of ['a block', 'as a whole'] as const)
    for (const where of ['in an update', 'between two'] as const)
      for (const reads of [true, false])
        it(`${how}, ${where}: ${reads ? 'its reader computes it again, and ' : ''}nobody finds it`, () => {
          const driver = new RemoteDriver(
            { one: { ext: 1, async: true } },
            { deviations: { limitLoadRetries: false }, loadFailurePolicy: 'recompute', blockSize: 1 },
          );
          const one = driver.loading({ id: 'one', prompt: [7], maxTokens: 1 });
          driver.received(one);
          const reader = reads ? driver.add({ id: 'reader', prompt: [7, 8, 9], maxTokens: 2 }) : null;
          const plan = driver.schedule();
          expect([plan.numRequests, plan.numComputedTokens[0]]).toEqual(reads ? [1, 1] : [0, 0]);
          const [block] = driver.connector.loadOf(one).blocks;
          expect([...driver.scheduler.core.published()]).toContain(block);
          driver.model.lose(block);
          const handle = { handle: one };
          const report = how === 'a block' ? { invalidBlocks: [{ block }] } : { failedReceiving: [handle] };
          if (where === 'in an update') driver.report = report;
          else driver.scheduler.updateTransfers(report);
          driver.update(plan);
          expect(driver.last).toEqual([]);
          expect([...driver.scheduler.core.published()]).not.toContain(block);
          driver.connector.instead.match = () => ({ numTokens: 0, async: false });
          driver.scheduler.updateTransfers({ finishedReceiving: [handle] });
          driver.run();
          if (reader !== null) expect(driver.text(reader)).toEqual(driver.model.text(reader, 2));
          expect(driver.text(one)).toEqual(driver.model.text(one, 1));
          expect(driver.anomalies).toEqual({});
          expect(leftovers(driver.scheduler)).toEqual([]);
        });
});
