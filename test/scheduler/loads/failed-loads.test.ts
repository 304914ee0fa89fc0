// Loads that fail behind a step from before them, and over a block that others read.
import { describe, expect, it } from 'vitest';
import { RemoteDriver } from '../../guards/remote.js';
import { leftovers, prompt } from '../../support/driver.js';

// Pinned by: `failLoads`, `applyInvalid`, `applyFailed` and `wasFound` (load-failure.ts).
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
    // The test reports that the rest has come.
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
            { deviations: ['limitLoadRetries'], loadFailurePolicy: 'recompute', blockSize: 1 },
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

describe('a load that was declined', () => {
  for (const loadFailurePolicy of ['fail', 'recompute'] as const)
    for (const where of ['in an update', 'between two'] as const)
      for (const pipelineDepth of [1, 2] as const)
        it(`is computed (${loadFailurePolicy}, ${where}, depth ${pipelineDepth})`, () => {
          const driver = new RemoteDriver(
            { r: { ext: 8, async: true, oneshot: true } },
            { loadFailurePolicy, pipelineDepth, strict: true },
          );
          const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
          const report = {
            failedReceiving: [{ handle: r, declined: true }],
            finishedReceiving: [{ handle: r }],
          };
          if (where === 'between two') driver.say(report);
          else {
            driver.report = report;
            driver.empty();
          }
          expect(driver.ends.get(r)).toEqual([]);
          expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 1, numLoading: 1 });
          driver.run();
          expect(driver.text(r)).toEqual(driver.model.text(r, 2));
          expect(driver.connector.outputs.at(-1)?.failedReceiving?.[0]).toMatchObject({ declined: true });
          expect(leftovers(driver.scheduler)).toEqual([]);
        });

  it('costs its request if another rank failed otherwise', () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { loadFailurePolicy: 'fail', reporters: [[0, 1]], numRanks: 2 },
      );
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      const failed = [
        { handle: r, rank: 0, declined: true },
        { handle: r, rank: 1 },
      ];
      driver.say({
        failedReceiving: order.map((i) => failed[i]),
        finishedReceiving: [0, 1].map((rank) => ({ handle: r, rank })),
      });
      driver.run();
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    }
  });

  it('is not one where anything but true says so, or where the step reads the load', () => {
    for (const [async, declined] of [
      [true, 1],
      [true, 'yes'],
      [false, true],
    ] as const) {
      const driver = new RemoteDriver({ r: { ext: 8, async } }, { loadFailurePolicy: 'fail' });
      const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      const plan = driver.schedule();
      driver.report = {
        failedReceiving: [{ handle: r, declined: declined as unknown as boolean }],
        finishedReceiving: [{ handle: r }],
      };
      driver.update(plan);
      driver.run();
      expect(driver.ends.get(r)).toEqual(['error']);
    }
  });
});

describe('the tokens that count as cached', () => {
  const cached = (driver: RemoteDriver, handle: number): number => driver.request(handle).numCachedTokens;
  /** Tokens of prompts: all, from the local cache, and loaded; and all loaded tokens. */
  const counted = ({ scheduler }: RemoteDriver): readonly number[] => {
    const { promptTokens, promptTokensCached, promptTokensLoaded, externalHits } = scheduler.stats();
    return [promptTokens, promptTokensCached, promptTokensLoaded, externalHits];
  };

  it.each([
    { what: 'all of an asynchronous load', report: {}, numCached: 8 },
    { what: 'nothing of one that failed', report: { failedReceiving: true }, numCached: 0 },
    { what: 'the first block of one whose second is missing', report: { invalid: 1 }, numCached: 4 },
  ])('are $what', ({ report, numCached }) => {
    const driver = new RemoteDriver(
      { r: { ext: 8, async: true, oneshot: true } },
      { loadFailurePolicy: 'recompute' },
    );
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    const { blocks } = driver.connector.loadOf(r);
    // Nothing is counted before it has come.
    expect(counted(driver)).toEqual([0, 0, 0, 0]);
    if (report.invalid === 1) driver.broken = [1];
    if (report.failedReceiving) driver.broken = [0, 1];
    driver.land(r);
    driver.say({
      ...(report.failedReceiving && { failedReceiving: [{ handle: r }] }),
      ...(report.invalid === 1 && { invalidBlocks: [{ block: blocks[1], handle: r }] }),
      finishedReceiving: [{ handle: r }],
    });
    driver.step();
    expect(cached(driver, r)).toBe(numCached);
    expect(counted(driver)).toEqual([9, 0, numCached, numCached]);
    driver.run();
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
  });

  it('are what came of a synchronous load, also for who found its blocks meanwhile', () => {
    const driver = new RemoteDriver(
      { r: { ext: 8, oneshot: true } },
      { loadFailurePolicy: 'recompute', pipelineDepth: 2 },
    );
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    driver.broken = [1];
    driver.schedule();
    const sharer = driver.add({ id: 'sharer', prompt: prompt(9), maxTokens: 2 });
    driver.schedule();
    const requests = [driver.request(r), driver.request(sharer)];
    expect(requests.map(({ numCachedTokens }) => numCachedTokens)).toEqual([8, 8]);
    // Tokens that a step loads are counted when the step is over.
    expect(counted(driver)).toEqual([9 + 1, 8, 0, 0]);
    const { blocks } = driver.connector.loadOf(r);
    driver.report = { invalidBlocks: [{ block: blocks[1], handle: r }] };
    driver.update();
    driver.run();
    expect(requests.map(({ numCachedTokens }) => numCachedTokens)).toEqual([4, 4]);
    expect(counted(driver)).toEqual([9 + 9, 8, 4, 4]);
    for (const handle of [r, sharer]) expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it.each([1, 2] as const)(
    'are none of a load that its request did not await (depth %i)',
    (pipelineDepth) => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      driver.scheduler.abort(r);
      driver.land(r);
      driver.say({ finishedReceiving: [{ handle: r }] });
      driver.run();
      expect(counted(driver)).toEqual([0, 0, 0, 0]);
      expect(leftovers(driver.scheduler)).toEqual([]);
    },
  );

  it.each(['well', 'failed'] as const)('are those of a step that went %s', (how) => {
    const driver = new RemoteDriver({ r: { ext: 8, oneshot: true } });
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    const plan = driver.schedule();
    if (how === 'failed') driver.scheduler.failStep(plan);
    else driver.run();
    expect(counted(driver)).toEqual(how === 'failed' ? [9, 0, 0, 0] : [9, 0, 8, 8]);
    if (how === 'well') expect(driver.text(r)).toEqual(driver.model.text(r, 2));
  });
});
