// The settled part of a request for each kind of end or preemption, at every depth; and that of
// others meanwhile.
import { describe, expect, it } from 'vitest';
import type { Finished, HandOver, KvView, Match, SchedulerConnector } from '../../../src/connector.js';
import type { Plan, Request, SchedulerOptions } from '../../../src/index.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

/**
 * The connector's data of an end: reason, `numTokens`, `numSettledTokens`, `readableFrom`, blocks
 * by group.
 */
type Told = readonly [string, number, number, number, readonly number[]];

/** Notes every end as it is reported, and the view's data of all other requests meanwhile. */
class Watching implements SchedulerConnector {
  view!: KvView;
  readonly ended = new Map<string, Told>();
  /** Settled tokens of the other requests, as the view had them when a request ended. */
  readonly others: [string, number][] = [];
  readonly known = new Set<Request>();
  match: Match = { numTokens: 0, async: false };
  onQuestion = (): void => {};

  bind(view: KvView): void {
    this.view = view;
  }

  onNewRequest(request: Request): void {
    this.known.add(request);
  }

  getNumNewMatchedTokens(): Match {
    this.onQuestion();
    return this.match;
  }

  updateStateAfterAlloc(): void {}

  buildMetadata(): null {
    return null;
  }

  requestFinished(request: Request, reason: string, handOver: HandOver): Finished {
    const { numTokens, numSettledTokens, readableFrom, blocks } = handOver;
    const lengths = blocks.map((list) => list.length);
    this.ended.set(request.id, [reason, numTokens, numSettledTokens, readableFrom, lengths]);
    expect(this.view.extent(request)).toEqual({ numTokens, numSettledTokens, readableFrom });
    this.known.delete(request);
    for (const other of this.known) this.others.push([other.id, this.settled(other)]);
    return { delayFree: false };
  }

  settled(request: Request): number {
    return this.view.extent(request).numSettledTokens;
  }
}

const FAIL_ALL = (): boolean => true;

function failing(...ids: string[]) {
  return (entry: number, plan: Plan): boolean => ids.includes(plan.requests[entry].id);
}

function watched(options: Partial<SchedulerOptions> = {}) {
  const connector = new Watching();
  const driver = new Driver({ connector, strict: true, ...options });
  return { driver, connector, told: (id: string) => connector.ended.get(id) };
}

/** Updates what is in flight; nothing may be left. */
function drain(driver: Driver): void {
  driver.run();
  expect(leftovers(driver.scheduler)).toEqual([]);
}

const GROUPS: SchedulerOptions['kvGroups'] = [{ type: 'full' }, { type: 'sliding', window: 6 }];

describe.each([1, 2, 3] as const)('what is settled of a request whose step failed, depth %i', (depth) => {
  for (const [name, fail] of [
    ['its row', (driver: Driver) => driver.update()],
    ['the whole step', (driver: Driver) => driver.failStep()],
  ] as const) {
    it(`${name}, in its prompt: nothing`, () => {
      const { driver, told } = watched({ pipelineDepth: depth });
      driver.add({ id: 'a', prompt: prompt(18) });
      driver.schedule(FAIL_ALL);
      fail(driver);
      expect(told('a')).toEqual(['error', 0, 0, -1, [0]]);
      drain(driver);
    });

    it(`${name}, in the second chunk: the first chunk, whatever steps behind it are in flight`, () => {
      const { driver, told } = watched({ pipelineDepth: depth, maxNumBatchedTokens: 8 });
      driver.add({ id: 'a', prompt: prompt(40) });
      driver.schedule();
      driver.update();
      while (driver.inFlight.length < depth) driver.schedule(FAIL_ALL);
      const plans = driver.inFlight.map(({ plan }) => plan);
      fail(driver);
      expect(told('a')).toEqual(['error', 8, 8, -1, [2]]);
      const handles = plans.map((plan) => plan.failedHandles());
      expect(handles).toEqual(plans.map(({ requests }) => [requests[0].handle]));
      drain(driver);
    });

    it(`${name}, with KV cache groups: the first chunk`, () => {
      const options = { pipelineDepth: depth, maxNumBatchedTokens: 8, kvGroups: GROUPS };
      const { driver, told } = watched(options);
      driver.add({ id: 'a', prompt: prompt(40) });
      driver.schedule();
      driver.update();
      while (driver.inFlight.length < depth) driver.schedule(FAIL_ALL);
      fail(driver);
      expect(told('a')).toEqual(['error', 8, 8, -1, [2, 2]]);
      drain(driver);
    });
  }

  it('in its answer: what was computed before', () => {
    const { driver, told } = watched({ pipelineDepth: depth });
    driver.add({ id: 'a', prompt: prompt(9), maxTokens: 20 });
    for (let i = 0; i < 4; i++) {
      driver.schedule();
      driver.update();
    }
    while (driver.inFlight.length < depth) driver.schedule(FAIL_ALL);
    driver.update();
    expect(told('a')).toEqual(['error', 12, 12, -1, [3]]);
    drain(driver);
  });

  it('beside others: when it ends, what the same step computed of them is not settled yet', () => {
    const { driver, connector } = watched({ pipelineDepth: depth, maxNumBatchedTokens: 30 });
    driver.add({ id: 'a', prompt: prompt(9) });
    driver.add({ id: 'b', prompt: prompt(40, 1) });
    driver.schedule();
    driver.update();
    expect(connector.settled(driver.request(driver.scheduler.get('b')?.handle as number))).toBe(21);
    driver.schedule(FAIL_ALL);
    driver.update();
    expect(connector.others).toEqual([['b', 21]]);
    drain(driver);
  });

  it('a sharer of what failed begins anew, and nothing of it is settled until it was computed again', () => {
    const { driver, connector, told } = watched({ pipelineDepth: depth });
    driver.add({ id: 'a', prompt: prompt(13) });
    const b = driver.add({ id: 'b', prompt: prompt(17), maxTokens: 3 });
    driver.schedule(failing('a'));
    expect(driver.request(b).numCachedTokens).toBe(12);
    expect(connector.settled(driver.request(b))).toBe(0);
    driver.update();
    expect(told('a')).toEqual(['error', 0, 0, -1, [0]]);
    expect(connector.others).toEqual([['b', 0]]);
    expect(connector.view.extent(driver.request(b)).numTokens).toBe(0);
    drain(driver);
    // At depth 3 a step in flight computes the last token too.
    expect(told('b')?.slice(0, 3)).toEqual(['length', depth === 3 ? 20 : 19, 19]);
  });

  it('a sharer that leaves before the failure is known: nothing, since its prefix may not come', () => {
    const { driver, told } = watched({ pipelineDepth: depth });
    driver.add({ id: 'a', prompt: prompt(13) });
    driver.add({ id: 'b', prompt: prompt(17), maxTokens: 3 });
    const { step } = driver.schedule(failing('a'));
    driver.abort('b');
    expect(told('b')).toEqual(['abort', 17, 0, step, [5]]);
    driver.update();
    drain(driver);
  });

  it('an entry that a forced reset has dropped fails for nobody: the request goes on', () => {
    const { driver, connector, told } = watched({ pipelineDepth: depth });
    const a = driver.add({ id: 'a', prompt: prompt(18), maxTokens: 2 });
    driver.schedule(FAIL_ALL);
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(connector.settled(driver.request(a))).toBe(0);
    driver.update();
    expect(told('a')).toBeUndefined();
    expect(connector.settled(driver.request(a))).toBe(0);
    drain(driver);
    expect(told('a')?.slice(0, 3)).toEqual(['length', depth === 3 ? 20 : 19, 19]);
    expect(driver.text(a)).toEqual(driver.model.text(a, 2));
  });
});

describe.each([1, 2, 3] as const)('what is settled of a request that ends otherwise, depth %i', (depth) => {
  /** A request with 8 tokens that were computed, and `depth` steps in flight that compute more. */
  function midway(options: Partial<SchedulerOptions> = {}, timeoutMs?: number) {
    const all = watched({ pipelineDepth: depth, maxNumBatchedTokens: 8, ...options });
    const { driver } = all;
    driver.add({ id: 'a', prompt: prompt(64), ...(timeoutMs !== undefined && { timeoutMs }) });
    driver.schedule();
    driver.update();
    while (driver.inFlight.length < depth) driver.schedule(FAIL_ALL);
    const { step } = (driver.inFlight.at(-1) as { plan: Plan }).plan;
    const numBlocks = 2 * (depth + 1);
    return { ...all, step, numTokens: 8 * (depth + 1), numBlocks };
  }

  it('by an abort: what was updated. The rest is readable behind the last step, unless one has failed', () => {
    const { driver, told, step, numTokens, numBlocks } = midway();
    const { plan } = driver.inFlight[0];
    driver.abort('a');
    expect(told('a')).toEqual(['abort', numTokens, 8, step, [numBlocks]]);
    driver.update();
    expect(plan.failedHandles()).toEqual([plan.requests[0].handle]);
    drain(driver);
  });

  it('by an abort of all, as when an engine is disposed: the same', () => {
    const { driver, told, step, numTokens, numBlocks } = midway();
    driver.abortAll();
    expect(told('a')).toEqual(['abort', numTokens, 8, step, [numBlocks]]);
    for (const { plan } of driver.inFlight.splice(0)) driver.scheduler.failStep(plan);
    drain(driver);
  });

  it('by its timeoutMs: the same, with error', () => {
    let now = 0;
    const { driver, told } = watched({ pipelineDepth: depth, maxNumBatchedTokens: 8, now: () => now });
    driver.add({ id: 'a', prompt: prompt(64), timeoutMs: 5 });
    for (let i = 0; i < depth; i++) {
      driver.schedule();
      if (i === 0) driver.update();
    }
    now = 10;
    driver.schedule();
    const numInFlight = depth - 1;
    const last = (driver.inFlight.at(-1) as { plan: Plan } | undefined)?.plan.step ?? -1;
    expect(told('a')).toEqual(['error', 8 * (1 + numInFlight), 8, last, [2 * (1 + numInFlight)]]);
    drain(driver);
  });

  it('since a grammar did not accept its token: all that was computed', () => {
    const { driver, told } = watched({ pipelineDepth: depth });
    driver.add({ id: 'a', prompt: prompt(9), grammar: new FakeGrammar({ accepts: 0 }) });
    driver.schedule();
    driver.update();
    expect(told('a')).toEqual(['error', 9, 9, -1, [3]]);
    drain(driver);
  });

  it('since the executor lost a block of it: what stands in front of that block', () => {
    const { driver, connector, told } = midway({ loadFailurePolicy: 'fail' });
    const [row] = connector.view.blocks(driver.request(driver.scheduler.get('a')?.handle as number));
    driver.scheduler.updateTransfers({ lostBlocks: [row[1]] });
    expect(told('a')).toEqual(['error', 4, 4, -1, [1]]);
    for (const { plan } of driver.inFlight.splice(0)) driver.scheduler.failStep(plan);
    drain(driver);
  });

  it('while its KV is loaded: nothing of the load', () => {
    let now = 0;
    const { driver, connector, told } = watched({
      ...{ pipelineDepth: depth, now: () => now, strict: false },
      deadlines: { load: 5 },
    });
    driver.add({ id: 'first', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    connector.match = { numTokens: 4, async: true };
    driver.add({ id: 'a', prompt: prompt(18) });
    driver.schedule();
    now = 10;
    driver.scheduler.update(driver.schedule(), { tokens: new Int32Array(0), counts: new Int32Array(0) });
    expect(told('a')).toEqual(['error', 8, 8, -1, [3]]);
    driver.scheduler.fenceTransfers();
    drain(driver);
  });

  it('since a synchronous load failed: nothing of the load, nor of what was computed from it', () => {
    const { driver, connector, told } = watched({ pipelineDepth: depth, loadFailurePolicy: 'fail' });
    driver.add({ id: 'first', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    connector.match = { numTokens: 4, async: false };
    const a = driver.add({ id: 'a', prompt: prompt(18) });
    const { step } = driver.schedule();
    driver.report = { failedReceiving: [{ handle: a, step }] };
    driver.update();
    expect(told('a')).toEqual(['error', 8, 8, -1, [2]]);
    drain(driver);
  });
});

// Pinned by: `firstToken` in `failSyncLoads` and `failPrefixes` (load-failure.ts).
describe('what is settled of who shares a block whose load failed, without `sharersWait`', () => {
  const NOTHING: Match = { numTokens: 0, async: false };

  /** `r` loads 12 tokens, of which the second block does not come; the others have found them in the same step. */
  function shared(offers: readonly Match[], length: number) {
    const options = { loadFailurePolicy: 'fail', deviations: ['sharersWait'] } as const;
    const all = watched(options);
    const { driver, connector } = all;
    const answers = [{ numTokens: 12, async: false }, ...offers];
    connector.onQuestion = () => {
      connector.match = answers.shift() ?? NOTHING;
    };
    const r = driver.add({ id: 'r', prompt: prompt(13) });
    for (const id of ['p', 'q']) driver.add({ id, prompt: prompt(length) });
    driver.schedule();
    const block = driver.scheduler.core.blocks(driver.request(r).slot)[1];
    driver.report = { invalidBlocks: [{ block, handle: r }] };
    driver.update();
    return all;
  }

  it('of those that run: what stands in front of it, and nothing behind it is found', () => {
    const { driver, told } = shared([], 18);
    for (const id of ['r', 'p', 'q']) expect(told(id)).toEqual(['error', 4, 4, -1, [1]]);
    expect(driver.scheduler.core.published()).toHaveLength(1);
    drain(driver);
  });

  it('of those that load what comes behind: the same', () => {
    const behind = { numTokens: 4, async: true };
    const { driver, told } = shared([behind, behind], 18);
    for (const id of ['r', 'p', 'q']) expect(told(id)).toEqual(['error', 4, 4, -1, [1]]);
    driver.scheduler.fenceTransfers();
    drain(driver);
  });
});

describe('what is settled while a step is planned', () => {
  it.each([1, 2, 3] as const)('nothing that the step will compute, depth %i', (pipelineDepth) => {
    const { driver, connector } = watched({ pipelineDepth });
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 9 });
    driver.schedule();
    driver.update();
    driver.add({ id: 'b', prompt: prompt(9, 1) });
    const seen: number[] = [];
    connector.onQuestion = () => seen.push(connector.settled(driver.request(a)));
    driver.schedule();
    expect(seen).toEqual([9]);
    driver.update();
    drain(driver);
  });

  it('nor when a request ends meanwhile, of which the pool can hold no more', () => {
    const { driver, connector, told } = watched({
      ...{ numBlocks: 11, kvGroups: GROUPS, reserveFullIsl: false, maxNumBatchedTokens: 9 },
    });
    driver.add({ id: 'a', prompt: prompt(1), maxTokens: 9 });
    driver.add({ id: 'b', prompt: prompt(20, 1), maxTokens: 60 });
    let plan = driver.schedule();
    while (told('b') === undefined) {
      driver.update();
      plan = driver.schedule();
    }
    expect(told('b')?.slice(0, 4)).toEqual(['length', 20, 20, -1]);
    expect([plan.requests[0].id, plan.numComputedTokens[0]]).toEqual(['a', 3]);
    expect(connector.others).toEqual([['a', 3]]);
    driver.update();
    drain(driver);
  });
});
