// The view of a connector: requests and their settled part, stores of running requests, later
// lookups, protected blocks.
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PartialMetadata } from '../../../src/connector.js';
import { BLOCK_HASH } from '../../../src/core/native/block-hash.js';
import { type Plan, type Request, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { replayCommands, replayInputs } from '../../../src/replay.js';
import { hashSeedBytes } from '../../../src/scheduler/options/hash-seed.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';
import { allBlocks, codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { MemorySink } from '../../support/recorded-log.js';

function viewed(options: Partial<SchedulerOptions> = {}, connector = new ViewingConnector()) {
  const driver = new Driver({ connector, strict: true, ...options });
  return { driver, connector, view: connector.view, scheduler: driver.scheduler };
}

describe('what the scheduler side of a connector can read', () => {
  it('tokens, blocks and hashes of a request, equal for equal beginnings', () => {
    const { driver, view, scheduler } = viewed();
    const [a, b] = ['a', 'b'].map((id, i) =>
      driver.add({ id, prompt: Int32Array.of(...prompt(8), 100 + i) }),
    );
    const [first, second] = [driver.request(a), driver.request(b)];
    expect(view.numGroups).toBe(1);
    expect(view.numBlocks).toBe(scheduler.config.numBlocks);
    expect([...view.tokens(first)]).toEqual([...prompt(8), 100]);
    expect(view.blocks(first).map((list) => list.length)).toEqual([0]);
    expect(view.numFullBlocks(first)).toBe(2);
    expect([0, 1].map((i) => view.blockHash(first, i))).toEqual([0, 1].map((i) => view.blockHash(second, i)));
    expect(view.blockHash(first, 0)).not.toBe(view.blockHash(first, 1));
    driver.step();
    expect(view.blocks(first)[0].length).toBe(3);
    expect(view.numFullBlocks(first)).toBe(2);
    driver.run();
  });

  it('a name of the hashes, which tells of the seed and not the seed', () => {
    const names = [7, 7, 8].map((hashSeed) => viewed({ hashSeed }).view.hashSpace);
    expect(names[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(names[1]).toBe(names[0]);
    expect(names[2]).not.toBe(names[0]);
    // Another function of hashes is another space.
    const seed = hashSeedBytes(7);
    const named = createHash('sha256').update(`blockstep hash space ${BLOCK_HASH}\0`).update(seed);
    expect(names[0]).toBe(named.digest('hex').slice(0, 32));
    const connector = new ViewingConnector();
    const scheduler = new Scheduler({ numBlocks: 8, connector });
    expect(connector.view.hashSpace).toBe(null);
    // The hash seed that was drawn for one scheduler is given to another one.
    expect(viewed({ hashSeed: scheduler.config.hashSeed }).view.hashSpace).toMatch(/^[0-9a-f]{32}$/);
    scheduler.dispose();
  });

  it('is refused what there is not, and whoever has ended', () => {
    const { driver, view } = viewed();
    const request = driver.request(driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 }));
    const bad = 'ERR_BLOCKSTEP_BAD_ARG';
    for (const index of [2, -1, 0.5, Number.NaN])
      expect(codeOf(() => view.blockHash(request, index))).toBe(bad);
    expect(codeOf(() => view.blockHash(request, 0, 1))).toBe(bad);
    expect(codeOf(() => view.numFullBlocks(request, 1))).toBe(bad);
    const plan = driver.schedule();
    for (const entry of [1, -1]) expect(codeOf(() => view.newBlocks(plan, entry))).toBe(bad);
    driver.update();
    driver.run();
    for (const read of ['tokens', 'blocks', 'extent'] as const)
      expect(codeOf(() => view[read](request))).toBe(bad);
  });

  it('by another object that has the handle of a request, as that of a combined connector', () => {
    const { driver, view } = viewed();
    const request = driver.request(driver.add({ id: 'a', prompt: prompt(9) }));
    driver.schedule();
    const shown = { ...request, numTokens: request.numTokens, numComputedTokens: request.numComputedTokens };
    expect(view.extent(shown as never)).toEqual({ numTokens: 9, numSettledTokens: 0, readableFrom: 0 });
    expect(view.blocks(shown as never)).toEqual(view.blocks(request));
    driver.update();
    driver.run();
  });

  it('the blocks that an entry took from the pool, and no cached prefix', () => {
    const { driver, view, connector } = viewed();
    const told: number[][] = [];
    connector.onMetadata = (plan: Plan) => {
      for (let i = 0; i < plan.numRequests; i++) told.push([...view.newBlocks(plan, i)[0]]);
    };
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 5 });
    driver.step();
    const first = [...view.blocks(driver.request(a))[0]];
    expect(told).toEqual([first]);
    told.length = 0;
    const b = driver.add({ id: 'b', prompt: Int32Array.of(...prompt(8), 901, 902), maxTokens: 2 });
    const plan = driver.schedule();
    // The request hit two blocks, which vLLM's count of new blocks includes.
    expect(plan.numNewBlocks[1]).toBe(3);
    expect(told).toEqual([[], [...view.blocks(driver.request(b))[0].slice(2)]]);
    driver.update();
    driver.run();
    expect(told.flat().filter((block) => first.includes(block)).length).toBe(0);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('what a client gave for the connector, and nothing where it gave nothing', () => {
    const { driver } = viewed();
    const given = { remote: { host: 'p', block: 7 } };
    const a = driver.add({ id: 'a', transferParams: given });
    const b = driver.add({ id: 'b', prompt: prompt(8, 1) });
    expect(driver.request(a).transferParams).toEqual(given);
    expect(driver.request(b).transferParams).toBe(null);
    for (const wrong of [7, 'x', null, [], () => {}])
      expect(codeOf(() => driver.add({ id: 'c', transferParams: wrong as never }))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
  });
});

/** Positions of blocks that steps which were updated have written. */
class Written {
  readonly #positions = new Set<string>();
  readonly #inFlight: { blocks: Int32Array; from: number; to: number }[][] = [];

  scheduled(plan: Plan, blocksOf: (request: Request) => Int32Array): void {
    if (plan.totalTokens === 0) return;
    const entries = Array.from({ length: plan.numRequests }, (_, i) => {
      const from = plan.numComputedTokens[i];
      return { blocks: blocksOf(plan.requests[i]), from, to: from + plan.numScheduledTokens[i] };
    });
    this.#inFlight.push(entries);
  }

  updated(): void {
    for (const { blocks, from, to } of this.#inFlight.shift() ?? []) {
      for (let p = from; p < to; p++) this.#positions.add(`${blocks[Math.floor(p / 4)]} ${p % 4}`);
    }
  }

  /** The first position below `end` that no such step has written. */
  first(blocks: Int32Array, end: number): number {
    for (let p = 0; p < end; p++) if (!this.#positions.has(`${blocks[Math.floor(p / 4)]} ${p % 4}`)) return p;
    return end;
  }
}

describe('what of a request is settled', () => {
  it.each([1, 2, 3] as const)(
    'depth %i: never more than steps that were updated have written',
    (pipelineDepth) => {
      const { driver, connector, view, scheduler } = viewed({ pipelineDepth, maxNumBatchedTokens: 8 });
      const handles = [0, 1, 2].map((i) =>
        driver.add({ id: `r${i}`, prompt: prompt(7 + 3 * i, i % 2), maxTokens: 5 }),
      );
      const written = new Written();
      const seen = new Set<string>();
      const look = (): void => {
        for (const handle of handles) {
          const request = scheduler.getByHandle(handle);
          if (request === undefined) continue;
          const { numTokens, numSettledTokens, readableFrom } = view.extent(request);
          expect(numSettledTokens).toBeLessThanOrEqual(written.first(view.blocks(request)[0], numTokens));
          expect(numTokens).toBeLessThanOrEqual(request.numTokens);
          const isAtRest = scheduler.stats().stepsInFlight === 0;
          if (isAtRest) expect([numSettledTokens, readableFrom]).toEqual([numTokens, -1]);
          seen.add(`${numSettledTokens > 0} ${numSettledTokens < numTokens} ${readableFrom >= 0}`);
        }
      };
      connector.onMetadata = look;
      while (scheduler.hasWork()) {
        let plan: Plan | undefined;
        while (driver.inFlight.length < pipelineDepth) {
          plan = driver.schedule();
          written.scheduled(plan, (request) => view.blocks(request)[0]);
          look();
          if (plan.totalTokens === 0) break;
        }
        written.updated();
        driver.update(plan);
        look();
      }
      expect([...seen]).toContain('true true true');
      expect(leftovers(scheduler)).toEqual([]);
    },
  );
});

describe('a store of a request that still runs', () => {
  it('is registered from inside a method, keeps the blocks until it is over, and is replayed', () => {
    const log = new MemorySink();
    const { driver, connector, view, scheduler } = viewed({ log, numBlocks: 12, maxNumSeqs: 2 });
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    let isHeld = false;
    connector.onMetadata = () => {
      if (!isHeld) isHeld = view.hold(a, 'store', 'job 1');
    };
    driver.run(99, () => scheduler.numUnfinished > 0);
    driver.step();
    expect(scheduler.stats()).toMatchObject({ numDraining: 1, freeBlocks: allBlocks(scheduler) - 3 });
    // Between two calls, as when a worker's metadata was read.
    expect(view.complete(a, 'store', 'job 1')).toBe(true);
    expect(scheduler.stats()).toMatchObject({ numDraining: 0, freeBlocks: allBlocks(scheduler) });
    scheduler.verify();
    const digest = scheduler.digest();
    expect(replayCommands(log.bytes).digest).toBe(digest);
    expect(replayInputs(log.bytes).digest()).toBe(digest);
  });

  it('keeps its request from being preempted while there is another, and its blocks from everybody', () => {
    const { driver, connector, view, scheduler } = viewed({ numBlocks: 8, maxNumSeqs: 2, maxModelLen: 24 });
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 12 });
    const b = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 12 });
    let isHeld = false;
    connector.onMetadata = () => {
      if (!isHeld) isHeld = view.hold(b, 'store', 'job');
    };
    while (scheduler.stats().numPreemptions === 0) driver.step();
    expect(driver.request(a).numPreemptions).toBe(1);
    expect(driver.request(b).numPreemptions).toBe(0);
    view.complete(b, 'store', 'job');
    driver.run();
    expect(leftovers(scheduler)).toEqual([]);
  });

  it('refuses names that are not its own, and counts what is stale', () => {
    const { driver, view } = viewed({ strict: false });
    const a = driver.add({ id: 'a' });
    const bad = 'ERR_BLOCKSTEP_BAD_ARG';
    expect(codeOf(() => view.hold(a, 'load' as never, 'x'))).toBe(bad);
    expect(codeOf(() => view.hold(a, 'store', 'child 0 rank 1'))).toBe(bad);
    expect(codeOf(() => view.wake(-1))).toBe(bad);
    expect(codeOf(() => view.tellTier('gone' as never, 'CPU', [1n]))).toBe(bad);
    expect(codeOf(() => view.tellTier('stored', 'GPU' as never, [1n]))).toBe(bad);
    expect(view.hold(a + 2 ** 21, 'store', 'x')).toBe(false);
    expect(view.complete(a, 'store', 'x')).toBe(false);
    expect(driver.scheduler.stats().anomalies).toEqual({ 'stale-handle': 1, 'unknown-completion': 1 });
  });
});

describe('a request whose connector cannot say yet what it can load', () => {
  const later = { numTokens: null, async: false };

  it('with wakes: is asked about once, stands apart, and is asked again when it is woken; replayed', () => {
    const log = new MemorySink();
    const { driver, connector, view, scheduler } = viewed({ log });
    connector.match = { ...later, wakes: true };
    const a = driver.add({ id: 'a', maxTokens: 2 });
    const b = driver.add({ id: 'b', prompt: prompt(8, 1), maxTokens: 9 });
    connector.match = { ...later, wakes: true };
    driver.schedule();
    connector.match = null;
    for (let i = 0; i < 4; i++) driver.scheduler.schedule();
    expect(connector.calls.filter((call) => call.startsWith('match'))).toEqual(['match a 0', 'match b 0']);
    expect(driver.request(a).waitReason).toBe('connector');
    expect(scheduler.inspect().skipped).toEqual(['a', 'b']);
    scheduler.verify();
    expect([view.wake(b), view.wake(b), view.wake(a + 2 ** 21)]).toEqual([true, false, false]);
    driver.step();
    expect(driver.text(b).length).toBe(1);
    expect(driver.request(a).waitReason).toBe('connector');
    expect(view.wake(a)).toBe(true);
    driver.run();
    expect([driver.text(a).length, driver.text(b).length]).toEqual([2, 9]);
    expect(replayInputs(log.bytes).digest()).toBe(scheduler.digest());
    expect(leftovers(scheduler)).toEqual([]);
  });

  it.each([true, false])('wakes %s: ends with its deadline, and can be aborted', (wakes) => {
    let now = 0;
    const options = { now: () => now, deadlines: { load: 100 }, strict: false };
    const { driver, connector, scheduler } = viewed(options);
    connector.match = { ...later, wakes };
    const a = driver.add({ id: 'a' });
    const b = driver.add({ id: 'b', prompt: prompt(8, 1) });
    now = 10;
    driver.step();
    scheduler.verify();
    driver.abort(b);
    now = 109;
    driver.step();
    expect(driver.ends.get(a)).toEqual([]);
    now = 110;
    driver.step();
    expect(driver.ends.get(a)).toEqual(['error']);
    expect(scheduler.stats().loadTimeouts).toBe(1);
    expect(leftovers(scheduler)).toEqual([]);
  });

  it('an answer ends that wait', () => {
    let now = 0;
    const { driver, connector, scheduler } = viewed({ now: () => now, deadlines: { load: 100 } });
    connector.match = later;
    const a = driver.add({ id: 'a', maxTokens: 3 });
    driver.step();
    connector.match = null;
    driver.step();
    now = 1000;
    driver.run();
    expect(driver.ends.get(a)).toEqual(['length']);
    expect(scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('metadata that some children could not make', () => {
  it.each(['fail', 'recompute'] as const)('%s: costs their loads, and nobody else’s', (loadFailurePolicy) => {
    const scripts = { a: { ext: 4, async: true, oneshot: true }, b: { ext: 4, async: true, child: 1 } };
    const connector = new ViewingConnector(scripts, { reporters: [[0], [0]] });
    const { driver, scheduler } = viewed({ loadFailurePolicy, strict: false }, connector);
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    const b = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 1 });
    connector.onMetadata = () => new PartialMetadata('of child 1', [0, 0]);
    const plan = scheduler.schedule();
    connector.onMetadata = () => undefined;
    expect(plan.connectorMetadata).toBe('of child 1');
    expect(scheduler.stats().anomalies).toEqual({ 'connector-failed': 1 });
    expect(driver.request(b).waitReason).toBe('remote-kv');
    expect(scheduler.getByHandle(a)?.isFinished ?? true).toBe(loadFailurePolicy === 'fail');
    driver.model.load(b, connector.view.blocks(driver.request(b))[0], 0, 4);
    scheduler.updateTransfers({ finishedReceiving: [{ handle: b, child: 1 }] });
    driver.run();
    expect(driver.ends.get(b)).toEqual(['length']);
    expect(leftovers(scheduler)).toEqual([]);
  });
});

describe('how a connector protects blocks', () => {
  it('pins are given to those that pin, and to nobody else', () => {
    for (const protection of ['own', 'fence', 'pin', ['own', 'pin']] as const) {
      const connector = new ViewingConnector({}, { protection });
      viewed({}, connector);
      expect(connector.pins !== null, `${protection}`).toBe(
        protection === 'pin' || Array.isArray(protection),
      );
    }
  });

  it('whoever says that it owns blocks and does not protect so is not believed: they stay, and it is counted', () => {
    const connector = new ViewingConnector({ a: { delayFree: true } }, { protection: 'fence' });
    const { driver, scheduler } = viewed({ strict: false }, connector);
    const handle = driver.add({ id: 'a', maxTokens: 1 });
    driver.run(99, () => scheduler.numUnfinished > 0);
    expect(scheduler.stats()).toMatchObject({ numDraining: 1, anomalies: { 'connector-failed': 1 } });
    scheduler.updateTransfers({ finishedSending: [{ handle }] });
    expect(scheduler.stats().numDraining).toBe(0);
  });

  it('a reset that only pins are in the way of says so', () => {
    const connector = new ViewingConnector({}, { protection: 'pin' });
    const { scheduler } = viewed({}, connector);
    connector.pins?.pin(Int32Array.of(3, 4, 4));
    expect(scheduler.resetPrefixCache()).toMatchObject({
      ok: false,
      local: false,
      blockers: [],
      pinnedBlocks: 2,
    });
    connector.pins?.unpin(Int32Array.of(3, 4, 4));
    expect(scheduler.resetPrefixCache()).toMatchObject({ ok: true, pinnedBlocks: 0 });
  });
});

describe('F39 all blocks are pinned or held', () => {
  it('nobody is preempted for nothing, and everybody goes on later', () => {
    for (const how of ['pinned', 'held'] as const) {
      const connector = new ViewingConnector({}, { protection: 'pin' });
      const { driver, scheduler, view } = viewed({ numBlocks: 7, maxNumSeqs: 3, maxModelLen: 24 }, connector);
      const handles = [0, 1, 2].map((i) => driver.add({ id: `r${i}`, prompt: prompt(7, i), maxTokens: 9 }));
      driver.step();
      const held = handles.map((handle) => view.blocks(driver.request(handle))[0]);
      const keep = (): void => {
        if (how === 'pinned') for (const blocks of held) connector.pins?.pin(blocks);
        else for (const handle of handles) view.hold(handle, 'store', 'job');
      };
      keep();
      for (let i = 0; i < 6; i++) driver.step();
      expect(scheduler.stats()).toMatchObject({ numPreemptions: 0, numRunning: 3 });
      scheduler.verify();
      if (how === 'pinned') for (const blocks of held) connector.pins?.unpin(blocks);
      else for (const handle of handles) view.complete(handle, 'store', 'job');
      driver.run();
      expect(handles.map((handle) => driver.text(handle).length)).toEqual([9, 9, 9]);
      expect(leftovers(scheduler)).toEqual([]);
    }
  });
});
