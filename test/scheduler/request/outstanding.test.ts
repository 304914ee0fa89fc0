// The blocks of a finished request come back with the last use of them, in every order of ends.
import { describe, expect, it } from 'vitest';
import type { OutstandingKind } from '../../../src/scheduler/request/outstanding.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { allBlocks, codeOf, Driver, leftovers, prompt } from '../../support/driver.js';

type Use = [OutstandingKind, string];
const USES: Use[] = [
  ['load', 'transfer'],
  ['store', 'job'],
  ['lease', 'peer'],
];

/** All orders of the given items. */
function orders<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) =>
    orders([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [item, ...rest]),
  );
}

/** A request of 3 blocks with every use registered, after its last token or its abort. */
function drained(how: 'length' | 'abort'): { driver: Driver; handle: number } {
  const driver = new Driver();
  const handle = driver.add({ id: 'a', prompt: prompt(10), maxTokens: 2 });
  driver.step();
  for (const [kind, owner] of USES) expect(driver.scheduler.hold(handle, kind, owner)).toBe(true);
  if (how === 'abort') driver.abort('a');
  else driver.step();
  expect(driver.ends.get(handle)).toEqual([how]);
  return { driver, handle };
}

describe('what still uses the blocks of a finished request', () => {
  for (const how of ['length', 'abort'] as const) {
    for (const order of orders(USES)) {
      it(`${how}: they come back exactly with the last of ${order.map(([kind]) => kind).join(', ')}`, () => {
        const { driver, handle } = drained(how);
        const { scheduler } = driver;
        for (const [kind, owner] of order) {
          expect(scheduler.core.freeBlocks).toBe(allBlocks(scheduler) - 3);
          expect(scheduler.stats().numDraining).toBe(1);
          expect(scheduler.getByHandle(handle)?.id).toBe('a');
          scheduler.verify();
          expect(scheduler.complete(handle, kind, owner)).toBe(true);
        }
        expect(leftovers(scheduler)).toEqual([]);
        expect(scheduler.getByHandle(handle)).toBeUndefined();
        expect(scheduler.complete(handle, ...order[0])).toBe(false);
        expect(scheduler.stats().anomalies).toEqual({ 'stale-handle': 1 });
      });
    }
  }

  it('keeps the engine at work until the last use ended, and blocks no step meanwhile', () => {
    const { driver, handle } = drained('length');
    const other = driver.add({ id: 'b', prompt: prompt(4, 1), maxTokens: 2 });
    driver.run(20, () => driver.scheduler.numUnfinished > 0);
    expect(driver.ends.get(other)).toEqual(['length']);
    driver.schedule();
    expect(driver.scheduler.hasWork()).toBe(true);
    for (const use of USES) driver.scheduler.complete(handle, ...use);
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('does not block its id: the next request with it runs, and late completions of the first free only the first', () => {
    const { driver, handle } = drained('abort');
    const fresh = driver.add({ id: 'a', prompt: prompt(10, 1), maxTokens: 20 });
    driver.step();
    driver.scheduler.hold(fresh, 'store', 'job');
    const free = driver.scheduler.core.freeBlocks;
    for (const use of USES) expect(driver.scheduler.complete(handle, ...use)).toBe(true);
    expect(driver.scheduler.core.freeBlocks).toBe(free + 3);
    expect(driver.scheduler.complete(handle, 'store', 'job')).toBe(false);
    driver.scheduler.verify();
    driver.abort('a');
    expect(driver.scheduler.stats().numDraining).toBe(1);
    driver.scheduler.complete(fresh, 'store', 'job');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('two owners of one kind are two uses', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a' });
    driver.step();
    driver.scheduler.hold(handle, 'store', 'job 1');
    driver.scheduler.hold(handle, 'store', 'job 2');
    driver.abort('a');
    driver.scheduler.complete(handle, 'store', 'job 2');
    expect(driver.scheduler.stats().numDraining).toBe(1);
    driver.scheduler.complete(handle, 'store', 'job 1');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('uses that end before the request hold nothing back', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a', maxTokens: 2 });
    driver.scheduler.hold(handle, 'load', 'x');
    driver.step();
    driver.scheduler.complete(handle, 'load', 'x');
    driver.step();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a use may be added while the request drains', () => {
    const { driver, handle } = drained('length');
    expect(driver.scheduler.hold(handle, 'lease', 'second peer')).toBe(true);
    for (const use of USES) driver.scheduler.complete(handle, ...use);
    expect(driver.scheduler.stats().numDraining).toBe(1);
    driver.scheduler.complete(handle, 'lease', 'second peer');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('its blocks are not handed out: a request that needs them waits, and starts when they are back', () => {
    const driver = new Driver({ numBlocks: 5 });
    const handle = driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.scheduler.hold(handle, 'store', 'job');
    driver.step();
    const big = driver.add({ id: 'big', prompt: prompt(12, 1), maxTokens: 1 });
    expect(driver.schedule().totalTokens).toBe(0);
    driver.scheduler.complete(handle, 'store', 'job');
    expect(driver.schedule().totalTokens).toBe(12);
    driver.run();
    expect(driver.ends.get(big)).toEqual(['length']);
  });

  it('draining requests hold rows only while nobody needs one; their blocks stay out of use', () => {
    const driver = new Driver({ maxNumSeqs: 2, numRows: 2 });
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 1 });
    scheduler.hold(handle, 'lease', 'peer');
    driver.step();
    const free = scheduler.stats().freeBlocks;
    expect(scheduler.stats()).toMatchObject({ numDraining: 1, rowsInUse: 1 });
    driver.add({ id: 'b', prompt: prompt(4, 1), maxTokens: 2 });
    driver.add({ id: 'c', prompt: prompt(4, 2), maxTokens: 2 });
    expect(driver.schedule().numRequests).toBe(2);
    expect(scheduler.stats()).toMatchObject({ numDraining: 1, rowStalls: 0, rowsInUse: 2 });
    scheduler.verify();
    driver.update();
    driver.run(99, () => scheduler.numUnfinished > 0);
    expect(scheduler.stats().freeBlocks).toBe(free);
    expect(scheduler.complete(handle, 'lease', 'peer')).toBe(true);
    expect(scheduler.stats()).toMatchObject({ numDraining: 0, freeBlocks: allBlocks(scheduler) });
    scheduler.verify();
  });

  it('loading requests hold rows: admission stops when none is free, which is counted', () => {
    const connector = new ScriptedConnector({ a: { ext: 4, async: true }, b: { ext: 4, async: true } });
    const driver = new Driver({ maxNumSeqs: 2, numRows: 2, connector });
    for (const [i, id] of ['a', 'b', 'c'].entries()) driver.add({ id, prompt: prompt(6, i), maxTokens: 2 });
    expect(driver.schedule().numRequests).toBe(0);
    expect(driver.scheduler.stats()).toMatchObject({ rowStalls: 1, rowsInUse: 2 });
  });

  it('kinds and owners are checked before anything changes', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a' });
    const bad = 'ERR_BLOCKSTEP_BAD_ARG';
    expect(codeOf(() => driver.scheduler.hold(handle, 'loan' as OutstandingKind, 'x'))).toBe(bad);
    expect(codeOf(() => driver.scheduler.hold(handle, 'load', 7 as unknown as string))).toBe(bad);
    expect(codeOf(() => driver.scheduler.complete('a' as unknown as number, 'load', 'x'))).toBe(bad);
    expect(driver.request(handle).outstanding).toBe(null);
  });
});
