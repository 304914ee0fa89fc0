import { describe, expect, it } from 'vitest';
import { Driver, prompt } from '../scheduler/support.js';
import { ScriptedConnector } from './scripted-connector.js';

describe('an asynchronous load', () => {
  it('waits, is promoted and computes the last token only', () => {
    const connector = new ScriptedConnector({ a: { ext: 12, async: true } });
    const driver = new Driver({ connector, strict: true });
    const handle = driver.add({ id: 'a', prompt: prompt(12), maxTokens: 2 });
    const plan = driver.scheduler.schedule();
    expect(plan.totalTokens).toBe(0);
    expect(driver.scheduler.stats()).toMatchObject({ numLoading: 1, numSkipped: 1, cachedBlocks: 0 });
    driver.scheduler.verify();
    driver.scheduler.updateTransfers({ finishedReceiving: [{ handle }] });
    driver.scheduler.verify();
    const next = driver.scheduler.schedule();
    expect([...next.numScheduledTokens.subarray(0, 1)]).toEqual([1]);
    expect([...next.numComputedTokens.subarray(0, 1)]).toEqual([11]);
    expect(connector.take()).toEqual(['new a', 'match a 0', 'alloc a 12 of 3', 'alloc a 0 of 3']);
    driver.scheduler.verify();
  });
});
