import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { resolveOptions } from '../../../src/scheduler/options/resolve-options.js';
import { SINGLE_RULES, type VersionRules } from '../../../src/scheduler/options/rules.js';
import { carryRules, type WithRules } from '../../../src/scheduler/options/single-rules.js';
import { Scheduler } from '../../../src/scheduler/scheduler.js';
import { RemoteDriver } from '../../guards/remote.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const RULES = [...SINGLE_RULES, 'watermark', 'draftSlots'] as const;

const resolve = (options: Partial<WithRules<SchedulerOptions>> = {}) =>
  resolveOptions({ numBlocks: 8, ...carryRules(options) });
const rulesOf = (config: ReturnType<typeof resolve>) =>
  Object.fromEntries(RULES.map((name) => [name, config[name]])) as unknown as VersionRules;

describe('like', () => {
  it('by default has of August what makes hits and spares preemptions, and else is May', () => {
    const { freeOrder, admissionLookahead, loadReservation, ...others } = rulesOf(resolve());
    expect({ freeOrder, admissionLookahead, loadReservation }).toEqual({
      ...{ freeOrder: 'unhashedFirst', admissionLookahead: false, loadReservation: true },
    });
    expect(rulesOf(resolve({ like: null }))).toEqual(rulesOf(resolve()));
    expect(rulesOf(resolve({ numSpeculativeTokens: 2 })).admissionLookahead).toBe(true);
    const may = rulesOf(resolve({ like: '28be48fa' }));
    expect(may).toEqual({
      ...others,
      ...{ freeOrder: 'tail', admissionLookahead: false, loadReservation: false },
    });
    expect(may.watermark).toBe(0);
  });

  it('names a commit by the release next to it, and refuses what it does not know', () => {
    for (const [version, commit] of [
      ['vllm-0.22', '28be48fa'],
      ['vllm-0.27', '017e9f444'],
    ] as const) {
      const [named, given] = [version, commit].map((like) => resolve({ like, deviations: false }));
      expect(rulesOf(named)).toEqual(rulesOf(given));
      expect(named.deviations).toEqual(given.deviations);
    }
    expect(() => resolve({ like: 'vllm-0.23' as never })).toThrow(
      'like must be one of vllm-0.22, vllm-0.27, 28be48fa, 017e9f444, got "vllm-0.23"',
    );
  });

  it('August follows from the drafter and the connector, and single rules override it', () => {
    const like = '017e9f444';
    expect(resolve({ like })).toMatchObject({
      freeOrder: 'unhashedFirst',
      padDecode: false,
      fenceFrees: false,
    });
    const drafting = { like, numSpeculativeTokens: 2, speculativeMethod: 'draft_model' } as const;
    expect(resolve(drafting)).toMatchObject({ padDecode: true, draftSlots: 1, preemptedOutputs: 'await' });
    expect(resolve({ ...drafting, draftSlots: 0, freeOrder: 'tail' })).toMatchObject({
      ...{ draftSlots: 0, freeOrder: 'tail', admissionLookahead: true },
    });
  });

  it('keeps on what August has mended, where all deviations are off', () => {
    const { deviations } = resolve({ like: '017e9f444', deviations: false });
    expect(Object.entries(deviations).flatMap(([name, on]) => (on ? name : []))).toEqual([
      'clipHandOver',
      'priorityCursor',
      'wholeStates',
      'zeroAttention',
      'zeroUnloaded',
      'loadNeeded',
      'holdAllHits',
    ]);
    expect(Object.values(resolve({ deviations: false }).deviations)).not.toContain(true);
  });
});

it('where the GPU decides, the rules are the same, and any can be chosen', () => {
  const device = { backend: 'cuda', authority: 'device', numSpeculativeTokens: 2 } as const;
  const rules = {
    watermark: 0.1,
    padDecode: true,
    draftSlots: 1,
    admissionLookahead: false,
    loadReservation: false,
  };
  const rulesOf = (options: object) => RULES.map((name) => resolve(options)[name]);
  expect(rulesOf(device)).toEqual(rulesOf({ numSpeculativeTokens: 2 }));
  expect(rulesOf({ ...device, ...rules })).toEqual(rulesOf({ numSpeculativeTokens: 2, ...rules }));
});

describe('draftSlots', () => {
  it('a token budget by which nothing could ever be scheduled is refused', () => {
    for (const deviations of [true, false]) {
      const options = { maxNumBatchedTokens: 8, deviations };
      expect(() => resolve({ ...options, draftSlots: 8 })).toThrow(
        'maxNumBatchedTokens must be more than draftSlots (8), got 8',
      );
      expect(() => resolve({ ...options, draftSlots: 7 })).not.toThrow();
    }
  });
});

describe('freeOrder', () => {
  /** The free queue behind a request of five tokens in blocks of two, of which two are full. */
  function queueBehind(freeOrder: 'tail' | 'unhashedFirst', enablePrefixCaching = true): number[] {
    const options = { numBlocks: 8, blockSize: 2, maxModelLen: 16, enablePrefixCaching, freeOrder };
    using scheduler = new Scheduler(carryRules(options));
    scheduler.add({ id: 'a', prompt: [1, 2, 3, 4, 5], maxTokens: 1 });
    const plan = scheduler.schedule();
    scheduler.update(plan, { tokens: Int32Array.of(6), counts: Int32Array.of(1) });
    scheduler.schedule();
    return [...scheduler.core.freeQueue()];
  }

  it('tail: all blocks go to the end, the last one first', () => {
    expect(queueBehind('tail')).toEqual([4, 5, 6, 7, 3, 2, 1]);
  });

  it('unhashedFirst: what nobody can find goes to the front', () => {
    expect(queueBehind('unhashedFirst')).toEqual([3, 4, 5, 6, 7, 2, 1]);
    expect(queueBehind('unhashedFirst', false)).toEqual([3, 2, 1, 4, 5, 6, 7]);
  });
});

describe('watermark', () => {
  it('leaves blocks free while others run, and none where nobody does', () => {
    using scheduler = new Scheduler({ numBlocks: 11, blockSize: 2, maxModelLen: 16, watermark: 0.5 });
    scheduler.add({ id: 'a', prompt: [1, 2, 3, 4, 5, 6, 7, 8], maxTokens: 4 });
    scheduler.add({ id: 'b', prompt: [9, 10, 11], maxTokens: 4 });
    // Ten blocks: `a` takes four, and `b` would take two of the other six, of which five are to stay.
    const plan = scheduler.schedule();
    expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['a']);
    scheduler.abort('a');
    scheduler.update(plan, { tokens: Int32Array.of(6), counts: Int32Array.of(1) });
    const next = scheduler.schedule();
    expect(next.requests.slice(0, next.numRequests).map(({ id }) => id)).toEqual(['b']);
  });
});

describe('fenceFrees', () => {
  /** A request is aborted behind a step in flight while a transfer still reads its blocks, and its row is needed before that transfer ends. */
  function freeBehind(fenceFrees: boolean): number[] {
    const options = { fenceFrees, pipelineDepth: 2, maxNumSeqs: 1, numRows: 1, numBlocks: 9 } as const;
    const driver = new RemoteDriver({}, options);
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 4 });
    driver.schedule();
    driver.scheduler.hold(r, 'store', 'job');
    driver.abort('r');
    driver.add({ id: 'o', prompt: prompt(3, 1), maxTokens: 2 });
    expect(driver.ids(driver.schedule())).toEqual(['o']);
    const free = [driver.free];
    driver.scheduler.complete(r, 'store', 'job');
    driver.scheduler.verify();
    free.push(driver.free);
    driver.update();
    free.push(driver.free);
    driver.update();
    return [...free, driver.free];
  }

  it('holds back what a transfer kept too, until the steps that were in flight then are over', () => {
    expect(freeBehind(true)).toEqual([4, 4, 4, 7]);
    expect(freeBehind(false)).toEqual([4, 7, 7, 7]);
  });

  it('holds nothing back of a load that brought nothing: no step has written its blocks', () => {
    const options = {
      fenceFrees: true,
      pipelineDepth: 2,
      numBlocks: 4,
      loadFailurePolicy: 'recompute',
    } as const;
    const driver = new RemoteDriver({}, options);
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    driver.schedule();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.connector.instead.match = () => ({ numTokens: 8, async: true });
    expect(driver.schedule().totalTokens).toBe(0);
    expect(driver.request(r).status).toBe('WAITING_FOR_REMOTE_KVS');
    driver.connector.instead.match = () => ({ numTokens: 0, async: false });
    driver.say({ failedReceiving: [{ handle: r }], finishedReceiving: [{ handle: r }] });
    // The step from before the reset is still in flight, and the request needs all blocks that there are.
    expect(driver.ids(driver.schedule())).toEqual(['r']);
    driver.run();
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
  });
});

describe('preemptedOutputs', () => {
  it('await: what follows outputs that a reset has dropped is dropped with them, however often the request is preempted', () => {
    const options = { preemptedOutputs: 'await', pipelineDepth: 3, numBlocks: 5 } as const;
    const driver = new Driver({ ...options, enablePrefixCaching: false, reserveFullIsl: false });
    const grows = driver.add({ id: 'grows', prompt: prompt(8), maxTokens: 4 });
    const gives = driver.add({ id: 'gives', prompt: prompt(5, 1), maxTokens: 4 });
    driver.schedule();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(driver.schedule().numRequests).toBe(2);
    expect(driver.schedule().preempted).toEqual(['gives']);
    driver.update();
    expect(driver.last).toEqual([]);
    driver.update();
    expect([grows, gives].map((handle) => driver.text(handle).length)).toEqual([1, 0]);
    driver.run();
    for (const handle of [grows, gives]) expect(driver.text(handle)).toEqual(driver.model.text(handle, 4));
  });

  it('await: what follows the dropped tail of an answer is the next answer of the session, and is kept', () => {
    const options = { preemptedOutputs: 'await', pipelineDepth: 3, numBlocks: 5 } as const;
    const end = 5;
    const tokenAt = (_: unknown, position: number) => (position === 4 ? end : 1000 + position);
    const driver = new Driver({ ...options, enablePrefixCaching: false }, { tokenAt });
    const grows = driver.add({ id: 'grows', prompt: prompt(5), maxTokens: 6 });
    const talks = driver.add({ id: 'talks', prompt: prompt(4, 1), eosTokenId: end, resumable: true });
    driver.addChunk(talks, { prompt: prompt(3, 2), maxTokens: 3 });
    driver.endSession(talks);
    for (let i = 0; i < 3; i++) expect(driver.schedule().numRequests).toBe(2);
    driver.update();
    expect(driver.last).toEqual(['grows:1', 'talks:1:stop']);
    // The next answer begins behind two steps that computed beyond the last one.
    expect(driver.schedule().numRequests).toBe(2);
    driver.update();
    expect(driver.last).toEqual(['grows:1']);
    expect(driver.schedule().preempted).toEqual(['talks']);
    driver.update();
    expect(driver.last).toEqual(['grows:1']);
    driver.update();
    expect(driver.last).toEqual(['grows:1', 'talks:1']);
    const dropped = driver.scheduler.stats().droppedOutputs;
    driver.run();
    expect(dropped).toBe(2);
    expect(driver.text(talks)).toHaveLength(4);
    expect([grows, talks].map((handle) => driver.ends.get(handle))).toEqual([['length'], ['length']]);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
