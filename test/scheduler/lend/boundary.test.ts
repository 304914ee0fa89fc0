// Requests that an adapter takes out and puts back, the order of its calls, ends, combinations of
// options.
import { describe, expect, it } from 'vitest';
import type { BorrowingAdapter } from '../../../src/borrow.js';
import type { SchedulerOptions } from '../../../src/index.js';
import { codeOf, Driver, leftovers, makeScheduler, prompt } from '../../support/driver.js';
import { EngineBench, leftovers as leftIn } from '../../support/engine-bench.js';
import { ScriptedBorrower } from './scripted-borrower.js';

function bench(options: Partial<SchedulerOptions> = {}) {
  const borrower = new ScriptedBorrower();
  return { borrower, driver: new Driver({ borrower, ...options }) };
}

/** Ids in the plan of the next step, which is executed. */
function step(driver: Driver): string[] {
  const plan = driver.schedule();
  const ids = plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
  driver.update(plan);
  driver.scheduler.verify();
  return ids;
}

describe('a request that is taken out', () => {
  for (const pipelineDepth of [1, 2, 3] as const) {
    it(`depth ${pipelineDepth}: from waiting is not admitted, and is admitted when it is left again`, () => {
      const { borrower, driver } = bench({ pipelineDepth });
      borrower.held.add('a');
      const handles = ['a', 'b'].map((id, i) => driver.add({ id, prompt: prompt(8, i) }));
      for (let i = 0; i < 5; i++) expect(step(driver)).not.toContain('a');
      expect(driver.request(handles[0] as number)).toMatchObject({
        status: 'WAITING_FOR_CHUNK',
        container: 'waiting',
        waitReason: 'chunk',
      });
      borrower.held.clear();
      driver.run();
      for (const handle of handles) {
        expect(driver.ends.get(handle)).toEqual(['length']);
        expect(driver.text(handle)).toEqual(driver.model.text(handle, 8));
      }
      expect(driver.scheduler.stats().anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: from running keeps its blocks, its row and its place`, () => {
      const { borrower, driver } = bench({ pipelineDepth, maxNumSeqs: 2 });
      const handles = ['a', 'b', 'c'].map((id, i) => driver.add({ id, prompt: prompt(8, i), maxTokens: 12 }));
      driver.step();
      const held = driver.scheduler.core.blocks(driver.request(handles[0] as number).slot).length;
      borrower.held.add('a');
      for (let i = 0; i < 6; i++) expect(step(driver)).not.toContain('c');
      const a = driver.request(handles[0] as number);
      expect([a.container, driver.scheduler.numRunning]).toEqual(['running', 2]);
      expect(driver.scheduler.core.blocks(a.slot).length).toBeGreaterThanOrEqual(held);
      borrower.held.clear();
      driver.run();
      for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 12));
      expect(driver.scheduler.stats().anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('among skipped requests keeps its place in line', () => {
    const { borrower, driver } = bench({ maxLoras: 1 });
    for (const [id, adapter] of [
      ['a', 'x'],
      ['b', 'y'],
      ['c', 'y'],
    ] as const)
      driver.add({ id, adapter, prompt: prompt(8, 1) });
    expect(step(driver)).toEqual(['a']);
    expect(driver.scheduler.inspect().skipped).toEqual(['b', 'c']);
    borrower.held.add('b');
    step(driver);
    expect(driver.scheduler.inspect().skipped).toEqual(['b', 'c']);
    borrower.held.clear();
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('is in no queue that the adapter reads, and a request that waits for something else is in none either', () => {
    const { borrower, driver } = bench();
    driver.add({ id: 'idle', resumable: true, maxTokens: 1 });
    driver.step();
    driver.step();
    for (const id of ['a', 'b']) driver.add({ id, prompt: prompt(4, 1) });
    const seen: unknown[] = [];
    borrower.held.add('a');
    borrower.onProcess = ({ waiting, running, live }) => {
      seen.push(
        [...waiting].map(({ id }) => id),
        [...running].map(({ id }) => id),
        [...live.keys()],
      );
      seen.push(waiting.length, waiting.has(live.get('a') as never), waiting.has(live.get('b') as never));
      borrower.onProcess = () => {};
    };
    step(driver);
    expect(seen).toEqual([['b'], [], ['idle', 'a', 'b'], 1, false, true]);
  });

  it('the adapter is called in the order process, restore, plan', () => {
    const { borrower, driver } = bench();
    driver.add({ id: 'a', maxTokens: 1 });
    driver.step();
    expect(borrower.calls).toEqual(['process', 'restore', 'plan a', 'cleanup a']);
  });
});

describe('an end', () => {
  it.each(['id', 'handle', 'list', 'all'] as const)(
    'from outside, by %s: the adapter is told first, and cleans up last',
    (how) => {
      const { borrower, driver } = bench();
      const handles = ['a', 'b'].map((id, i) => driver.add({ id, prompt: prompt(8, i), maxTokens: 40 }));
      driver.step();
      borrower.calls.length = 0;
      const seen: unknown[] = [];
      borrower.onFinish = (requests) =>
        seen.push(requests.map(({ isFinished, container }) => [isFinished, container]));
      borrower.onCleanup = ({ isFinished, container }) => seen.push([isFinished, container]);
      if (how === 'id') driver.abort('a');
      else if (how === 'handle') driver.abort(handles[0] as number);
      else if (how === 'list') driver.abort(['a', 'a', 'b', 'nobody']);
      else driver.abortAll();
      const ids = how === 'id' || how === 'handle' ? ['a'] : ['a', 'b'];
      expect(borrower.calls).toEqual([['finish', ...ids].join(' '), ...ids.map((id) => `cleanup ${id}`)]);
      expect(seen).toEqual([ids.map(() => [false, 'running']), ...ids.map(() => [true, null])]);
    },
  );

  it('of an idle session from outside goes the same way', () => {
    const { borrower, driver } = bench();
    const handle = driver.add({ id: 'a', resumable: true, maxTokens: 1 });
    driver.step();
    borrower.calls.length = 0;
    driver.endSession(handle);
    expect(borrower.calls).toEqual(['finish a', 'cleanup a']);
  });

  it('whatever its cause, is cleaned up once', () => {
    let now = 0;
    const { borrower, driver } = bench({ now: () => now });
    driver.add({ id: 'stops', maxTokens: 1 });
    driver.add({ id: 'expires', timeoutMs: 10, maxTokens: 40, prompt: prompt(4, 1) });
    driver.add({ id: 'fails', maxTokens: 40, prompt: prompt(4, 2) });
    driver.step();
    now = 20;
    driver.schedule((entry, plan) => plan.requests[entry]?.id === 'fails');
    driver.update();
    expect(['stops', 'expires', 'fails'].map((id) => borrower.timesCleaned(id))).toEqual([1, 1, 1]);
  });

  it('with error, because the adapter says so, comes with the next step and the reason', () => {
    const { borrower, driver } = bench();
    const handle = driver.add({ id: 'a', maxTokens: 40 });
    const request = driver.request(handle);
    borrower.held.add('a');
    driver.step();
    const answers: boolean[] = [];
    borrower.onProcess = (queues) => answers.push(queues.fail(request, 'chunk 3 is overdue'));
    driver.step();
    driver.step();
    expect(answers[0]).toBe(true);
    expect([request.finishReason, request.failure]).toEqual(['error', 'chunk 3 is overdue']);
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(borrower.timesCleaned('a')).toBe(1);
  });

  it('with error, because the adapter says so, is one even in the plan in which the request outgrows the pool', () => {
    const { borrower, driver } = bench({ numBlocks: 4, maxNumBatchedTokens: 12, maxModelLen: 64 });
    const handle = driver.add({ id: 'a', maxTokens: 40 });
    const request = driver.request(handle);
    borrower.onProcess = (queues) => {
      if (request.numTokens > 12) queues.fail(request, 'chunk 3 is overdue');
    };
    while (!request.isFinished) driver.step();
    driver.step();
    expect(request.numTokens).toBe(13);
    expect(driver.ends.get(handle)).toEqual(['error']);
  });
});

describe('a borrower', () => {
  it('is refused with a log and where the GPU decides, by name', () => {
    const borrower = new ScriptedBorrower();
    const log = { write: () => {} };
    expect(() => makeScheduler({ borrower, log })).toThrow(/^log must be absent with a borrower/);
    expect(() => makeScheduler({ borrower, authority: 'device' })).toThrow(
      /^authority must be host with a borrower/,
    );
    for (const bad of [{}, { ...borrower, parked: [1] }, { ...borrower, processPendingChunks: 1 }])
      expect(codeOf(() => makeScheduler({ borrower: bad as unknown as BorrowingAdapter }))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
  });

  it('may lack the methods that only inform it', () => {
    const driver = new Driver({
      borrower: { parked: [], processPendingChunks: () => {}, restoreQueues: () => {} },
    });
    const handle = driver.add({ id: 'a' });
    driver.step();
    driver.abort('a');
    expect(driver.ends.get(handle)).toEqual(['abort']);
  });

  it('holds requests of an engine up: explain says so, the engine is not unhealthy, and goes on when the chunk is there', async () => {
    const borrower = new ScriptedBorrower();
    const engine = new EngineBench({ borrower, stallSteps: 3 });
    borrower.held.add('a');
    const stream = engine.engine.submit({ id: 'a', prompt: [...prompt(4)], maxTokens: 3 });
    for (let i = 0; i < 8; i++) engine.engine.step();
    expect(engine.engine.explain('a')).toContain('waiting for a chunk: its borrowing adapter holds it up');
    expect(engine.engine.health().healthy).toBe(true);
    borrower.held.clear();
    for (let i = 0; i < 20; i++) {
      engine.engine.step();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await stream.result()).tokens).toHaveLength(3);
    expect(leftIn(engine.engine)).toEqual([]);
  });
});
