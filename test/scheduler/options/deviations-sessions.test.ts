// Deviations about sessions.
import { describe, expect, it, vi } from 'vitest';
import { replayInputs } from '../../../src/scheduler/replay/log-replay.js';
import { Request } from '../../../src/scheduler/request/request.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';
import { MemorySink } from '../../support/recorded-log.js';
import { resetDone, resetRefused } from '../life/reset-result.js';

describe('sessionHashes', () => {
  /** Blocks of four: the token that the session drops has filled one. Then somebody asks with just that token. */
  function askedBehind(sessionHashes: boolean): Driver {
    const driver = new Driver({ deviations: sessionHashes || ['sessionHashes'] });
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
        { deviations: clearStopReason || ['clearStopReason'] },
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
      const driver = new Driver({ deviations: chunkMaxTokens || ['chunkMaxTokens'] });
      const s = driver.add({ id: 's', prompt: prompt(6), maxTokens: 3, resumable: true });
      driver.addChunk(s, { maxTokens: 5 });
      driver.endSession(s);
      driver.run();
      expect(driver.text(s)).toHaveLength(chunkMaxTokens ? 8 : 6);
    });
  }

  it('off: minTokens of a chunk beyond the maxTokens of its session are recorded so that they can be replayed', () => {
    const log = new MemorySink();
    const driver = new Driver({ deviations: ['chunkMaxTokens'], log });
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
      const driver = new Driver({
        pipelineDepth,
        numBlocks: 13,
        deviations: reclaimIdleSessions || ['reclaimIdleSessions'],
      });
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
    const off = new Driver({ numRows: 2, maxNumSeqs: 2, deviations: ['reclaimIdleSessions'] });
    for (const id of ['a', 'b']) addIdle(off, id);
    off.add({ id: 'next', maxTokens: 2 });
    expect(off.schedule().totalTokens).toBe(0);
    expect(off.scheduler.stats().rowStalls).toBe(1);
  });

  it('on: sessions whose chunk came and that block one another are taken from the back, until one runs', () => {
    for (const reclaimIdleSessions of [true, false]) {
      const driver = new Driver({
        numBlocks: 10,
        deviations: reclaimIdleSessions || ['reclaimIdleSessions'],
      });
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
    expect(reset).toEqual(resetDone({ reclaimed: ['a', 'b'] }));
    driver.addChunk(idle[0]);
    driver.run();
    expect(driver.text(idle[1]).length).toBeGreaterThan(2);
    const off = new Driver({ deviations: ['reclaimIdleSessions'] });
    addIdle(off, 'a');
    expect(off.scheduler.resetPrefixCache({ resetRunning: true })).toEqual(resetRefused(['a']));
  });
});
