// The state and the holders of every block, through random lives.
import { describe, expect, it, vi } from 'vitest';
import type { Scheduler } from '../../../src/index.js';
import { BlockState } from '../../../src/scheduler/inspect/block-state.js';
import type { Request } from '../../../src/scheduler/request/request.js';
import { ConnectedLife } from '../../support/connector/connected-life.js';
import { codeOf, Driver, prompt } from '../../support/driver.js';
import { share } from '../../support/share.js';
import { Life } from '../random-life.js';

/** The blocks that a request holds, as the core has them, and those kept for a transfer. */
function held(scheduler: Scheduler, { slot, keptBlocks }: Request): Set<number> {
  return new Set([...scheduler.core.blocks(slot), ...(keptBlocks ?? [])]);
}

/**
 * Compares the map of all blocks with the core's reference counts and the scheduler's own lists.
 * Counts what it met.
 */
function check(scheduler: Scheduler, met: Record<string, number>): void {
  const { core } = scheduler;
  const states = scheduler.inspect().blockStates();
  const { numBlocks } = scheduler.config;
  const { requests, draining, quarantined } = scheduler.inspect();
  const published = new Set(core.published());
  const inQuarantine = new Set(quarantined.flatMap((request) => [...held(scheduler, request)]));
  const used = [...requests, ...draining].filter(({ outstanding }) => (outstanding?.size ?? 0) > 0);
  const inTransfer = new Set(used.flatMap((request) => [...held(scheduler, request)]));
  const counts = new Array<number>(6).fill(0);
  const expected = (block: number): number => {
    if (block === 0) return BlockState.reserved;
    const references = core.native.refCount(block);
    if (references === 0) return published.has(block) ? BlockState.cached : BlockState.free;
    if (inQuarantine.has(block)) return BlockState.quarantined;
    if (inTransfer.has(block)) return BlockState.transfer;
    // A block has a reference for each request that holds it; a block with more references has a
    // pin of the connector.
    const sharers = requests.filter((request) => held(scheduler, request).has(block)).length;
    return references > sharers ? BlockState.transfer : BlockState.used;
  };
  for (let block = 0; block < numBlocks; block++) {
    counts[states[block]]++;
    if (states[block] !== expected(block)) expect([block, states[block]]).toEqual([block, expected(block)]);
  }
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(numBlocks);
  const { freeBlocks, cachedBlocks, quarantinedBlocks } = scheduler.stats();
  expect(counts[BlockState.free] + counts[BlockState.cached]).toBe(freeBlocks);
  expect(counts[BlockState.cached]).toBeLessThanOrEqual(cachedBlocks);
  expect(counts[BlockState.quarantined]).toBe(quarantinedBlocks);
  for (const [name, state] of Object.entries(BlockState)) met[name] = (met[name] ?? 0) + counts[state];
}

/** Checks the holders of each block by a search through all requests. */
function checkHolders(scheduler: Scheduler): void {
  const { requests, draining, quarantined } = scheduler.inspect();
  for (let block = 0; block < scheduler.config.numBlocks; block++) {
    const holders = [...requests, ...draining, ...quarantined].filter((one) =>
      held(scheduler, one).has(block),
    );
    expect(scheduler.inspect().holdersOf(block)).toEqual(holders);
  }
  for (const request of requests)
    expect(new Set(scheduler.inspect().blocksOf(request))).toEqual(held(scheduler, request));
}

describe('the map of blocks', () => {
  it('agrees with the core through random lives', () => {
    const met: Record<string, number> = {};
    for (let seed = 0; seed < share(2, 12); seed++) {
      const life = new Life(seed, {}, seed % 2 === 1);
      const { scheduler } = life.driver;
      vi.spyOn(scheduler, 'verify').mockImplementation(() => {
        check(scheduler, met);
        checkHolders(scheduler);
      });
      life.run(120);
    }
    for (const name of ['free', 'cached', 'used', 'transfer', 'reserved'])
      expect([name, met[name] > 0]).toEqual([name, true]);
  });

  it('agrees with it through lives with transfers, pins and quarantines', () => {
    const met: Record<string, number> = {};
    for (let seed = 0; seed < share(3, 16); seed++) {
      const life = new ConnectedLife(seed, { write: () => {} } as never, () => {});
      const { scheduler } = life;
      vi.spyOn(scheduler, 'verify').mockImplementation(() => {
        check(scheduler, met);
        checkHolders(scheduler);
      });
      life.run(150);
    }
    for (const name of Object.keys(BlockState)) expect([name, met[name] > 0]).toEqual([name, true]);
  });

  it('says of a block that requests share who they are, and of free ones what they hold', () => {
    const driver = new Driver({ maxNumSeqs: 4 });
    driver.add({ id: 'a', prompt: prompt(9) });
    driver.schedule();
    driver.update();
    driver.add({ id: 'b', prompt: prompt(9) });
    driver.schedule();
    const { scheduler } = driver;
    const [shared] = scheduler.inspect().blocksOf(scheduler.get('a')!);
    expect(
      scheduler
        .inspect()
        .holdersOf(shared)
        .map(({ id }) => id),
    ).toEqual(['a', 'b']);
    expect(scheduler.inspect().blockStates()[shared]).toBe(BlockState.used);
    scheduler.hold(scheduler.get('a')!.handle, 'lease', 'peer');
    expect(scheduler.inspect().blockStates()[shared]).toBe(BlockState.transfer);
    scheduler.complete(scheduler.get('a')!.handle, 'lease', 'peer');
    driver.run();
    // Their computed blocks can be found again, except the last block, which is not full.
    expect(scheduler.inspect().blockStates()[shared]).toBe(BlockState.cached);
    expect(scheduler.inspect().holdersOf(shared)).toEqual([]);
  });

  it('calls a block quarantined whoever uses it too', () => {
    let now = 0;
    const driver = new Driver({ now: () => now, deadlines: { reclaim: 100 } });
    const { scheduler } = driver;
    const first = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    driver.schedule();
    scheduler.hold(first, 'store', 'lost');
    driver.update();
    now = 1000;
    driver.update(driver.schedule());
    expect(scheduler.stats().numQuarantined).toBe(1);
    const second = driver.add({ id: 'b', prompt: prompt(9) });
    driver.schedule();
    scheduler.hold(second, 'lease', 'peer');
    const [shared] = scheduler.inspect().blocksOf(scheduler.get('b')!);
    expect(
      scheduler
        .inspect()
        .holdersOf(shared)
        .map(({ id }) => id),
    ).toEqual(['b', 'a']);
    expect(scheduler.inspect().blockStates()[shared]).toBe(BlockState.quarantined);
  });

  it('names the request whose blocks are kept for a transfer while it waits again', () => {
    const driver = new Driver();
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', prompt: prompt(9) });
    driver.schedule();
    driver.update();
    scheduler.hold(handle, 'store', 'slow');
    const [block] = scheduler.inspect().blocksOf(scheduler.get('a')!);
    scheduler.resetPrefixCache({ resetRunning: true });
    expect(scheduler.core.blocks(scheduler.get('a')!.slot)).toHaveLength(0);
    expect(
      scheduler
        .inspect()
        .holdersOf(block)
        .map(({ id }) => id),
    ).toEqual(['a']);
    expect(scheduler.inspect().blocksOf(scheduler.get('a')!)).toContain(block);
    expect(scheduler.inspect().blockStates()[block]).toBe(BlockState.transfer);
  });

  it('is refused by a scheduler that is gone', () => {
    const { scheduler } = new Driver();
    scheduler.dispose();
    expect(codeOf(() => scheduler.inspect().blockStates())).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => scheduler.inspect().holdersOf(1))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

it('an inspection makes a list when it is read for the first time, and keeps it', () => {
  const driver = new Driver({});
  driver.add({ id: 'a', prompt: prompt(4), maxTokens: 1 });
  const seen = driver.scheduler.inspect();
  expect(seen.findFinished('a')).toBeUndefined();
  driver.add({ id: 'b', prompt: prompt(4, 1), maxTokens: 1 });
  expect(seen.waiting).toEqual(['a', 'b']);
  driver.add({ id: 'c', prompt: prompt(4, 2), maxTokens: 1 });
  expect([seen.waiting, seen.requests.map(({ id }) => id)]).toEqual([
    ['a', 'b'],
    ['a', 'b', 'c'],
  ]);
  expect(Object.keys(seen)).toEqual(['running', 'waiting', 'skipped', 'requests', 'draining', 'quarantined']);
});
