// Deviations about admission, preemption and eviction.
import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../../../src/scheduler/options/deviations.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { resolveOptions } from '../../../src/scheduler/options/resolve-options.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { codeOf, Driver, describePlan, leftovers, prompt, Random } from '../../support/driver.js';

describe('refuseUnfit', () => {
  it('on: refuses a prompt that leaves no room for output, and takes the longest that does', () => {
    const { scheduler } = new Driver({ maxModelLen: 16 });
    expect(codeOf(() => scheduler.add({ id: 'a', prompt: prompt(16), maxTokens: 1 }))).toBe(
      'ERR_BLOCKSTEP_UNFIT',
    );
    expect(scheduler.hasWork()).toBe(false);
    scheduler.add({ id: 'a', prompt: prompt(15), maxTokens: 1 });
    expect(scheduler.numWaiting).toBe(1);
  });

  it('on: refuses a prompt that is longer than the pool, and completes one that fills it', () => {
    const driver = new Driver({ numBlocks: 5 });
    expect(codeOf(() => driver.add({ id: 'a', prompt: prompt(17) }))).toBe('ERR_BLOCKSTEP_UNFIT');
    const handle = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 1 });
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.text(handle)).toHaveLength(1);
  });

  const undivided = [
    ['without chunks', { enableChunkedPrefill: false }, 'at most 14 tokens of a prompt'],
    [
      'where less than a block is left of the budget in mode align',
      { kvGroups: [{ type: 'full' }, { type: 'mamba', mode: 'align' }], blockSize: 16, hashBlockSize: 16 },
      'at most 14 tokens of a prompt',
    ],
  ] as const;

  it.each(undivided)('on: refuses a prompt that no step can compute, %s', (_, options, words) => {
    const limits = { maxModelLen: 16, maxNumBatchedTokens: 16, draftSlots: 2 };
    const driver = new Driver({ ...limits, ...options });
    expect(() => driver.add({ id: 'a', prompt: prompt(15), maxTokens: 1 })).toThrow(words);
    const handle = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 2 });
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    const asVllm = new Driver({ ...limits, ...options, deviations: ['refuseUnfit', 'endOutgrown'] });
    asVllm.add({ id: 'a', prompt: prompt(15), maxTokens: 1 });
    for (let i = 0; i < 5; i++) expect(asVllm.schedule().totalTokens).toBe(0);
    expect(asVllm.scheduler.numWaiting).toBe(1);
  });

  it('off: a prompt longer than the pool is queued, blocks those behind it, and leaves when aborted', () => {
    const driver = new Driver({ numBlocks: 5, deviations: false });
    driver.add({ id: 'big', prompt: prompt(17) });
    const small = driver.add({ id: 'small', prompt: prompt(4), maxTokens: 2 });
    for (let i = 0; i < 5; i++) expect(driver.schedule().totalTokens).toBe(0);
    driver.abort('big');
    driver.run();
    expect(driver.ends.get(small)).toEqual(['length']);
  });

  it('off: a prompt of maxModelLen tokens is taken and ends after one token; a longer one is a bad argument', () => {
    const driver = new Driver({ maxModelLen: 16, deviations: false });
    expect(codeOf(() => driver.add({ id: 'longer', prompt: prompt(17) }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const handle = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 4 });
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.text(handle)).toHaveLength(1);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('endOutgrown', () => {
  it('on: a preempted request that has grown beyond a step that may not divide it ends with length', () => {
    const limits = { maxModelLen: 12, maxNumBatchedTokens: 12, draftSlots: 2 };
    const options = { ...limits, enableChunkedPrefill: false, enablePrefixCaching: false };
    for (const deviations of [true, ['endOutgrown']] as const) {
      const driver = new Driver({ ...options, deviations });
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      driver.step();
      driver.step();
      expect(driver.text(handle)).toHaveLength(2);
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      if (deviations === true) {
        driver.run();
        expect(driver.ends.get(handle)).toEqual(['length']);
        expect(driver.text(handle)).toHaveLength(2);
        continue;
      }
      for (let i = 0; i < 5; i++) expect(driver.schedule().totalTokens).toBe(0);
      expect(driver.scheduler.numWaiting).toBe(1);
    }
  });

  for (const pipelineDepth of [1, 2, 3] as const) {
    it(`on, depth ${pipelineDepth}: a lone request that outgrows the pool ends with length and a full text`, () => {
      const driver = new Driver({ numBlocks: 5, pipelineDepth });
      const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['length']);
      // 16 positions have room for KV; the token sampled from the last of them needs none.
      expect(driver.text(handle)).toEqual(driver.model.text(handle, 11));
      expect(driver.timesFinished('a')).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('on: the next request runs in the room of the one that was ended', () => {
    const driver = new Driver({ numBlocks: 5 });
    driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
    const next = driver.add({ id: 'b', prompt: prompt(6, 1), maxTokens: 3 });
    driver.run();
    expect(driver.text(next)).toEqual(driver.model.text(next, 3));
  });

  it('off: it preempts itself for ever, as vLLM does', () => {
    const driver = new Driver({ numBlocks: 5, deviations: ['endOutgrown'] });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
    for (let i = 0; i < 60; i++) {
      const plan = driver.schedule();
      if (plan.totalTokens > 0) driver.update();
    }
    expect(driver.ends.get(handle)).toEqual([]);
    expect(driver.scheduler.get('a')?.status).toBe('PREEMPTED');
  });

  it('on: ends a request that outgrew the pool and was preempted by a reset before it was noticed', () => {
    const driver = new Driver({ numBlocks: 5 });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
    while (driver.text(handle).length < 11) driver.step();
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true }).preempted).toEqual(['a']);
    driver.run(20);
    expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('on: the lookahead of drafts ends no request whose longest text fits the pool', () => {
    const speculation = { numSpeculativeTokens: 3, speculativeMethod: 'draft_model' } as const;
    const driver = new Driver({ numBlocks: 6, maxModelLen: 20, ...speculation }, { draft: 0 });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 14));
  });

  it('on: drafts that do not fit end no request whose next token does', () => {
    const driver = new Driver({ numBlocks: 5, numSpeculativeTokens: 3 });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 60 });
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 11));
  });

  it('on: the oldest running request may be ended while others run on', () => {
    const speculation = { numSpeculativeTokens: 3, speculativeMethod: 'draft_model' } as const;
    const driver = new Driver({ numBlocks: 7, blockSize: 4, maxModelLen: 64, ...speculation }, { draft: 3 });
    driver.add({ id: 'a', prompt: prompt(14), maxTokens: 60 });
    const other = driver.add({ id: 'b', prompt: prompt(2, 1), maxTokens: 9 });
    driver.run();
    expect(driver.ends.get(other)).toEqual(['length']);
    expect(driver.text(other)).toEqual(driver.model.text(other, 9));
  });

  for (const pipelineDepth of [1, 2] as const) {
    it(`on, depth ${pipelineDepth}: minTokens past maxModelLen end at maxModelLen`, () => {
      const driver = new Driver({ maxModelLen: 12, pipelineDepth });
      const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 20, minTokens: 20 });
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['length']);
      expect(driver.text(handle)).toEqual(driver.model.text(handle, 6));
    });
  }

  for (const pipelineDepth of [1, 2, 3] as const) {
    for (const stops of [{ eosTokenId: 9 }, { stopTokenIds: [9] }]) {
      it(`on, depth ${pipelineDepth}: never with stop before minTokens, ${JSON.stringify(stops)} at maxModelLen`, () => {
        const driver = new Driver({ maxModelLen: 12, pipelineDepth }, { tokenAt: () => 9 });
        const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 20, minTokens: 7, ...stops });
        const request = driver.request(handle);
        const session = {
          id: 's',
          prompt: prompt(3, 1),
          maxTokens: 20,
          minTokens: 2,
          resumable: true,
          ...stops,
        };
        const s = driver.add(session);
        driver.addChunk(s, { prompt: prompt(4, 2), maxTokens: 20, minTokens: 6 });
        driver.endSession(s);
        driver.run();
        expect([driver.ends.get(handle), request.stopReason]).toEqual([['length'], null]);
        expect(driver.text(handle)).toEqual([9, 9, 9, 9, 9, 9]);
        // Two tokens, of which one is kept; with the chunk the prompt is of 8.
        expect(driver.text(s)).toEqual([9, 9, 9, 9, 9, 9]);
        expect(driver.ends.get(s)).toEqual(['length']);
        const exact = driver.add({ id: 'b', prompt: prompt(6, 3), maxTokens: 20, minTokens: 6, ...stops });
        driver.run();
        expect(driver.ends.get(exact)).toEqual(['stop']);
      });
    }
  }

  it('off: minTokens past maxModelLen leave it running with nothing to schedule', () => {
    const driver = new Driver({ maxModelLen: 12, deviations: ['endOutgrown'] });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 20, minTokens: 20 });
    for (let i = 0; i < 20; i++) driver.step();
    expect(driver.schedule().totalTokens).toBe(0);
    expect(driver.scheduler.numRunning).toBe(1);
    expect(driver.ends.get(handle)).toEqual([]);
  });

  for (const endOutgrown of [true, false]) {
    const what = endOutgrown ? 'end it' : 'keep it for ever, passed over, as vLLM of August does';
    it(`${endOutgrown ? 'on' : 'off'}: tokens beyond maxModelLen that a reset has computed again ${what}`, () => {
      const driver = new Driver({ maxModelLen: 12, deviations: endOutgrown || ['endOutgrown'] });
      const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 20, minTokens: 20 });
      driver.run(20, () => driver.text(handle).length < 6);
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      for (let i = 0; i < 20 && driver.scheduler.hasWork(); i++) driver.step();
      expect(driver.scheduler.numRunning).toBe(endOutgrown ? 0 : 1);
      expect(driver.ends.get(handle)).toEqual(endOutgrown ? ['length'] : []);
      expect(driver.text(handle)).toHaveLength(endOutgrown ? 6 : 7);
    });
  }
});

describe('evictUnscheduled', () => {
  /** In step 2 `low` gets its third chunk and the last two blocks; then `high` needs one, and takes them all back. */
  function preemptScheduled(evictUnscheduled: boolean): Driver {
    const driver = new Driver({
      numBlocks: 8,
      policy: 'priority',
      longPrefillTokenThreshold: 8,
      reserveFullIsl: false,
      deviations: evictUnscheduled || ['evictUnscheduled'],
    });
    driver.add({ id: 'low', prompt: prompt(26), priority: 5, maxTokens: 2, arrivalTime: 1 });
    driver.step();
    driver.add({ id: 'high', prompt: prompt(4, 1), priority: 0, maxTokens: 3, arrivalTime: 2 });
    return driver;
  }

  it('on: a victim already scheduled in this step keeps the hashes of the earlier steps alone', () => {
    const driver = preemptScheduled(true);
    const { scheduler } = driver;
    let plan = driver.schedule();
    while (plan.preempted.length === 0) {
      driver.update();
      plan = driver.schedule();
    }
    expect(plan.preempted).toEqual(['low']);
    expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['high']);
    const found = scheduler.core.native.match(scheduler.get('low')?.slot as number, 8);
    expect(found * 4).toBe(driver.model.numWritten(scheduler.get('low')?.handle as number));
    driver.run();
    expect(leftovers(scheduler)).toEqual([]);
  });

  it('off: the victim finds blocks that nobody ever wrote, as in vLLM', () => {
    const driver = preemptScheduled(false);
    expect(() => driver.run()).toThrow(/low got tokens from unwritten blocks/);
  });
});

describe('victimTies', () => {
  for (const pipelineDepth of [1, 2, 3] as const) {
    it.each([
      [true, true],
      [['victimTies'], false],
    ])(
      `depth ${pipelineDepth}, deviations %o: two that tie and fit the pool one at a time both end: %s`,
      (deviations, ends) => {
        const sizes = { numBlocks: 3, blockSize: 8, maxModelLen: 16, longPrefillTokenThreshold: 2 };
        const options = { ...sizes, numSpeculativeTokens: 3, speculativeMethod: 'draft_model' } as const;
        const driver = new Driver({ ...options, policy: 'priority', pipelineDepth, deviations });
        driver.add({ id: 'a', prompt: prompt(7), maxTokens: 6, arrivalTime: 0 });
        driver.schedule();
        driver.add({ id: 'b', prompt: prompt(6, 1), maxTokens: 6, arrivalTime: 0 });
        for (let i = 0; i < 300 && driver.scheduler.numUnfinished > 0; i++) {
          if (driver.inFlight.length < pipelineDepth) driver.schedule();
          if (driver.inFlight.length > 0) driver.update();
        }
        expect(driver.scheduler.numUnfinished === 0).toBe(ends);
        if (ends) expect(driver.scheduler.stats().numPreemptions).toBeLessThan(10);
      },
    );
  }
});

describe('priorityCursor', () => {
  /**
   * Three blocks hold three requests. A step in flight is sure to end `ends`, so the next one
   * passes it over. Then `grows` needs a second block there, and `ends` is the victim.
   */
  function preemptPassedOver(options: Partial<SchedulerOptions>): { driver: Driver; plan: Plan } {
    const driver = new Driver({ policy: 'priority', pipelineDepth: 2, numBlocks: 4, ...options });
    driver.add({ id: 'ends', prompt: prompt(3), maxTokens: 2, priority: 5 });
    driver.schedule();
    driver.add({ id: 'grows', prompt: prompt(4, 1), maxTokens: 3, priority: 0 });
    driver.add({ id: 'behind', prompt: prompt(2, 2), maxTokens: 2, priority: 1 });
    driver.schedule();
    driver.update();
    return { driver, plan: driver.schedule() };
  }

  it.each([
    [true, ['grows', 'behind']],
    [['priorityCursor'], ['grows']],
  ])(
    'deviations %j: in the step that preempts who was passed over, these have their turn: %j',
    (deviations, ids) => {
      const { driver, plan } = preemptPassedOver({ deviations });
      expect(plan.preempted).toEqual(['ends']);
      expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(ids);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    },
  );
});

describe('all deviations', () => {
  function plansOf(seed: number, deviations: SchedulerOptions['deviations']): string[] {
    const random = new Random(seed);
    const pipelineDepth = (1 + (seed % 3)) as 1 | 2 | 3;
    const options = { numBlocks: 16, maxNumBatchedTokens: 24, pipelineDepth };
    const driver = new Driver(deviations === undefined ? options : { ...options, deviations });
    const plans: string[] = [];
    for (let i = 0; i < 120; i++) {
      if (random.chance(30)) {
        const length = 1 + random.below(20);
        driver.add({ id: `r${i}`, prompt: prompt(length, random.below(3)), maxTokens: 1 + random.below(20) });
      }
      if (random.chance(3) && i > 0) driver.abort(`r${random.below(i)}`);
      if (driver.inFlight.length === pipelineDepth) driver.update();
      plans.push(describePlan(driver.schedule(), driver.scheduler));
      if (random.chance(60) && driver.inFlight.length > 0) driver.update();
    }
    expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(0);
    return plans;
  }

  it('turn nothing where nothing fails: with each off, and all off, the plans are those with all on', () => {
    for (let seed = 0; seed < 6; seed++) {
      const all = plansOf(seed, undefined);
      expect(plansOf(seed, false)).toEqual(all);
      for (const name of DEVIATIONS) expect(plansOf(seed, [name])).toEqual(all);
    }
  });

  it('have names that are checked', () => {
    expect(() => new Driver({ deviations: ['endOutgrown', 'nothing'] })).toThrow(
      `deviations[1] must be one of ${DEVIATIONS.join(', ')}, got "nothing"`,
    );
    expect(() => new Driver({ deviations: { endOutgrown: false } as never })).toThrow(
      'deviations must be true, false, or a list of the deviations that are off, got an object (Object)',
    );
  });

  it('are all on, all off, or off by name', () => {
    const on = (deviations: SchedulerOptions['deviations']) =>
      Object.entries(resolveOptions({ numBlocks: 8, deviations: deviations as boolean }).deviations).flatMap(
        ([name, isOn]) => (isOn ? name : []),
      );
    expect(on(true)).toEqual(DEVIATIONS);
    expect(on([])).toEqual(DEVIATIONS);
    expect(on(false)).toEqual([]);
    expect(on(['endOutgrown', 'victimTies'])).toEqual(
      DEVIATIONS.filter((name) => name !== 'endOutgrown' && name !== 'victimTies'),
    );
  });
});
