import { describe, expect, it, vi } from 'vitest';
import { DEVIATIONS } from '../../../src/scheduler/options/deviations.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { replayInputs } from '../../../src/scheduler/replay/log-replay.js';
import { Request } from '../../../src/scheduler/request/request.js';
import { MemorySink } from '../log/recorded-log.js';
import { codeOf, Driver, describePlan, leftovers, prompt, Random } from '../support.js';

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
    const driver = new Driver({ numBlocks: 5, deviations: { endOutgrown: false } });
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
    const driver = new Driver({ maxModelLen: 12, deviations: { endOutgrown: false } });
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 20, minTokens: 20 });
    for (let i = 0; i < 20; i++) driver.step();
    expect(driver.schedule().totalTokens).toBe(0);
    expect(driver.scheduler.numRunning).toBe(1);
    expect(driver.ends.get(handle)).toEqual([]);
  });
});

describe('evictUnscheduled', () => {
  /** In step 2 `low` gets its third chunk and the last two blocks; then `high` needs one, and takes them all back. */
  function preemptScheduled(evictUnscheduled: boolean): Driver {
    const driver = new Driver({
      numBlocks: 8,
      policy: 'priority',
      longPrefillTokenThreshold: 8,
      reserveFullIsl: false,
      deviations: { evictUnscheduled },
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
      [{}, true],
      [{ victimTies: false }, false],
    ])(
      `depth ${pipelineDepth}, %o: two that tie and fit the pool one at a time both end: %s`,
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
   * Three blocks hold three requests. A step in flight is sure to end `ends`, so the next one passes it over; then `grows`
   * needs a second block there, and `ends` is the victim.
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
    [{}, ['grows', 'behind']],
    [{ priorityCursor: false }, ['grows']],
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

describe('sessionHashes', () => {
  /** Blocks of four: the token that the session drops has filled one. Then somebody asks with just that token. */
  function askedBehind(sessionHashes: boolean): Driver {
    const driver = new Driver({ deviations: { sessionHashes } });
    const s = driver.add({ id: 's', prompt: prompt(6), maxTokens: 2, resumable: true });
    driver.run(9, () => driver.request(s).status !== 'WAITING_FOR_STREAMING_REQ');
    const said = [...driver.scheduler.core.tokens(driver.request(s).slot)];
    expect(said).toHaveLength(8);
    driver.addChunk(s, { prompt: prompt(5, 7), maxTokens: 2 });
    driver.step();
    driver.add({ id: 'asks', prompt: Int32Array.from([...said, 1, 2, 3]), maxTokens: 2 });
    return driver;
  }

  it('on: only what was computed for these tokens is found', () => {
    const driver = askedBehind(true);
    const plan = driver.schedule();
    const at = plan.requests.findIndex(({ id }) => id === 'asks');
    expect(plan.numComputedTokens[at]).toBe(4);
    driver.update();
    driver.endSession(driver.scheduler.get('s')?.handle as number);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('off: the block with the chunk in it answers for the dropped token, as in vLLM', () => {
    const driver = askedBehind(false);
    expect(() => driver.run(20)).toThrow(/asks got tokens from unwritten blocks/);
  });
});

describe('clearStopReason', () => {
  for (const clearStopReason of [true, false]) {
    it(`${clearStopReason ? 'on' : 'off'}: an answer that ends by length has ${clearStopReason ? 'no' : 'the last'} stop reason`, () => {
      const driver = new Driver(
        { deviations: { clearStopReason } },
        { tokenAt: (_, position) => 100 + position },
      );
      const s = driver.add({
        id: 's',
        prompt: prompt(6),
        maxTokens: 3,
        stopTokenIds: [107],
        resumable: true,
      });
      driver.addChunk(s);
      driver.endSession(s);
      const reasons: (number | null)[] = [];
      const request = driver.request(s);
      while (driver.scheduler.hasWork() && !request.isFinished) {
        driver.step();
        reasons.push(request.stopReason);
      }
      expect(reasons).toEqual([null, 107, ...new Array(3).fill(clearStopReason ? null : 107)]);
      expect(driver.last).toEqual(['s:1:length']);
    });
  }
});

describe('chunkMaxTokens', () => {
  for (const chunkMaxTokens of [true, false]) {
    it(`${chunkMaxTokens ? 'on' : 'off'}: a chunk's maxTokens ${chunkMaxTokens ? 'limit its answer' : 'are not heard'}`, () => {
      const driver = new Driver({ deviations: { chunkMaxTokens } });
      const s = driver.add({ id: 's', prompt: prompt(6), maxTokens: 3, resumable: true });
      driver.addChunk(s, { maxTokens: 5 });
      driver.endSession(s);
      driver.run();
      expect(driver.text(s)).toHaveLength(chunkMaxTokens ? 8 : 6);
    });
  }

  it('off: minTokens of a chunk beyond the maxTokens of its session are recorded so that they can be replayed', () => {
    const log = new MemorySink();
    const driver = new Driver({ deviations: { chunkMaxTokens: false }, log });
    const s = driver.add({ id: 's', prompt: prompt(6), maxTokens: 3, resumable: true });
    driver.addChunk(s, { maxTokens: 9, minTokens: 5 });
    driver.endSession(s);
    driver.run();
    expect(driver.text(s)).toHaveLength(8);
    const replayed = replayInputs(log.bytes);
    expect(replayed.digest()).toBe(driver.scheduler.digest());
    replayed.dispose();
  });
});

describe('reclaimIdleSessions', () => {
  function addIdle(driver: Driver, id: string, length = 10): number {
    const handle = driver.add({
      id,
      prompt: prompt(length, id.charCodeAt(0)),
      maxTokens: 2,
      resumable: true,
    });
    driver.run(60, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
    while (driver.inFlight.length > 0) driver.update();
    return handle;
  }

  function held(driver: Driver, handles: number[]): number[] {
    return handles.map((handle) => driver.scheduler.core.blocks(driver.request(handle).slot).length);
  }

  it('on: looks at each idle session once, however many have given their blocks before', () => {
    const driver = new Driver();
    const looks = vi.spyOn(Request.prototype, 'isFinished', 'get');
    const looksOf = (from: number, to: number) => {
      looks.mockClear();
      for (let i = from; i < to; i++) addIdle(driver, String.fromCharCode(1000 + i));
      return looks.mock.calls.length;
    };
    try {
      // The first ones find a row without taking one from another.
      looksOf(0, 20);
      const first = looksOf(20, 60);
      looksOf(60, 400);
      expect(looksOf(400, 440)).toBe(first);
      // The 32 blocks are enough for ten sessions of three.
      expect(driver.scheduler.stats().sessionsReclaimed).toBe(430);
      driver.scheduler.verify();
    } finally {
      looks.mockRestore();
    }
  });

  it('on: one whose blocks were used gives them in its turn when that is over', () => {
    const driver = new Driver({ numBlocks: 13 });
    const idle = ['a', 'b', 'c'].map((id) => addIdle(driver, id));
    driver.scheduler.hold(idle[0], 'store', 'mine');
    driver.scheduler.hold(idle[1], 'store', 'mine');
    const ask = (id: string) => {
      driver.add({ id, prompt: prompt(17, 5), maxTokens: 2 });
      driver.run();
      driver.scheduler.verify();
    };
    ask('first');
    expect(held(driver, idle)).toEqual([3, 3, 0]);
    addIdle(driver, 'd');
    driver.scheduler.complete(idle[1], 'store', 'mine');
    driver.scheduler.complete(idle[0], 'store', 'mine');
    driver.scheduler.verify();
    ask('second');
    expect(held(driver, idle)).toEqual([0, 3, 0]);
  });

  for (const pipelineDepth of [1, 2, 3] as const) {
    const crowd = (reclaimIdleSessions: boolean) => {
      const driver = new Driver({ pipelineDepth, numBlocks: 13, deviations: { reclaimIdleSessions } });
      return { driver, idle: ['a', 'b', 'c'].map((id) => addIdle(driver, id)) };
    };

    it(`on, depth ${pipelineDepth}: what waits gets the blocks of the longest idle, and no more than it needs`, () => {
      const { driver, idle } = crowd(true);
      expect(held(driver, idle)).toEqual([3, 3, 3]);
      const next = driver.add({ id: 'next', prompt: prompt(17, 5), maxTokens: 2 });
      driver.run();
      expect(driver.text(next)).toEqual(driver.model.text(next, 2));
      expect(held(driver, idle)).toEqual([0, 3, 3]);
      expect(driver.scheduler.stats()).toMatchObject({ sessionsReclaimed: 1, numIdleSessions: 3 });
      for (const handle of idle) driver.addChunk(handle, { maxTokens: 3 });
      for (const handle of idle) driver.endSession(handle);
      driver.run();
      for (const handle of idle) expect(driver.text(handle)).toHaveLength(5);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`on, depth ${pipelineDepth}: idle sessions give way before anything is preempted`, () => {
      const { driver, idle } = crowd(true);
      const long = driver.add({ id: 'long', prompt: prompt(9, 5), maxTokens: 30 });
      driver.run();
      expect(driver.text(long)).toEqual(driver.model.text(long, 30));
      expect(driver.scheduler.stats()).toMatchObject({ numPreemptions: 0, sessionsReclaimed: 3 });
      expect(held(driver, idle)).toEqual([0, 0, 0]);
    });

    it(`off, depth ${pipelineDepth}: what waits waits until one is aborted, as in vLLM`, () => {
      const { driver, idle } = crowd(false);
      const next = driver.add({ id: 'next', prompt: prompt(17, 5), maxTokens: 2 });
      for (let i = 0; i < 20; i++) expect(driver.schedule().totalTokens).toBe(0);
      driver.abort('b');
      driver.run(20);
      expect(driver.ends.get(next)).toEqual(['length']);
      expect(held(driver, [idle[0], idle[2]])).toEqual([3, 3]);
    });

    it(`off, depth ${pipelineDepth}: what runs preempts itself for ever while they hold the pool`, () => {
      const { driver } = crowd(false);
      const long = driver.add({ id: 'long', prompt: prompt(9, 5), maxTokens: 30 });
      for (let i = 0; i < 60; i++) {
        const plan = driver.schedule();
        if (plan.totalTokens > 0) driver.update();
      }
      expect(driver.ends.get(long)).toEqual([]);
      expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(0);
    });
  }

  it('on: rows run out as blocks do', () => {
    const driver = new Driver({ numRows: 2, maxNumSeqs: 2 });
    const idle = ['a', 'b'].map((id) => addIdle(driver, id));
    const next = driver.add({ id: 'next', maxTokens: 2 });
    driver.run();
    expect(driver.ends.get(next)).toEqual(['length']);
    expect(held(driver, idle)).toEqual([0, 3]);
    const off = new Driver({ numRows: 2, maxNumSeqs: 2, deviations: { reclaimIdleSessions: false } });
    for (const id of ['a', 'b']) addIdle(off, id);
    off.add({ id: 'next', maxTokens: 2 });
    expect(off.schedule().totalTokens).toBe(0);
    expect(off.scheduler.stats().rowStalls).toBe(1);
  });

  it('on: sessions whose chunk came and that block one another are taken from the back, until one runs', () => {
    for (const reclaimIdleSessions of [true, false]) {
      const driver = new Driver({ numBlocks: 10, deviations: { reclaimIdleSessions } });
      const idle = ['a', 'b', 'c'].map((id) => addIdle(driver, id));
      for (const handle of idle) driver.addChunk(handle, { prompt: prompt(6, 9), maxTokens: 2 });
      for (const handle of idle) driver.endSession(handle);
      expect(held(driver, idle)).toEqual([3, 3, 3]);
      if (!reclaimIdleSessions) {
        for (let i = 0; i < 9; i++) expect(driver.schedule().totalTokens).toBe(0);
        continue;
      }
      driver.schedule();
      expect(held(driver, idle)).toEqual([5, 3, 0]);
      driver.update();
      driver.run();
      for (const handle of idle) expect(driver.ends.get(handle)).toEqual(['length']);
    }
  });

  it('on: sessions whose chunk came keep their blocks while somebody else runs, who will give some back', () => {
    const driver = new Driver({ numBlocks: 14, maxNumSeqs: 2 });
    const idle = ['a', 'b'].map((id) => addIdle(driver, id));
    driver.add({ id: 'runs', prompt: prompt(21, 5), maxTokens: 3 });
    driver.step();
    expect(held(driver, idle)).toEqual([3, 3]);
    for (const handle of idle) driver.addChunk(handle, { prompt: prompt(16, 9), maxTokens: 2 });
    const plan = driver.schedule();
    expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['runs']);
    expect(held(driver, idle)).toEqual([3, 3]);
    driver.update();
    for (const handle of idle) driver.endSession(handle);
    driver.run();
    for (const handle of idle) expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('on: what runs alone takes the blocks of sessions that wait to run, rather than preempt itself for ever', () => {
    const driver = new Driver({ numBlocks: 11, numRows: 8, maxNumSeqs: 1, policy: 'priority' });
    const idle = ['a', 'b'].map((id) => addIdle(driver, id));
    for (const handle of idle)
      driver.addChunk(handle, { prompt: prompt(4, 9), maxTokens: 2, arrivalTime: 1e9 });
    for (const handle of idle) driver.endSession(handle);
    const long = driver.add({ id: 'long', prompt: prompt(9, 5), maxTokens: 20, arrivalTime: 0 });
    driver.run(20, () => driver.scheduler.stats().sessionsReclaimed === 0);
    expect(held(driver, idle)).toEqual([3, 0]);
    driver.run();
    expect(driver.text(long)).toEqual(driver.model.text(long, 20));
    expect(driver.scheduler.stats().numPreemptions).toBe(0);
    for (const handle of idle) expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('on: never takes the blocks of the one that needs more', () => {
    const driver = new Driver({ numBlocks: 8 });
    const s = addIdle(driver, 'a');
    const gone = driver.add({ id: 'gone', prompt: prompt(13, 5), maxTokens: 3 });
    driver.step();
    driver.scheduler.hold(gone, 'store', 'job');
    driver.abort('gone');
    driver.addChunk(s, { prompt: prompt(8, 9), maxTokens: 2 });
    driver.endSession(s);
    expect(driver.schedule().totalTokens).toBe(0);
    expect(held(driver, [s])).toEqual([3]);
    driver.scheduler.complete(gone, 'store', 'job');
    driver.run();
    expect(driver.ends.get(s)).toEqual(['length']);
  });

  it('on: a session that lost its blocks publishes from the first block again', () => {
    const driver = new Driver({ numBlocks: 10, pipelineDepth: 2 });
    const idle = ['a', 'b', 'c'].map((id) => addIdle(driver, id));
    expect(driver.request(idle[0]).nextPublish).toBeGreaterThan(0);
    driver.add({ id: 'next', maxTokens: 1 });
    driver.run();
    expect(idle.map((handle) => driver.request(handle).nextPublish === 0)).toEqual([true, false, false]);
  });

  it('on: one whose blocks a transfer uses is left alone', () => {
    const driver = new Driver({ numBlocks: 10 });
    const idle = ['a', 'b', 'c'].map((id) => addIdle(driver, id));
    driver.scheduler.hold(idle[0], 'store', 'job');
    driver.add({ id: 'next', maxTokens: 1 });
    driver.run();
    expect(held(driver, idle)).toEqual([3, 0, 3]);
  });

  it('on: a forced reset takes them all; off: they are what blocks it', () => {
    const driver = new Driver();
    const idle = ['a', 'b'].map((id) => addIdle(driver, id));
    driver.addChunk(idle[1]);
    expect(driver.scheduler.resetPrefixCache()).toMatchObject({
      ok: false,
      local: false,
      connector: null,
      blockers: ['a', 'b'],
    });
    const reset = driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(reset).toEqual({
      ok: true,
      local: true,
      connector: null,
      blockers: [],
      pinnedBlocks: 0,
      preempted: [],
      reclaimed: ['a', 'b'],
    });
    driver.addChunk(idle[0]);
    driver.run();
    expect(driver.text(idle[1]).length).toBeGreaterThan(2);
    const off = new Driver({ deviations: { reclaimIdleSessions: false } });
    addIdle(off, 'a');
    expect(off.scheduler.resetPrefixCache({ resetRunning: true })).toEqual({
      ok: false,
      local: false,
      connector: null,
      blockers: ['a'],
      pinnedBlocks: 0,
      preempted: [],
      reclaimed: [],
    });
  });
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
      for (const name of DEVIATIONS) expect(plansOf(seed, { [name]: false })).toEqual(all);
    }
  });

  it('have names that are checked', () => {
    expect(codeOf(() => new Driver({ deviations: { nothing: true } as never }))).toBe(
      'ERR_BLOCKSTEP_BAD_ARG',
    );
    expect(codeOf(() => new Driver({ deviations: { endOutgrown: 1 } as never }))).toBe(
      'ERR_BLOCKSTEP_BAD_ARG',
    );
  });
});
