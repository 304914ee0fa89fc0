// `maxLoras` limits the adapters that run at once; random lives with adapters.
import { describe, expect, it } from 'vitest';
import { Driver, leftovers, prompt, Random } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { share } from '../../support/share.js';

function add(driver: Driver, id: string, adapter: string, maxTokens = 3): number {
  return driver.add({ id, prompt: prompt(4, id.charCodeAt(0)), maxTokens, ...(adapter ? { adapter } : {}) });
}

function admitted(driver: Driver): string[] {
  const plan = driver.schedule();
  const ids = plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
  driver.update(plan);
  return ids;
}

describe('maxLoras', () => {
  it('0: any number of adapters runs at once', () => {
    const driver = new Driver();
    for (const id of ['a', 'b', 'c', 'd']) add(driver, id, `lora-${id}`);
    expect(admitted(driver)).toHaveLength(4);
  });

  it('passes over who would be one too many, and nobody else', () => {
    const driver = new Driver({ maxLoras: 2 });
    for (const [id, adapter] of ['a1', 'b2', 'c3', 'd1', 'e', 'f4', 'g2'].map((text) => [
      text[0],
      text[1] ?? '',
    ]))
      add(driver, id as string, adapter as string);
    expect(admitted(driver)).toEqual(['a', 'b', 'd', 'e', 'g']);
    expect(driver.scheduler.inspect()).toMatchObject({ waiting: [], skipped: ['c', 'f'] });
    expect(driver.scheduler.get('c')?.waitReason).toBe('adapter');
    expect(driver.scheduler.numUnfinished).toBe(7);
  });

  it('lets in from the front as soon as an adapter is gone', () => {
    const driver = new Driver({ maxLoras: 1 });
    add(driver, 'a', '1', 1);
    for (const id of ['b', 'c']) add(driver, id, id, 1);
    expect(admitted(driver)).toEqual(['a']);
    expect(admitted(driver)).toEqual(['b']);
    add(driver, 'd', 'c', 1);
    expect(admitted(driver)).toEqual(['c', 'd']);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('keeps the order among the passed over: older ones stay ahead', () => {
    const driver = new Driver({ maxLoras: 1 });
    add(driver, 'a', '1', 9);
    driver.add({ id: 'g', grammar: new FakeGrammar({ notReady: 2 }), maxTokens: 1 });
    add(driver, 'b', '2');
    driver.schedule();
    driver.update();
    add(driver, 'c', '3');
    driver.schedule();
    driver.update();
    expect(driver.scheduler.inspect().skipped).toEqual(['g', 'b', 'c']);
    driver.schedule();
    expect(driver.scheduler.inspect()).toMatchObject({ running: ['a', 'g'], skipped: ['b', 'c'] });
  });

  it('knows whose adapter runs, and sees when it is gone', () => {
    const driver = new Driver({ maxLoras: 1, policy: 'priority' });
    add(driver, 'a', '1', 9);
    driver.step();
    add(driver, 'b', '2');
    expect(admitted(driver)).toEqual(['a']);
    expect(driver.scheduler.get('b')?.waitsForAdapter).toBe(true);
    driver.abort('a');
    expect(admitted(driver)).toEqual(['b']);
    expect(driver.scheduler.get('b')?.waitsForAdapter).toBe(false);
  });

  it('holds for requests that come back: preempted ones and sessions', () => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      const driver = new Driver({ maxLoras: 1, pipelineDepth, numBlocks: 12 });
      const handles = ['a', 'b', 'c'].map((id) =>
        driver.add({ id, prompt: prompt(9, id.charCodeAt(0)), maxTokens: 8, resumable: true, adapter: id }),
      );
      for (const handle of handles) driver.addChunk(handle, { prompt: prompt(3), maxTokens: 8 });
      for (const handle of handles) driver.endSession(handle);
      driver.run();
      for (const handle of handles) expect(driver.text(handle)).toHaveLength(16);
      expect(leftovers(driver.scheduler)).toEqual([]);
    }
  });

  it.each([true, false])(
    'a request that runs without an entry in the plan keeps its adapter, with countIdleAdapters %s',
    (countIdleAdapters) => {
      const speculation = { pipelineDepth: 2, numSpeculativeTokens: 3, speculativeMethod: 'eagle' } as const;
      const sizes = { numBlocks: 81, maxModelLen: 33, maxNumBatchedTokens: 33 };
      const driver = new Driver({
        ...speculation,
        ...sizes,
        maxLoras: 1,
        deviations: countIdleAdapters || ['countIdleAdapters'],
      });
      driver.add({ id: 'a', prompt: prompt(28), maxTokens: 3, adapter: '1' });
      driver.schedule();
      // The drafts may reach the model's length: then there is nothing left to compute, unless they are rejected.
      expect(driver.schedule().totalTokens).toBe(4);
      driver.update();
      driver.add({ id: 'b', prompt: prompt(28, 1), maxTokens: 3, adapter: '2' });
      driver.schedule();
      expect(driver.scheduler.inspect().running).toEqual(countIdleAdapters ? ['a'] : ['a', 'b']);
    },
  );
});

describe('random lives of requests with adapters and drafts', () => {
  const LIVES = share(400, 800, 2000);

  /** Texts grow to the model's length, where drafts in flight leave a request without an entry. Throws where a plan has too many adapters. */
  function live(seed: number, countIdleAdapters: boolean): void {
    const random = new Random(seed);
    const maxModelLen = 6 + random.below(20);
    const numSpeculativeTokens = 1 + random.below(5);
    const longest = Math.ceil((maxModelLen + numSpeculativeTokens) / 4);
    const driver = new Driver({
      pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
      numSpeculativeTokens,
      speculativeMethod: (['ngram', 'eagle', 'draft_model'] as const)[random.below(3)],
      maxModelLen,
      maxLoras: 1 + random.below(2),
      numBlocks: 1 + longest * (1 + random.below(4)),
      maxNumSeqs: 2 + random.below(5),
      maxNumBatchedTokens: 8 + random.below(30),
      policy: random.chance(50) ? 'priority' : 'fcfs',
      deviations: countIdleAdapters || ['countIdleAdapters'],
    });
    for (let i = 0; i < 6; i++) {
      const adapter = random.chance(80) ? { adapter: `lora${random.below(4)}` } : {};
      const length = 1 + random.below(maxModelLen - 2);
      driver.add({
        id: `r${i}`,
        prompt: prompt(length, i),
        maxTokens: 1 + random.below(maxModelLen),
        ...adapter,
      });
      for (let steps = random.below(4); steps > 0; steps--) driver.step();
    }
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  }

  /** Seeds of lives in which a plan had more adapters than there may be. */
  function tooMany(countIdleAdapters: boolean): number[] {
    return Array.from({ length: LIVES }, (_, seed) => seed).filter((seed) => {
      try {
        live(seed, countIdleAdapters);
      } catch (error) {
        if (/adapters in one step/.test(String(error))) return true;
        throw error;
      }
      return false;
    });
  }

  it(`${LIVES} of them at depths 1 to 3: no plan has more adapters than maxLoras`, () => {
    expect(tooMany(true)).toEqual([]);
  });

  it('with countIdleAdapters off, as in vLLM, some have', () => {
    expect(tooMany(false).length).toBeGreaterThan(0);
  });
});
