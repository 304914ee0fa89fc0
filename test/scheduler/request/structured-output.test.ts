// Grammars: waiting for them, drafts under them, methods that throw or answer nonsense.
import { describe, expect, it } from 'vitest';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { Grammar } from '../../../src/scheduler/request/grammar.js';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

const NEXT = { maxTokens: 5, prompt: prompt(6) };

describe('a request with a grammar', () => {
  it('waits among the skipped until it is ready, and is asked once a step', () => {
    const driver = new Driver();
    const grammar = new FakeGrammar({ notReady: 2 });
    const handle = driver.add({ id: 'g', ...NEXT, grammar });
    const request = driver.request(handle);
    expect([request.status, request.container]).toEqual(['WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR', 'skipped']);
    expect(request.waitReason).toBe('grammar');
    expect([driver.scheduler.numUnfinished, driver.scheduler.hasWork()]).toEqual([1, true]);
    for (let i = 0; i < 2; i++) expect(driver.schedule().totalTokens).toBe(0);
    expect(grammar.asked).toEqual(['ready', 'ready']);
    expect(driver.schedule().totalTokens).toBe(6);
    expect(request.waitReason).toBeNull();
    driver.run();
    expect(grammar.asked.filter((what) => what === 'ready')).toHaveLength(3);
    expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('lets others pass, and comes before what waits in line when it is ready', () => {
    const driver = new Driver({ maxNumSeqs: 1 });
    driver.add({ id: 'g', ...NEXT, grammar: new FakeGrammar({ notReady: 1 }) });
    driver.add({ id: 'a', ...NEXT, maxTokens: 1 });
    driver.add({ id: 'b', ...NEXT, maxTokens: 1 });
    driver.step();
    expect(driver.last).toEqual(['a:1:length']);
    driver.step();
    expect(driver.scheduler.inspect().running).toEqual(['g']);
  });

  it('is not asked while admission is paused', () => {
    const driver = new Driver();
    const grammar = new FakeGrammar();
    driver.add({ id: 'g', ...NEXT, grammar });
    for (const mode of ['new', 'all'] as const) {
      driver.scheduler.pause(mode);
      driver.schedule();
    }
    expect(grammar.asked).toEqual([]);
  });

  for (const pipelineDepth of [1, 2, 3] as const) {
    for (const numSpeculativeTokens of [0, 3]) {
      it(`depth ${pipelineDepth}, ${numSpeculativeTokens} drafts: shows it exactly what the client gets, in order`, () => {
        const driver = new Driver({ pipelineDepth, numSpeculativeTokens });
        const grammar = new FakeGrammar({ allows: 2 });
        const handle = driver.add({ id: 'g', prompt: prompt(6), maxTokens: 11, grammar });
        driver.add({ id: 'other', maxTokens: 11 });
        driver.run();
        expect(driver.text(handle)).toHaveLength(11);
        expect(grammar.accepted).toEqual(driver.text(handle));
      });

      it(`depth ${pipelineDepth}, ${numSpeculativeTokens} drafts: ends with error where it refuses, its tokens in the row`, () => {
        const driver = new Driver({ pipelineDepth, numSpeculativeTokens });
        const handle = driver.add({
          id: 'g',
          ...NEXT,
          maxTokens: 20,
          grammar: new FakeGrammar({ accepts: 4 }),
        });
        const other = driver.add({ id: 'other', maxTokens: 20 });
        const request = driver.request(handle);
        driver.run();
        expect(driver.ends.get(handle)).toEqual(['error']);
        expect(driver.text(handle).length).toBeGreaterThan(4);
        expect(request.failure).toBe('its grammar did not accept the generated tokens');
        expect(driver.scheduler.stats()).toMatchObject({ grammarRejections: 1 });
        expect(driver.scheduler.stats().anomalies).toEqual({});
        expect(driver.text(other)).toEqual(driver.model.text(other, 20));
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }

  it('is shown the token that ends it, and may refuse that: then it ends with error, not with stop', () => {
    const driver = new Driver({}, { tokenAt: () => 5 });
    const handle = driver.add({
      id: 'g',
      ...NEXT,
      stopTokenIds: [5],
      grammar: new FakeGrammar({ accepts: 0 }),
    });
    const request = driver.request(handle);
    driver.step();
    expect(driver.last).toEqual(['g:1:error']);
    expect([request.finishReason, request.stopReason]).toEqual(['error', 5]);
  });

  it('opens a session that a refusal ends, chunks waiting or not', () => {
    const driver = new Driver();
    const grammar = new FakeGrammar({ accepts: 2 });
    const handle = driver.add({ id: 'g', ...NEXT, maxTokens: 2, resumable: true, grammar });
    driver.addChunk(handle);
    driver.addChunk(handle);
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(driver.text(handle)).toHaveLength(3);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('keeps its state over a preemption and a forced reset: nothing is shown to it twice', () => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      const driver = new Driver({ pipelineDepth });
      const grammar = new FakeGrammar();
      const handle = driver.add({ id: 'g', prompt: prompt(6), maxTokens: 9, grammar });
      while (driver.text(handle).length < 3) driver.step();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      driver.run();
      expect(grammar.accepted).toEqual(driver.text(handle));
      expect(grammar.accepted).toHaveLength(9);
    }
  });
});

describe('drafts of a request with a grammar', () => {
  it('depth 1: are cut to what it allows, and asked about only if there are any', () => {
    const driver = new Driver({ numSpeculativeTokens: 3 });
    const grammar = new FakeGrammar({ allows: 1 });
    const handle = driver.add({ id: 'g', prompt: prompt(6), maxTokens: 9, grammar });
    const free = driver.add({ id: 'free', prompt: prompt(6, 1), maxTokens: 9 });
    driver.step();
    expect([driver.request(handle).numDraftTokens, driver.request(free).numDraftTokens]).toEqual([1, 3]);
    expect(grammar.asked).toEqual(['ready', 'accept 1', 'validate 3']);
    const plan = driver.schedule();
    expect([...plan.numDraftTokens.subarray(0, 2)]).toEqual([1, 3]);
    expect([...plan.numInvalidDraftTokens.subarray(0, 2)]).toEqual([0, 0]);
  });

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: replace the placeholders, -1 where it allows no more`, () => {
      const driver = new Driver({ pipelineDepth, numSpeculativeTokens: 3 });
      const { scheduler } = driver;
      const grammar = new FakeGrammar({ allows: 1 });
      const handle = driver.add({ id: 'g', prompt: prompt(6), maxTokens: 30, grammar });
      driver.add({ id: 'free', prompt: prompt(6, 1), maxTokens: 30 });
      const first = scheduler.schedule();
      expect([first.pendingStructuredOutputTokens, first.bitmaskEntries()]).toEqual([false, [0]]);
      const second = scheduler.schedule();
      expect(second.pendingStructuredOutputTokens).toBe(true);
      const drafts = { tokens: Int32Array.of(21, 22, 23, 11, 12, 13), counts: Int32Array.of(3, 3) };
      const early = codeOf(() => scheduler.replaceDraftTokens(second, drafts));
      expect(early).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
      scheduler.update(first, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
      scheduler.replaceDraftTokens(second, drafts);
      const at = second.requests.findIndex(({ id }) => id === 'g');
      expect([...second.draftTokens.subarray(3 * at, 3 * at + 3)]).toEqual(
        at === 0 ? [21, -1, -1] : [11, -1, -1],
      );
      const other = 1 - at;
      expect([...second.draftTokens.subarray(3 * other, 3 * other + 3)]).toEqual(
        other === 0 ? [21, 22, 23] : [11, 12, 13],
      );
      expect([second.numInvalidDraftTokens[at], second.numInvalidDraftTokens[other]]).toEqual([2, 0]);
      expect(second.bitmaskEntries()).toEqual([at]);
      scheduler.update(second, { tokens: Int32Array.of(3, 4), counts: Int32Array.of(1, 1) });
      expect(scheduler.stats()).toMatchObject({ specDrafts: 2, specDraftTokens: 4 });
      expect(driver.request(handle).numTokens).toBe(8);
    });
  }

  it('beyond those that were scheduled are forgotten', () => {
    const { scheduler } = new Driver({ pipelineDepth: 2, numSpeculativeTokens: 3, maxNumBatchedTokens: 6 });
    scheduler.add({ id: 'free', prompt: prompt(3), maxTokens: 9 });
    scheduler.add({ id: 'g', prompt: prompt(3, 1), maxTokens: 9, grammar: new FakeGrammar({ allows: 1 }) });
    const [first, second] = [scheduler.schedule(), scheduler.schedule()];
    expect([...second.numDraftTokens.subarray(0, 2)]).toEqual([3, 1]);
    scheduler.update(first, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
    const [g, free] = second.requests[0].id === 'g' ? [0, 1] : [1, 0];
    scheduler.replaceDraftTokens(second, {
      tokens: Int32Array.of(11, 12, 13, 21, 22, 23),
      counts: Int32Array.of(3, 3),
    });
    const numInvalid = [second.numInvalidDraftTokens[g], second.numInvalidDraftTokens[free]];
    expect(numInvalid).toEqual(g === 0 ? [2, 0] : [0, 0]);
    expect([...second.draftTokens.subarray(0, 4)]).toEqual(g === 0 ? [11, -1, -1, 21] : [11, 12, 13, 21]);
  });

  it('are left alone where the request has ended meanwhile', () => {
    const { scheduler } = new Driver({ pipelineDepth: 2, numSpeculativeTokens: 2 });
    scheduler.add({ id: 'g', prompt: prompt(6), maxTokens: 9, grammar: new FakeGrammar() });
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    scheduler.abort('g');
    scheduler.update(first, { tokens: Int32Array.of(1), counts: Int32Array.of(1) });
    scheduler.replaceDraftTokens(second, { tokens: Int32Array.of(7, 8), counts: Int32Array.of(2) });
    expect([...second.draftTokens.subarray(0, 2)]).toEqual([-1, -1]);
    expect(second.bitmaskEntries()).toEqual([]);
  });

  it('are not said to be refused where nobody has made any, since the step before had no place for the request', () => {
    const { scheduler } = new Driver({ pipelineDepth: 2, numSpeculativeTokens: 3, maxNumBatchedTokens: 8 });
    scheduler.add({ id: 'long', prompt: prompt(2), maxTokens: 9 });
    scheduler.add({ id: 'short', prompt: prompt(2, 1), maxTokens: 2 });
    scheduler.add({ id: 'later', prompt: prompt(2, 2), maxTokens: 9 });
    const [first, second] = [scheduler.schedule(), scheduler.schedule()];
    const ids = (plan: Plan): string[] => plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
    expect([ids(first), ids(second)]).toEqual([
      ['long', 'short', 'later'],
      ['long', 'short'],
    ]);
    scheduler.update(first, { tokens: Int32Array.of(1, 2, 3), counts: Int32Array.of(1, 1, 1) });
    const third = scheduler.schedule();
    expect(ids(third)).toEqual(['long', 'later']);
    scheduler.update(second, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
    scheduler.replaceDraftTokens(third, { tokens: Int32Array.of(7, 8), counts: Int32Array.of(2, 0) });
    expect([...third.draftTokens.subarray(0, 6)]).toEqual([7, 8, -1, -1, -1, -1]);
    expect([...third.numInvalidDraftTokens.subarray(0, 2)]).toEqual([1, 0]);
    scheduler.update(third, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
    expect(scheduler.stats().specDraftTokens).toBe(3 + 3 + 2 + 3);
  });

  it.each([true, false])(
    'that their grammar was not shown count as refused with refuseUnseenDrafts: %s',
    (on) => {
      const deviations = on || ['refuseUnseenDrafts'];
      const budget = { numSpeculativeTokens: 3, maxNumBatchedTokens: 4 };
      const { scheduler } = new Driver({ pipelineDepth: 2, ...budget, deviations });
      for (const [id, maxTokens] of Object.entries({ short: 2, g: 9 }))
        scheduler.add({ id, prompt: prompt(2, maxTokens), maxTokens, grammar: new FakeGrammar() });
      const [first, second] = [scheduler.schedule(), scheduler.schedule()];
      scheduler.update(first, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
      const third = scheduler.schedule();
      scheduler.update(second, { tokens: Int32Array.of(1), counts: Int32Array.of(1) });
      scheduler.replaceDraftTokens(third, { tokens: Int32Array.of(), counts: Int32Array.of(0) });
      expect([...third.draftTokens.subarray(0, 3)]).toEqual([-1, -1, -1]);
      expect(third.numInvalidDraftTokens[0]).toBe(on ? 3 : 0);
    },
  );

  it('that are given for a request of an earlier step are taken all the same', () => {
    const { scheduler } = new Driver({ pipelineDepth: 2, numSpeculativeTokens: 3, maxNumBatchedTokens: 4 });
    scheduler.add({ id: 'short', prompt: prompt(2), maxTokens: 2 });
    scheduler.add({ id: 'later', prompt: prompt(2, 2), maxTokens: 9 });
    const [first, second] = [scheduler.schedule(), scheduler.schedule()];
    scheduler.update(first, { tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 1) });
    const third = scheduler.schedule();
    scheduler.update(second, { tokens: Int32Array.of(1), counts: Int32Array.of(1) });
    scheduler.replaceDraftTokens(third, { tokens: Int32Array.of(7), counts: Int32Array.of(1) });
    expect([...third.draftTokens.subarray(0, 3), third.numInvalidDraftTokens[0]]).toEqual([7, -1, -1, 2]);
  });

  it('wait for the tokens in flight only where a grammar asks for it', () => {
    const { scheduler } = new Driver({ pipelineDepth: 3 });
    scheduler.add({ id: 'free', prompt: prompt(6), maxTokens: 9 });
    for (let i = 0; i < 3; i++) expect(scheduler.schedule().pendingStructuredOutputTokens).toBe(false);
  });

  it('and a prompt that is not computed yet has no row in the bitmask', () => {
    const { scheduler } = new Driver({ maxNumBatchedTokens: 4, pipelineDepth: 2 });
    scheduler.add({ id: 'g', prompt: prompt(6), maxTokens: 9, grammar: new FakeGrammar() });
    const [first, second] = [scheduler.schedule(), scheduler.schedule()];
    expect([first.bitmaskEntries(), second.bitmaskEntries()]).toEqual([[], [0]]);
    expect(second.pendingStructuredOutputTokens).toBe(false);
  });
});

/** Everything that a method of a grammar can do wrong. */
const WRONGS: [string, (driver: Driver) => unknown][] = [
  ['throws', () => raise(new Error('broken'))],
  ['throws nothing', () => raise(undefined)],
  ['throws what cannot be read', () => raise(new Proxy(new Error(), { get: () => raise(1) }))],
  ['answers undefined', () => undefined],
  ['answers a string', () => 'yes'],
  ['answers a promise', () => Promise.resolve(true)],
  ['answers NaN', () => Number.NaN],
  ['answers 0.5', () => 0.5],
  ['answers -1', () => -1],
  ['answers more than there are', () => 99],
  ['answers an object that claims to be true', () => Object(true)],
  ['calls the scheduler', (driver) => driver.scheduler.schedule()],
  ['adds a request', (driver) => driver.scheduler.add({ id: 'x', prompt: prompt(2), maxTokens: 1 })],
  ['disposes the scheduler', (driver) => driver.scheduler.dispose()],
];

function raise(error: unknown): never {
  throw error;
}

describe.each(['ready', 'acceptTokens', 'validateTokens'] as const)('a grammar whose %s', (method) => {
  it.each(WRONGS)('%s costs its request and nothing else', (_name, wrong) => {
    const driver = new Driver({ numSpeculativeTokens: 2 });
    const good = new FakeGrammar();
    const grammar: Grammar = {
      ready: () => good.ready(),
      acceptTokens: (tokens) => good.acceptTokens(tokens),
      validateTokens: (tokens) => good.validateTokens(tokens),
      [method]: () => wrong(driver),
    };
    const handle = driver.add({ id: 'g', ...NEXT, grammar });
    const other = driver.add({ id: 'other', maxTokens: 6 });
    const request = driver.request(handle);
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(request.failure).toContain(method);
    expect(driver.scheduler.stats().anomalies).toEqual({ 'grammar-failed': 1 });
    expect(driver.text(other)).toEqual(driver.model.text(other, 6));
    expect(driver.timesFinished('g')).toBe(1);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('throws is thrown in strict mode, when the call has done its work', () => {
    const driver = new Driver({ numSpeculativeTokens: 2, strict: true });
    const grammar = new FakeGrammar();
    Object.assign(grammar, { [method]: () => raise(new Error('broken')) });
    const handle = driver.add({ id: 'g', ...NEXT, grammar });
    const thrown: string[] = [];
    for (let i = 0; i < 9 && driver.scheduler.hasWork(); i++) {
      try {
        const plan = driver.scheduler.schedule();
        const counts = plan.maxOutputTokens.slice(0, plan.numRequests);
        driver.scheduler.update(plan, { tokens: new Int32Array(9), counts: Int32Array.from(counts) });
        driver.scheduler.updateDraftTokens(plan, {
          tokens: new Int32Array(9),
          counts: Int32Array.from(counts),
        });
      } catch (error) {
        thrown.push((error as { code: string }).code);
      }
    }
    expect(thrown).toEqual(['ERR_BLOCKSTEP_ANOMALY']);
    expect(driver.scheduler.getByHandle(handle)).toBeUndefined();
    driver.scheduler.verify();
  });
});

describe('what a grammar gets', () => {
  it('is a copy: it can neither change the tokens nor spoil the next by giving the memory away', () => {
    const driver = new Driver();
    const seen: number[][] = [];
    const grammar = new FakeGrammar();
    grammar.acceptTokens = (tokens) => {
      seen.push([...tokens]);
      tokens.fill(0);
      structuredClone(tokens, { transfer: [tokens.buffer as ArrayBuffer] });
      return true;
    };
    const handle = driver.add({ id: 'g', ...NEXT, grammar });
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 5));
    expect(seen.flat()).toEqual(driver.text(handle));
  });

  it('is called on itself, by the methods that it had when it was added', () => {
    class Counting {
      count = 0;
      ready(): boolean {
        this.count++;
        return true;
      }
      acceptTokens(tokens: Int32Array): boolean {
        this.count += tokens.length;
        return true;
      }
      validateTokens(): number {
        return 0;
      }
    }
    const driver = new Driver();
    const grammar = new Counting();
    const handle = driver.add({ id: 'g', ...NEXT, grammar });
    grammar.acceptTokens = () => false;
    expect(driver.request(handle).grammar).toBe(grammar);
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(grammar.count).toBe(6);
  });

  it('may abort its own request: that is carried out before the next step', () => {
    const driver = new Driver();
    const grammar = new FakeGrammar();
    grammar.acceptTokens = () => {
      driver.scheduler.abort('g');
      return true;
    };
    driver.add({ id: 'g', ...NEXT, grammar });
    driver.step();
    expect(driver.last).toEqual(['g:1']);
    expect(driver.schedule().finished).toEqual(['g']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
