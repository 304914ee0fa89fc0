// Deviations about connectors.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { RemoteDriver } from '../../guards/remote.js';
import type { Script } from '../../support/connector/scripted-connector.js';
import { describePlan, leftovers, prompt, Random } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

const POLICIES = ['fail', 'recompute'] as const;
type Policy = (typeof POLICIES)[number];

function make(
  scripts: Record<string, Script>,
  deviations: boolean | readonly string[],
  options: Partial<WithRules<SchedulerOptions>> = {},
): RemoteDriver {
  return new RemoteDriver(scripts, { deviations, ...options });
}

describe('evictFailedLoads', () => {
  /**
   * Blocks 1 and 2 of `r` do not come. The request computes one of them in each step, and meanwhile
   * another request asks for them.
   */
  function foundMeanwhile(evictFailedLoads: boolean): { driver: RemoteDriver; r: number; q: number } {
    const driver = make({ r: { ext: 12 } }, evictFailedLoads || ['evictFailedLoads'], {
      loadFailurePolicy: 'recompute',
      longPrefillTokenThreshold: 4,
    });
    driver.broken = [1, 2];
    const r = driver.add({ id: 'r', prompt: prompt(13), maxTokens: 2 });
    driver.schedule();
    driver.report = { invalidBlocks: [1, 2].map((at) => ({ block: driver.blocks(r)[at] })) };
    driver.update();
    expect(driver.last).toEqual([]);
    return { driver, r, q: driver.add({ id: 'q', prompt: prompt(13), maxTokens: 2 }) };
  }

  it('on, recompute: others find what stands before the bad block, and the rest when it was computed', () => {
    const { driver, r, q } = foundMeanwhile(true);
    const plan = driver.schedule();
    expect(driver.ids(plan)).toEqual(['r', 'q']);
    expect([...plan.numComputedTokens.subarray(0, 2)]).toEqual([4, 8]);
    driver.update();
    driver.run();
    for (const handle of [r, q]) expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
    expect(driver.anomalies).toEqual({});
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('off, recompute: they find blocks that nobody wrote, as in vLLM', () => {
    const { driver } = foundMeanwhile(false);
    expect([...driver.schedule().numComputedTokens.subarray(0, 2)]).toEqual([4, 12]);
    expect(() => {
      driver.update();
      driver.run();
    }).toThrow(/q got tokens from unwritten blocks/);
  });

  for (const loadFailurePolicy of POLICIES) {
    for (const pipelineDepth of [1, 2] as const) {
      /** Its load fails after it was aborted, in the step that was to read it. */
      const left = (evictFailedLoads: boolean) => {
        const options = { loadFailurePolicy, pipelineDepth };
        const driver = make({ r: { ext: 12 } }, evictFailedLoads || ['evictFailedLoads'], options);
        driver.broken = [0, 1, 2];
        const r = driver.add({ id: 'r', prompt: prompt(13), maxTokens: 2 });
        driver.schedule();
        const [block] = driver.blocks(r);
        driver.abort('r');
        driver.report = { invalidBlocks: [{ block }] };
        driver.update();
        return { driver, q: driver.add({ id: 'q', prompt: prompt(13), maxTokens: 2 }) };
      };

      it(`on, ${loadFailurePolicy}, depth ${pipelineDepth}: nothing is found of a request that has left`, () => {
        const { driver, q } = left(true);
        expect(driver.schedule().numComputedTokens[0]).toBe(0);
        driver.run();
        expect(driver.text(q)).toEqual(driver.model.text(q, 2));
        expect(leftovers(driver.scheduler)).toEqual([]);
      });

      it(`off, ${loadFailurePolicy}, depth ${pipelineDepth}: what it has left is found and read, as in vLLM`, () => {
        const { driver } = left(false);
        expect(() => driver.run()).toThrow(/q got tokens from unwritten blocks/);
      });
    }

    it(`on, ${loadFailurePolicy}: what was there before the load is kept`, () => {
      const driver = make({ r: { ext: 12 } }, true, { loadFailurePolicy, longPrefillTokenThreshold: 4 });
      const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
      driver.run();
      driver.broken = [2];
      const r = driver.add({ id: 'r', prompt: prompt(13), maxTokens: 2 });
      expect(driver.schedule().numComputedTokens[0]).toBe(12);
      driver.report = { invalidBlocks: [{ block: driver.blocks(r)[2] }] };
      driver.update();
      const q = driver.add({ id: 'q', prompt: prompt(13), maxTokens: 2 });
      expect(driver.scheduler.core.native.match(driver.request(q).slot, 3)).toBe(2);
      driver.run();
      expect(driver.text(q)).toEqual(driver.model.text(q, 2));
      void a;
    });
  }
});

describe('sharersWait', () => {
  /** `q` has found what `r` loads in the same step. The load fails; `r` would compute one block of it a step. */
  function shared(sharersWait: boolean, loadFailurePolicy: Policy, pipelineDepth: 1 | 2) {
    const options = { loadFailurePolicy, pipelineDepth, longPrefillTokenThreshold: 4 };
    const driver = make({ r: { ext: 12 } }, sharersWait || ['sharersWait'], options);
    driver.broken = [1, 2];
    const r = driver.add({ id: 'r', prompt: prompt(13), maxTokens: 3 });
    const q = driver.add({ id: 'q', prompt: prompt(13), maxTokens: 3 });
    const plan = driver.schedule();
    expect([...plan.numComputedTokens.subarray(0, 2)]).toEqual([12, 12]);
    driver.report = { invalidBlocks: [1, 2].map((at) => ({ block: driver.blocks(r)[at] })) };
    driver.update();
    driver.scheduler.verify();
    return { driver, r, q };
  }

  for (const pipelineDepth of [1, 2] as const) {
    it(`on, recompute, depth ${pipelineDepth}: the sharer starts again behind it, and both texts are right`, () => {
      const { driver, r, q } = shared(true, 'recompute', pipelineDepth);
      expect(driver.request(q)).toMatchObject({ status: 'PREEMPTED', numPreemptions: 1 });
      driver.run();
      for (const handle of [r, q]) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`off, recompute, depth ${pipelineDepth}: it goes on with what is not there yet, as in vLLM`, () => {
      const { driver, q } = shared(false, 'recompute', pipelineDepth);
      expect(driver.request(q).status).toBe('RUNNING');
      expect(() => driver.run()).toThrow(/q got tokens from unwritten blocks/);
    });

    it(`on, fail, depth ${pipelineDepth}: only the one whose load failed ends with error`, () => {
      const { driver, r, q } = shared(true, 'fail', pipelineDepth);
      driver.run();
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(driver.text(q)).toEqual(driver.model.text(q, 3));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`off, fail, depth ${pipelineDepth}: the sharer fails with it, as in vLLM`, () => {
      const { driver, r, q } = shared(false, 'fail', pipelineDepth);
      driver.run();
      for (const handle of [r, q]) expect(driver.ends.get(handle)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    for (const sharersWait of [true, false]) {
      const what = sharersWait ? 'keeps its blocks and starts again' : 'fails with it, as in vLLM';
      it(`${sharersWait ? 'on' : 'off'}, fail, depth ${pipelineDepth}: a sharer that is loading what comes behind ${what}`, () => {
        const scripts = { r: { ext: 8 }, q: { ext: 16, async: true, oneshot: true } };
        const driver = make(scripts, sharersWait || ['sharersWait'], { pipelineDepth });
        driver.broken = [0];
        const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
        const q = driver.add({ id: 'q', prompt: prompt(17), maxTokens: 2 });
        driver.schedule();
        expect(driver.connector.loadOf(q)).toMatchObject({ from: 8, to: 16 });
        driver.report = { invalidBlocks: [{ block: driver.blocks(r)[0] }] };
        driver.update();
        expect(driver.ends.get(r)).toEqual(['error']);
        const held = driver.blocks(q);
        expect(held).toHaveLength(4);
        driver.received(q);
        driver.run();
        expect(driver.ends.get(q)).toEqual([sharersWait ? 'length' : 'error']);
        if (sharersWait) expect(driver.text(q)).toEqual(driver.model.text(q, 2));
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }
});

describe('admitStuckLoads', () => {
  /** Six blocks; three requests have loaded two each, and need one more. */
  function stuck(admitStuckLoads: boolean, pipelineDepth: 1 | 2) {
    const script = { ext: 8, async: true, oneshot: true };
    const options = { numBlocks: 7, reserveFullIsl: false, loadReservation: false, pipelineDepth };
    const driver = make({ a: script, b: script, c: script }, admitStuckLoads || ['admitStuckLoads'], options);
    const handles = ['a', 'b', 'c'].map((id, i) => driver.add({ id, prompt: prompt(9, i), maxTokens: 2 }));
    driver.empty();
    for (const handle of handles) driver.received(handle);
    return { driver, handles };
  }

  for (const pipelineDepth of [1, 2] as const) {
    it(`on, depth ${pipelineDepth}: the last of them gives its blocks back, and all get their texts`, () => {
      const { driver, handles } = stuck(true, pipelineDepth);
      expect(driver.ids(driver.schedule())).toEqual(['a', 'b']);
      expect(driver.scheduler.stats().loadsReclaimed).toBe(1);
      driver.run();
      for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`off, depth ${pipelineDepth}: nothing is ever scheduled, until one is aborted, as in vLLM`, () => {
      const { driver, handles } = stuck(false, pipelineDepth);
      for (let i = 0; i < 30; i++) expect(driver.schedule().totalTokens).toBe(0);
      expect(driver.scheduler.stats()).toMatchObject({ numRunning: 0, freeBlocks: 0, loadsReclaimed: 0 });
      driver.abort('b');
      driver.run();
      for (const handle of [handles[0], handles[2]]) {
        expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
      }
    });
  }
});

describe.each([null, '28be48fa', '017e9f444'] as const)('admitStuckLoads, with the rules of %s', (like) => {
  /**
   * Two prompts are loaded whole, of four blocks and of three, and fill the pool. The first one has nothing to compute but its last token, and
   * needs a block for the drafts behind it, of which `loadReservation` knows nothing.
   */
  function filled(admitStuckLoads: boolean) {
    const options = { numBlocks: 8, numSpeculativeTokens: 2, speculativeMethod: 'eagle', like } as const;
    const scripts = {
      a: { ext: 16, async: true, oneshot: true },
      b: { ext: 12, async: true, oneshot: true },
    };
    const driver = make(scripts, admitStuckLoads || ['admitStuckLoads'], options);
    const a = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 2 });
    const b = driver.add({ id: 'b', prompt: prompt(12, 1), maxTokens: 2 });
    driver.empty();
    expect(driver.scheduler.stats().freeBlocks).toBe(0);
    for (const handle of [a, b]) driver.received(handle);
    return { driver, handles: [a, b] };
  }

  it('on: the second one gives its blocks back, and both get their texts', () => {
    const { driver, handles } = filled(true);
    expect(driver.ids(driver.schedule())).toEqual(['a']);
    expect(driver.scheduler.stats().loadsReclaimed).toBe(1);
    driver.run();
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('off: nothing is ever scheduled, until one is aborted, as in vLLM', () => {
    const { driver, handles } = filled(false);
    for (let i = 0; i < 30; i++) expect(driver.schedule().totalTokens).toBe(0);
    expect(driver.scheduler.stats()).toMatchObject({ numRunning: 0, freeBlocks: 0, loadsReclaimed: 0 });
    driver.abort('b');
    driver.run();
    expect(driver.text(handles[0])).toEqual(driver.model.text(handles[0], 2));
  });
});

describe('admitStuckLoads, while one request runs', () => {
  /** `a` runs alone and needs the whole pool in the end; `b`, less important, has loaded two blocks of it. */
  function growing(admitStuckLoads: boolean) {
    const small = { numBlocks: 7, maxNumSeqs: 1, maxNumBatchedTokens: 4, enablePrefixCaching: false };
    const options = { ...small, reserveFullIsl: false, policy: 'priority' } as const;
    const driver = make({ b: { ext: 8, async: true } }, admitStuckLoads || ['admitStuckLoads'], options);
    const b = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 2, priority: 1 });
    driver.empty();
    driver.received(b);
    return { driver, b, a: driver.add({ id: 'a', prompt: prompt(9), maxTokens: 14 }) };
  }

  it('on: it takes them where it cannot grow, and both get their texts', () => {
    const { driver, a, b } = growing(true);
    driver.run(60, () => driver.ends.get(a)?.length === 0);
    expect(driver.scheduler.stats()).toMatchObject({ loadsReclaimed: 1, numPreemptions: 0 });
    expect(driver.text(a)).toEqual(driver.model.text(a, 14));
    driver.empty();
    driver.received(b);
    driver.run();
    expect(driver.text(b)).toEqual(driver.model.text(b, 2));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('off: it preempts itself for ever, as in vLLM', () => {
    const { driver, a } = growing(false);
    for (let i = 0; i < 100; i++) driver.step();
    expect(driver.ends.get(a)).toEqual([]);
    expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(5);
  });
});

describe('finalTokenDelivery', () => {
  for (const finalTokenDelivery of [true, false]) {
    const what = finalTokenDelivery
      ? 'is computed again and ends with blocks'
      : 'ends without blocks, and the consumer gets nothing, as in vLLM';
    it(`${finalTokenDelivery ? 'on' : 'off'}: what has to deliver, stops and was preempted meanwhile ${what}`, () => {
      const scripts = { r: { delayFree: true, delivers: true } };
      const driver = make(scripts, finalTokenDelivery || ['finalTokenDelivery'], {
        pipelineDepth: 2,
        numBlocks: 6,
      });
      driver.add({ id: 'o', prompt: prompt(7), maxTokens: 4 });
      const r = driver.add({ id: 'r', prompt: prompt(9, 1), maxTokens: 2 });
      const request = driver.request(r);
      driver.schedule();
      driver.schedule();
      driver.update();
      expect(driver.schedule().preempted).toEqual(['r']);
      driver.update();
      expect(request.isFinished).toBe(!finalTokenDelivery);
      driver.run(50, () => driver.scheduler.numUnfinished > 0);
      const ended = driver.connector.calls.filter((call) => call.startsWith('finished r'));
      expect(ended).toEqual([`finished r length ${finalTokenDelivery ? 3 : 0}`]);
      expect(request.finishedParams).toEqual(finalTokenDelivery ? { remote: 'r' } : null);
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(driver.ends.get(r)).toEqual(['length']);
      if (finalTokenDelivery) driver.sent(r);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('the deviations about connectors', () => {
  const NAMES = ['evictFailedLoads', 'sharersWait', 'admitStuckLoads', 'finalTokenDelivery'] as const;

  /** Random loads and sends, of which none fails. */
  function plansOf(seed: number, deviations: boolean | readonly string[]): string[] {
    const random = new Random(seed);
    const pipelineDepth = (1 + (seed % 3)) as 1 | 2 | 3;
    const kinds: Script[] = [
      {},
      { ext: 8 },
      { ext: 8, async: true },
      { delayFree: true },
      { ext: 4, defer: 2 },
    ];
    const scripts = Object.fromEntries(
      Array.from({ length: 120 }, (_, i) => [`r${i}`, kinds[i % kinds.length]]),
    );
    const driver = make(scripts, deviations, { numBlocks: 40, maxNumBatchedTokens: 24, pipelineDepth });
    const plans: string[] = [];
    for (let i = 0; i < 120; i++) {
      if (random.chance(40)) {
        const length = 9 + random.below(12);
        driver.add({ id: `r${i}`, prompt: prompt(length, random.below(3)), maxTokens: 1 + random.below(20) });
      }
      if (random.chance(3) && i > 0) driver.abort(`r${random.below(i)}`);
      if (driver.inFlight.length === pipelineDepth) driver.update();
      plans.push(describePlan(driver.schedule(), driver.scheduler));
      if (random.chance(60) && driver.inFlight.length > 0) driver.update();
      const { requests, draining } = driver.scheduler.inspect();
      for (const { handle, outstanding } of [...requests, ...draining]) {
        if (outstanding?.hasAny('load') && random.chance(50)) driver.received(handle);
        else if (outstanding?.hasAny('store') && random.chance(50)) driver.sent(handle);
      }
    }
    expect(driver.scheduler.stats().externalHits).toBeGreaterThan(0);
    expect(driver.anomalies['connector-failed']).toBeUndefined();
    return plans;
  }

  it('turn nothing where nothing fails: with each off the plans are those with all on', () => {
    for (let seed = 0; seed < 6; seed++) {
      const all = plansOf(seed, true);
      for (const name of NAMES) expect(plansOf(seed, [name])).toEqual(all);
    }
  });
});

describe('limitLoadRetries', () => {
  /** Every load of `r` fails. @returns the loads after which it computes by itself, -1 = never */
  function loadsUntilAnswered(limitLoadRetries: boolean): number {
    const scripts = { r: { ext: 8, async: true } };
    const driver = make(scripts, limitLoadRetries || ['limitLoadRetries'], {
      loadFailurePolicy: 'recompute',
    });
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    const request = driver.request(r);
    for (let i = 0; i < 100; i++) {
      const plan = driver.schedule();
      const failed = [{ handle: r }];
      if (request.load !== null) driver.report = { failedReceiving: failed, finishedReceiving: failed };
      driver.update(plan);
      if (driver.ends.get(r)?.length === 1) {
        expect(driver.text(r)).toEqual(driver.model.text(r, 1));
        return request.numFailedLoads;
      }
    }
    expect(request.numFailedLoads).toBeGreaterThan(40);
    return -1;
  }

  it('on: after three of them it computes by itself', () => {
    expect(loadsUntilAnswered(true)).toBe(3);
  });

  it('off: it is loaded again for ever', () => {
    expect(loadsUntilAnswered(false)).toBe(-1);
  });
});

describe('reserveForHolders', () => {
  /** An idle engine of eight blocks; the only load, of six, has failed wholly. Two short requests stand behind it. */
  function again(reserveForHolders: boolean): RemoteDriver {
    const options = { numBlocks: 9, loadFailurePolicy: 'recompute', loadReservation: true } as const;
    const driver = make({ r: { ext: 23, async: true } }, reserveForHolders || ['reserveForHolders'], options);
    const r = driver.loading({ id: 'r', prompt: prompt(24), maxTokens: 2 });
    for (let i = 0; i < 2; i++) driver.add({ id: `o${i}`, prompt: prompt(4, 1 + i), maxTokens: 1 });
    driver.say({ failedReceiving: [{ handle: r }], finishedReceiving: [{ handle: r }] });
    driver.schedule();
    return driver;
  }

  it('on: it is loaded again at once, and all get their texts', () => {
    const driver = again(true);
    const handle = driver.scheduler.get('r')?.handle as number;
    expect(driver.connector.loads.filter(({ id }) => id === 'r')).toHaveLength(2);
    driver.received(handle);
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
    expect([...driver.ends.values()]).toEqual([['length'], ['length'], ['length']]);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('off: it must fit beside itself, and waits for ever with all behind it, as in vLLM', () => {
    const driver = again(false);
    for (let i = 0; i < 20; i++) expect(driver.empty().totalTokens).toBe(0);
    expect(driver.connector.loads.filter(({ id }) => id === 'r')).toHaveLength(1);
    expect(driver.scheduler.numUnfinished).toBe(3);
    expect(driver.free).toBe(8);
  });
});

describe('skipEndedBitmasks', () => {
  /**
   * The first of two steps in flight ends `g`, whose blocks are then sent.
   * @returns the requests in the bitmask of the second step, then and later
   */
  function bitmasks(skipEndedBitmasks: boolean): string[][] {
    const driver = make({ g: { delayFree: true } }, skipEndedBitmasks || ['skipEndedBitmasks'], {
      pipelineDepth: 2,
    });
    const { scheduler } = driver;
    const seen: string[][] = [];
    const look = (plan: Plan): unknown => seen.push(plan.bitmaskEntries().map((i) => plan.requests[i].id));
    const input = { maxTokens: 9, stopTokenIds: [5], grammar: new FakeGrammar() };
    const g = scheduler.add({ id: 'g', prompt: prompt(6), ...input });
    scheduler.add({ id: 'h', prompt: prompt(6, 1), ...input });
    const [first, second] = [scheduler.schedule(), scheduler.schedule()];
    look(second);
    scheduler.update(first, { tokens: Int32Array.of(5, 6), counts: Int32Array.of(1, 1) });
    look(second);
    driver.sent(g);
    look(second);
    return seen;
  }

  it('on: a request that has ended is in no bitmask', () => {
    expect(bitmasks(true)).toEqual([['g', 'h'], ['h'], ['h']]);
  });

  it('off: it is as long as its blocks are sent, as in vLLM', () => {
    expect(bitmasks(false)).toEqual([['g', 'h'], ['g', 'h'], ['h']]);
  });
});
