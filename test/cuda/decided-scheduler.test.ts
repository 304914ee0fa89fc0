// A scheduler whose GPU decides: reads and aborts while a decision is under way, failing calls,
// round trips per step.
import { afterEach, describe, expect, it, vi } from 'vitest';
import '../support/gpu.js';
import { BlockstepError } from '../../src/base/errors.js';
import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import type { Plan } from '../../src/scheduler/plan/plan.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { decidedCalls } from '../support/authority/decided-scheduler.js';
import { ScriptedConnector } from '../support/connector/scripted-connector.js';
import { ViewingConnector } from '../support/connector/viewing-connector.js';
import { codeOf, Driver, describePlan, leftovers, NO_RESULT, prompt } from '../support/driver.js';
import { seizeQueues } from '../support/hostile-queues.js';
import { type Gate, gateOf } from './gate.js';

const OPTIONS = { numBlocks: 33, blockSize: 4, maxNumSeqs: 8, maxNumBatchedTokens: 64, maxModelLen: 128 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const open: Scheduler[] = [];

afterEach(() => {
  for (const scheduler of open.splice(0)) scheduler.dispose();
});

function decided(options: Partial<SchedulerOptions> = {}): { scheduler: Scheduler; gate: Gate } {
  const scheduler = new Scheduler({ ...OPTIONS, hashSeed: 7, authority: 'device', ...options });
  open.push(scheduler);
  return { scheduler, gate: gateOf(scheduler) };
}

/** The code that a promise is rejected with. */
async function rejection(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  throw new Error('nothing was thrown');
}

function sample(plan: Plan): { tokens: Int32Array; counts: Int32Array } {
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  return { tokens: new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(9), counts };
}

async function step(scheduler: Scheduler): Promise<Plan> {
  const plan = await scheduler.scheduleAsync();
  scheduler.update(plan, sample(plan));
  return plan;
}

describe('who decides', () => {
  it('is asked in the way that waits, or the other', async () => {
    const { scheduler } = decided();
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    expect(codeOf(() => scheduler.schedule())).toBe('ERR_BLOCKSTEP_AUTHORITY');
    expect(scheduler.core.backend).toEqual({
      name: 'cuda',
      authority: 'device',
      reason: "authority 'device' needs a GPU",
    });
    expect((await scheduler.scheduleAsync()).totalTokens).toBe(9);
    const host = new Scheduler(OPTIONS);
    open.push(host);
    host.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    const plan = await host.scheduleAsync();
    expect([plan.totalTokens, plan.requests[0].id]).toEqual([9, 'a']);
    expect(await rejection(host.scheduleAsync())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
  });
});

describe('while the GPU decides', () => {
  it('the event loop lives, and everything can be read', async () => {
    const { scheduler, gate } = decided();
    const handle = scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    gate.isOpen = false;
    const scheduled = scheduler.scheduleAsync();
    let turns = 0;
    while (turns < 5) {
      await turn();
      turns++;
    }
    expect([scheduler.isDeciding, gate.asked]).toEqual([true, 1]);
    expect(scheduler.hasWork()).toBe(true);
    expect(scheduler.stats()).toMatchObject({ numRunning: 0, numWaiting: 1, freeBlocks: 32 });
    expect(scheduler.inspect().waiting).toEqual(['a']);
    expect(scheduler.getByHandle(handle)?.status).toBe('WAITING');
    expect(scheduler.core.blocks(0)).toEqual(new Int32Array(0));
    expect(scheduler.digest()).toBe(scheduler.core.native.digest());
    gate.isOpen = true;
    const plan = await scheduled;
    expect(scheduler.isDeciding).toBe(false);
    expect([plan.numRequests, ...scheduler.core.blocks(plan.slots[0])]).toEqual([1, 1, 2, 3]);
  });

  it('whatever would change something is refused, and changes nothing', async () => {
    const connector = new ViewingConnector({}, { protection: 'pin' });
    const { scheduler, gate } = decided({ connector, pipelineDepth: 2 });
    const { view } = connector;
    const handle = scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 9, resumable: true });
    const plan = await scheduler.scheduleAsync();
    gate.isOpen = false;
    const scheduled = scheduler.scheduleAsync();
    await turn();
    const before = [scheduler.digest(), JSON.stringify(scheduler.stats())];
    const calls: [string, () => unknown][] = [
      ['add', () => scheduler.add({ id: 'b', prompt: prompt(5), maxTokens: 1 })],
      ['addChunk', () => scheduler.addChunk('a', { prompt: prompt(2) })],
      ['endSession', () => scheduler.endSession('a')],
      ['abortAll', () => scheduler.abortAll()],
      ['schedule', () => scheduler.schedule()],
      ['scheduleInPlace', () => decidedCalls(scheduler).scheduleInPlace()],
      ['update', () => scheduler.update(plan, sample(plan))],
      ['updateTransfers', () => scheduler.updateTransfers({})],
      ['fenceTransfers', () => scheduler.fenceTransfers()],
      ['failStep', () => scheduler.failStep(plan)],
      ['updateDraftTokens', () => scheduler.updateDraftTokens(plan, NO_RESULT)],
      ['replaceDraftTokens', () => scheduler.replaceDraftTokens(plan, NO_RESULT)],
      ['resetPrefixCache', () => scheduler.resetPrefixCache()],
      ['pause', () => scheduler.pause('all')],
      ['resume', () => scheduler.resume()],
      ['hold', () => scheduler.hold(handle, 'store', 'me')],
      ['complete', () => scheduler.complete(handle, 'store', 'me')],
      ['verify', () => scheduler.verify()],
      ['a pin', () => connector.pins?.pin(Int32Array.of(1))],
      ['an unpin', () => connector.pins?.unpin(Int32Array.of(1))],
      ['a use of blocks', () => view.hold(handle, 'store', 'tier')],
      ['its end', () => view.complete(handle, 'store', 'tier')],
      ['to wake somebody', () => view.wake(handle)],
    ];
    for (const [name, call] of calls) expect(codeOf(call), name).toBe('ERR_BLOCKSTEP_DECISION_PENDING');
    expect(await rejection(scheduler.scheduleAsync())).toBe('ERR_BLOCKSTEP_DECISION_PENDING');
    expect([scheduler.digest(), JSON.stringify(scheduler.stats())]).toEqual(before);
    gate.isOpen = true;
    expect((await scheduled).totalTokens).toBe(1);
    scheduler.update(plan, sample(plan));
    scheduler.verify();
  });

  it('an abort is queued, and carried out before the next step', async () => {
    const { scheduler, gate } = decided();
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    gate.isOpen = false;
    const scheduled = scheduler.scheduleAsync();
    await turn();
    expect(scheduler.abort('a')).toEqual([]);
    expect(scheduler.get('a')?.status).toBe('WAITING');
    gate.isOpen = true;
    const plan = await scheduled;
    expect([plan.requests[0].id, plan.requests[0].status]).toEqual(['a', 'RUNNING']);
    expect(scheduler.update(plan, sample(plan)).length).toBe(0);
    expect(plan.requests[0].finishReason).toBe('abort');
    expect(leftovers(scheduler)).toEqual([]);
  });

  it('a callback cannot call back, and an abort from inside one is queued', () => {
    const codes: string[] = [];
    const { scheduler } = decided();
    const grammar = {
      ready: () => {
        codes.push(
          codeOf(() => scheduler.pause('all')),
          codeOf(() => pending.finish()),
        );
        scheduler.abort('a');
        return true;
      },
      acceptTokens: () => true,
      validateTokens: () => 0,
    };
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4, grammar });
    const pending = decidedCalls(scheduler).begin();
    const plan = pending.finish();
    expect(codes).toEqual(['ERR_BLOCKSTEP_REENTRANT', 'ERR_BLOCKSTEP_REENTRANT']);
    expect(plan.totalTokens).toBe(9);
    scheduler.update(plan, sample(plan));
    expect(plan.requests[0].finishReason).toBe('abort');
  });

  it('it can be waited for in place as well, and both get the same', async () => {
    const { scheduler } = decided();
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    const pending = decidedCalls(scheduler).begin();
    const settled = pending.settle();
    const plan = pending.finish();
    expect(scheduler.isDeciding).toBe(false);
    expect(await settled).toBe(plan);
    expect(pending.finish()).toBe(plan);
  });

  it('a scheduler can be disposed, and its promise says so', async () => {
    const connector = new ScriptedConnector();
    const { scheduler, gate } = decided({ connector });
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    gate.isOpen = false;
    const scheduled = scheduler.scheduleAsync();
    await turn();
    scheduler.dispose();
    expect(await rejection(scheduled)).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(connector.calls.at(-1)).toMatch(/shutdown/);
    expect(await rejection(scheduler.scheduleAsync())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe('a call that fails', () => {
  it('before anything was asked changes nothing', async () => {
    let now: unknown = 0;
    const { scheduler, gate } = decided({ now: () => now as number });
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    now = Number.NaN;
    expect(await rejection(scheduler.scheduleAsync())).toBe('ERR_BLOCKSTEP_BAD_ARG');
    now = 1;
    const plan = await scheduler.scheduleAsync();
    expect(await rejection(scheduler.scheduleAsync())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
    expect([plan.step, gate.asked]).toEqual([0, 1]);
    scheduler.update(plan, sample(plan));
  });

  it('because the GPU never answers ends after a minute, and the scheduler with it', async () => {
    const { scheduler, gate } = decided();
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    gate.isOpen = false;
    const clock = vi.spyOn(performance, 'now');
    try {
      clock.mockReturnValue(1e6);
      const scheduled = scheduler.scheduleAsync();
      const late = rejection(scheduled);
      clock.mockReturnValue(1e6 + 60_000);
      await turn();
      expect(scheduler.isDeciding).toBe(true);
      clock.mockReturnValue(1e6 + 60_001);
      expect(await late).toBe('ERR_BLOCKSTEP_CUDA');
      await expect(scheduled).rejects.toThrow('within 60000 ms');
    } finally {
      clock.mockRestore();
    }
    expect(codeOf(() => scheduler.stats())).toBe('ERR_BLOCKSTEP_INVARIANT');
  });

  it('in strict mode throws what it found when the plan is made', async () => {
    const connector = new ScriptedConnector();
    const { scheduler } = decided({ strict: true, connector });
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    connector.throwing.add('metadata');
    expect(await rejection(scheduler.scheduleAsync())).toBe('ERR_BLOCKSTEP_ANOMALY');
    expect([scheduler.isDeciding, scheduler.stats().stepsInFlight]).toEqual([false, 1]);
  });
});

describe('a request that a foreign hand put back into a queue', () => {
  it('is dropped where it stands, behind others that are admitted', () => {
    const driver = new Driver({ authority: 'device' });
    const queues = seizeQueues(driver);
    const [first, dead, last] = ['first', 'dead', 'last'].map((id) => driver.add({ id, maxTokens: 2 }));
    const zombie = driver.request(dead);
    driver.abort('dead');
    queues.pushWaiting(zombie);
    driver.abort('last');
    const again = driver.add({ id: 'last', maxTokens: 2 });
    const plan = driver.schedule();
    expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['first', 'last']);
    driver.run();
    expect([driver.ends.get(first), driver.ends.get(again)]).toEqual([['length'], ['length']]);
    expect([driver.ends.get(dead), driver.ends.get(last)]).toEqual([['abort'], ['abort']]);
    expect(driver.scheduler.stats().anomalies).toMatchObject({ 'purged-untracked': 1 });
    driver.scheduler.dispose();
  });
});

describe('a step costs', () => {
  it('one round trip with what runs and what is admitted, and none with nothing to decide', async () => {
    const { scheduler, gate } = decided();
    const plan = await scheduler.scheduleAsync();
    expect([plan.totalTokens, gate.asked]).toEqual([0, 0]);
    scheduler.update(plan, NO_RESULT);
    for (const id of ['a', 'b', 'c']) scheduler.add({ id, prompt: prompt(9), maxTokens: 8 });
    await step(scheduler);
    expect(gate.asked).toBe(1);
    scheduler.add({ id: 'd', prompt: prompt(9), maxTokens: 8 });
    scheduler.add({ id: 'e', prompt: prompt(30, 2), maxTokens: 8 });
    const { numRequests } = await step(scheduler);
    expect([numRequests, gate.asked]).toEqual([5, 2]);
    for (let i = 0; i < 4; i++) await step(scheduler);
    expect(gate.asked).toBe(6);
  });

  it('one, when the first in line does not fit', async () => {
    const { scheduler, gate } = decided({ numBlocks: 9 });
    scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 8 });
    scheduler.add({ id: 'b', prompt: prompt(20, 1), maxTokens: 8 });
    for (let i = 1; i < 5; i++) {
      expect((await step(scheduler)).numRequests).toBe(1);
      expect(gate.asked).toBe(i);
    }
  });

  it('one, when what is left of the budget is too little for a prompt that must come whole', async () => {
    const { scheduler, gate } = decided({ maxModelLen: 64, enableChunkedPrefill: false });
    scheduler.add({ id: 'a', prompt: prompt(40), maxTokens: 8 });
    scheduler.add({ id: 'b', prompt: prompt(40, 1), maxTokens: 8 });
    expect([(await step(scheduler)).totalTokens, gate.asked]).toEqual([40, 1]);
    expect([(await step(scheduler)).totalTokens, gate.asked]).toEqual([41, 2]);
  });

  it('one more for each admission that a connector is told of', async () => {
    const { scheduler, gate } = decided({ connector: new ScriptedConnector({ b: { ext: 4 } }) });
    for (const [i, id] of ['a', 'b', 'c'].entries()) {
      scheduler.add({ id, prompt: prompt(9, i), maxTokens: 8 });
    }
    const plan = await step(scheduler);
    expect([...plan.numScheduledTokens.subarray(0, 3)]).toEqual([9, 5, 9]);
    expect(gate.asked).toBe(3);
    await step(scheduler);
    expect(gate.asked).toBe(4);
  });

  it('one more for each victim, and one for those behind the request that took its blocks', async () => {
    const both = ['host', 'device'].map(async (authority) => {
      const scheduler = new Scheduler({
        ...OPTIONS,
        numBlocks: 9,
        hashSeed: 7,
        enablePrefixCaching: false,
        authority: authority as 'host' | 'device',
      });
      open.push(scheduler);
      const gate = gateOf(scheduler);
      for (const [i, id] of ['a', 'b', 'c'].entries()) {
        scheduler.add({ id, prompt: prompt(i === 0 ? 16 : 8, i), maxTokens: 8 });
      }
      const plans: string[] = [];
      const costs: number[] = [];
      for (let i = 0; i < 3; i++) {
        const { asked } = gate;
        plans.push(describePlan(await step(scheduler), scheduler));
        costs.push(gate.asked - asked);
      }
      return { plans, costs, preempted: scheduler.stats().numPreemptions };
    });
    const [host, device] = await Promise.all(both);
    expect(device.plans).toEqual(host.plans);
    expect([host.preempted, device.preempted, host.costs]).toEqual([1, 1, [0, 0, 0]]);
    expect(device.costs).toEqual([1, 3, 1]);
  });

  it.each([true, false])(
    'the same whether a victim that was passed over shifts the list, with priorityCursor %s',
    (on) => {
      const [host, device] = (['host', 'device'] as const).map((authority) => {
        const options = { policy: 'priority', pipelineDepth: 2, numBlocks: 4 } as const;
        const driver = new Driver({ authority, ...options, deviations: on || ['priorityCursor'] });
        const { scheduler } = driver;
        open.push(scheduler);
        driver.add({ id: 'ends', prompt: prompt(3), maxTokens: 2, priority: 5 });
        const plans = [describePlan(driver.schedule(), scheduler)];
        driver.add({ id: 'grows', prompt: prompt(4, 1), maxTokens: 3, priority: 0 });
        driver.add({ id: 'behind', prompt: prompt(2, 2), maxTokens: 2, priority: 1 });
        let turns = 0;
        while (scheduler.hasWork()) {
          const plan = driver.schedule();
          if (plan.preempted.length > 0) turns = plan.numRequests;
          plans.push(describePlan(plan, scheduler));
          driver.update(plan);
        }
        return { plans, turns };
      });
      expect(device.plans).toEqual(host.plans);
      expect([host.turns, device.turns]).toEqual(on ? [2, 2] : [1, 1]);
    },
  );
});
