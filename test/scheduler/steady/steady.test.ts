// The events that a repeated step must not miss, case by case.
import { channel } from 'node:diagnostics_channel';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Control } from '../../../src/core/core.js';
import type { Plan, SchedulerOptions } from '../../../src/index.js';
import { RecordKind } from '../../../src/scheduler/log/log.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';

/** A driver whose requests `a` and `b` decode, and whose steps are repeated. */
function repeating(options: Partial<SchedulerOptions> = {}) {
  const driver = new Driver({ now: () => 1000, ...options });
  const [a, b] = ['a', 'b'].map((id, seed) => driver.add({ id, prompt: prompt(9, seed), maxTokens: 40 }));
  for (let i = 0; i < 4; i++) driver.step();
  const plan = driver.schedule();
  expect([plan.numSteady, plan.repeats > 0]).toEqual([2, true]);
  return { driver, a, b, plan };
}

/** Takes the result of the plan in flight, and makes the next plan. */
function next(driver: Driver): Plan {
  driver.update();
  return driver.schedule();
}

function expectTexts(driver: Driver, handles: readonly number[]): void {
  driver.run();
  for (const handle of handles)
    expect(driver.text(handle)).toEqual(driver.model.text(handle, driver.text(handle).length));
  expect(leftovers(driver.scheduler)).toEqual([]);
}

describe('F63 a repeated step', () => {
  it('says what a step by the rules says, and its counts can be read at any time', () => {
    const { driver, a, b, plan } = repeating();
    expect([...plan.numComputedTokens.subarray(0, 2)]).toEqual([12, 12]);
    expect(driver.request(a)).toMatchObject({ numTokens: 13, numComputedTokens: 13, numOutputTokens: 4 });
    driver.update();
    const { core } = driver.scheduler;
    expect(core.control[Control.numSampled]).toBe(2);
    core.flush();
    expect(core.control[Control.numSampled]).toBe(0);
    expect(driver.request(b)).toMatchObject({ numTokens: 14, numComputedTokens: 13, numOutputTokens: 5 });
    expect([...core.tokens(driver.request(a).slot)]).toHaveLength(14);
    expect(driver.scheduler.stats().generationTokens).toBe(10);
    expect(driver.schedule().repeats).toBeGreaterThan(0);
    driver.scheduler.verify();
    expect(next(driver).repeats).toBeGreaterThan(0);
    expectTexts(driver, [a, b]);
  });

  it('ends with each other call of the scheduler, and begins again behind an update', () => {
    const { driver, a, b } = repeating();
    const c = driver.add({ id: 'c', prompt: prompt(5, 3), maxTokens: 20 });
    const plan = next(driver);
    expect([plan.repeats, plan.numSteady, plan.numRequests]).toEqual([0, 2, 3]);
    const joined = next(driver);
    expect([joined.repeats, joined.numSteady]).toEqual([0, 3]);
    expect(next(driver).repeats).toBeGreaterThan(0);
    expectTexts(driver, [a, b, c]);
  });

  it('is none behind a step without entries: the next one says that all tokens are needed', () => {
    const driver = new Driver({ now: () => 1000, pipelineDepth: 2 });
    const handles = ['a', 'b'].map((id, seed) => driver.add({ id, prompt: prompt(9, seed), maxTokens: 40 }));
    driver.schedule();
    for (let i = 0; i < 5; i++) next(driver);
    expect(driver.inFlight[0].plan.numSteady).toBe(2);
    driver.scheduler.pause('all');
    const empty = driver.schedule();
    expect(empty.numRequests).toBe(0);
    driver.scheduler.resume();
    driver.update();
    const plan = driver.schedule();
    expect([plan.repeats, plan.numRequests, ...plan.needsAllTokens.subarray(0, 2)]).toEqual([0, 2, 1, 1]);
    expectTexts(driver, handles);
  });

  it('is none while somebody waits who finds a seat', () => {
    const { driver, a, b } = repeating({ numBlocks: 9, enablePrefixCaching: false });
    const c = driver.add({ id: 'c', prompt: prompt(12, 3), maxTokens: 4 });
    for (let i = 0; i < 3; i++) expect(next(driver).repeats).toBe(0);
    expectTexts(driver, [a, b, c]);
  });

  it('is none at a deadline, of which the request ends', () => {
    let now = 1000;
    const { driver, a } = repeating({ now: () => now });
    driver.add({ id: 'late', prompt: prompt(5, 3), maxTokens: 40, timeoutMs: 100 });
    for (let i = 0; i < 3; i++) next(driver);
    expect(next(driver).repeats).toBeGreaterThan(0);
    now += 200;
    const plan = next(driver);
    expect([plan.repeats, plan.finished]).toEqual([0, ['late']]);
    driver.update();
    expect(driver.last.sort()).toEqual(['a:1', 'b:1', 'late:0:error']);
    expect(driver.scheduler.stats().requestTimeouts).toBe(1);
    expectTexts(driver, [a]);
  });

  it('is none while somebody subscribes to the steps', () => {
    const { driver } = repeating();
    const heard: unknown[] = [];
    const listen = (message: unknown): void => {
      heard.push(message);
    };
    const steps = channel('blockstep:step');
    steps.subscribe(listen);
    onTestFinished(() => {
      steps.unsubscribe(listen);
    });
    expect(next(driver).repeats).toBe(0);
    expect(heard).toHaveLength(1);
  });

  it('is none for results that the rules have to refuse', () => {
    const { driver, plan, a, b } = repeating();
    const { scheduler } = driver;
    const counts = Int32Array.of(1, 1);
    for (const [result, code] of [
      [{ tokens: Int32Array.of(1, -1), counts }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [{ tokens: Int32Array.of(1), counts }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [{ tokens: Int32Array.of(1, 2), counts: Int32Array.of(1) }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [{ tokens: Int32Array.of(1, 2), counts: Int32Array.of(1, 2) }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [{ tokens: new Float64Array(2), counts }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [{ counts }, 'ERR_BLOCKSTEP_BAD_ARG'],
      [null, 'ERR_BLOCKSTEP_BAD_ARG'],
    ] as const)
      expect(codeOf(() => scheduler.update(plan, result as never))).toBe(code);
    expect(codeOf(() => scheduler.update({} as Plan, { tokens: counts, counts }))).toBe(
      'ERR_BLOCKSTEP_PLAN_ORDER',
    );
    driver.update();
    expect(codeOf(() => scheduler.update(plan, { tokens: counts, counts }))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expectTexts(driver, [a, b]);
  });

  it('is none where a plan is in flight, an entry failed, or the scheduler was disposed', () => {
    const { driver, plan, a, b } = repeating();
    const { scheduler } = driver;
    const outputs = scheduler.update(plan, {
      ...{ tokens: Int32Array.of(5, 6), counts: Int32Array.of(1, 1), errors: Uint8Array.of(0, 1) },
    });
    expect([outputs.length, scheduler.getByHandle(b)]).toEqual([2, undefined]);
    expect(scheduler.getByHandle(a)?.numOutputTokens).toBe(5);
    const again = repeating();
    expect(codeOf(() => again.driver.scheduler.schedule())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
    again.driver.scheduler.dispose();
    const counts = Int32Array.of(1, 1);
    expect(codeOf(() => again.driver.scheduler.update(again.plan, { tokens: counts, counts }))).toBe(
      'ERR_BLOCKSTEP_DISPOSED',
    );
    expect(codeOf(() => again.driver.scheduler.schedule())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('is updated once', () => {
    const { driver, plan } = repeating();
    const result = { tokens: Int32Array.of(5, 6), counts: Int32Array.of(1, 1) };
    driver.scheduler.update(plan, result);
    expect(codeOf(() => driver.scheduler.update(plan, result))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expect(driver.scheduler.stats().generationTokens).toBe(10);
  });

  it('is updated in its turn, with steps in flight', () => {
    const driver = new Driver({ now: () => 1000, pipelineDepth: 2 });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 40 });
    driver.schedule();
    for (let i = 0; i < 5; i++) {
      driver.schedule();
      driver.update();
    }
    const first = driver.inFlight[0].plan;
    const second = driver.schedule();
    expect(first.repeats).toBeGreaterThan(0);
    expect(second.repeats).toBe(first.repeats);
    expect([...second.numComputedTokens.subarray(0, 1)]).toEqual([first.numComputedTokens[0] + 1]);
    const result = { tokens: Int32Array.of(5), counts: Int32Array.of(1) };
    expect(codeOf(() => driver.scheduler.update(second, result))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    expectTexts(driver, [handle]);
  });

  it('is none where a plan in flight has an entry of somebody who has left', () => {
    const driver = new Driver({ now: () => 1000, pipelineDepth: 3 });
    const { scheduler } = driver;
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 40 });
    driver.schedule();
    driver.schedule();
    for (let i = 0; i < 6; i++) next(driver);
    const b = driver.add({ id: 'b', prompt: prompt(5, 3), maxTokens: 20 });
    driver.update();
    expect(driver.schedule().numRequests).toBe(2);
    driver.abort([b]);
    expect(driver.schedule().finished).toEqual(['b']);
    // Of the plans in flight the first one has one entry, the second one two.
    next(driver);
    driver.update();
    expect(scheduler.stats().droppedOutputs).toBe(1);
    expectTexts(driver, [a]);
  });

  it('is none while an abort waits', () => {
    for (const isInFlight of [true, false]) {
      const { driver, a } = repeating();
      const { aborts } = driver.scheduler;
      if (isInFlight) aborts.queue(driver.request(a));
      driver.update();
      expect(driver.last).toEqual(isInFlight ? ['b:1'] : ['a:1', 'b:1']);
      if (!isInFlight) aborts.queue(driver.request(a));
      expect(driver.schedule().finished).toEqual(['a']);
    }
  });

  it('is none where an abort comes from the clock', () => {
    let act = (): void => {};
    const now = (): number => {
      act();
      return 1000;
    };
    for (const isInFlight of [true, false]) {
      const { driver, a } = repeating({ now, log: { write: () => {} } });
      const abort = () => driver.scheduler.abort(a);
      if (isInFlight) act = abort;
      driver.update();
      expect(driver.last).toEqual(isInFlight ? ['b:1'] : ['a:1', 'b:1']);
      act = abort;
      expect(driver.schedule().finished).toEqual(['a']);
      act = () => {};
    }
  });

  it('writes its records to the log, each once, and only the plan has commands', () => {
    const kinds: number[] = [];
    const { driver, a, b } = repeating({ log: { write: (bytes) => void kinds.push(bytes[0]) } });
    const { schedule, update, commands } = RecordKind;
    kinds.length = 0;
    for (let i = 0; i < 4; i++) expect(next(driver).repeats).toBeGreaterThan(0);
    expect(kinds.filter((kind) => kind !== commands)).toEqual(Array(4).fill([update, schedule]).flat());
    // In four steps each request fills a block once, and takes one.
    const behind = kinds.filter((_, i) => kinds[i + 1] === commands);
    expect(behind).toEqual([schedule, schedule]);
    expectTexts(driver, [a, b]);
  });

  it('is made alone where somebody is told of each: a log, or the sink of KV cache events', () => {
    const sureSteps = (options: Partial<SchedulerOptions>): number => {
      const { driver, plan } = repeating(options);
      driver.update();
      return driver.scheduler.sureSteps(plan);
    };
    expect(sureSteps({})).toBeGreaterThan(0);
    expect(sureSteps({ log: { write: () => {} } })).toBe(0);
    expect(sureSteps({ kvEvents: { onEvents: () => {} } })).toBe(0);
  });

  it('poisons the scheduler if the sink of the log throws', () => {
    for (const isInUpdate of [true, false]) {
      let broken = false;
      const write = (): void => {
        if (broken) throw new Error('full');
      };
      const { driver } = repeating({ log: { write } });
      if (!isInUpdate) driver.update();
      broken = true;
      expect(() => (isInUpdate ? driver.update() : driver.schedule())).toThrow('full');
      broken = false;
      expect(codeOf(() => driver.scheduler.stats())).toBe('ERR_BLOCKSTEP_INVARIANT');
    }
  });

  it('is none for a result behind news of a tier, which its update tells', () => {
    const events: unknown[] = [];
    const connector = new ScriptedConnector({}, { protection: 'own' });
    const onEvents = (told: readonly unknown[]): void => {
      events.push(...told);
    };
    const { driver, a, b } = repeating({ connector, kvEvents: { onEvents } });
    events.length = 0;
    connector.view.tellTier('stored', 'CPU', [5n]);
    driver.update();
    expect(events).toMatchObject([{ type: 'stored', medium: 'CPU' }]);
    driver.schedule();
    expect(next(driver).repeats).toBeGreaterThan(0);
    expectTexts(driver, [a, b]);
  });

  it('is none for a request whose tokens a rule has taken back', () => {
    const { driver, a, b } = repeating();
    driver.update();
    driver.request(a).numComputedTokens = 8;
    const plan = driver.schedule();
    expect([plan.repeats, plan.numSteady]).toEqual([0, 0]);
    expect([...plan.numScheduledTokens.subarray(0, 2)]).toEqual([6, 1]);
    expectTexts(driver, [a, b]);
  });

  it('leaves its tokens to its own requests, whatever plans come between', () => {
    const { driver, a, b } = repeating({ enablePrefixCaching: false });
    driver.update();
    driver.scheduler.pause('all');
    expect(driver.scheduler.schedule().totalTokens).toBe(0);
    driver.scheduler.resume();
    driver.scheduler.abort(a);
    expect(driver.schedule().totalTokens).toBe(1);
    driver.scheduler.verify();
    expectTexts(driver, [b]);
  });

  it('looks at an array again that its owner has given away since', () => {
    const { driver, plan } = repeating();
    const { scheduler } = driver;
    const result = { tokens: Int32Array.of(5, 6), counts: Int32Array.of(1, 1) };
    scheduler.update(plan, result);
    const following = scheduler.schedule();
    expect(following.repeats).toBeGreaterThan(0);
    structuredClone(result.tokens, { transfer: [result.tokens.buffer] });
    expect(codeOf(() => scheduler.update(following, result))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(scheduler.update(following, { ...result, tokens: Int32Array.of(7, 8) }).length).toBe(2);
  });

  it('is none for a result that calls back while it is read', () => {
    const { driver, plan, a, b } = repeating();
    const { scheduler } = driver;
    const counts = Int32Array.of(1, 1);
    const result = {
      counts,
      get tokens() {
        scheduler.abort(a);
        return Int32Array.of(5, 6);
      },
    };
    const outputs = scheduler.update(plan, result);
    expect(outputs.requests.slice(0, outputs.length).map(({ handle }) => handle)).toEqual([b]);
    scheduler.verify();
  });

  it('has no row for a session that goes on while a step of its old answer is in flight', () => {
    const stop = 777;
    const rowsOf = (steadyDecode: boolean): string[][] => {
      const driver = new Driver(
        { now: () => 1000, pipelineDepth: 3, steadyDecode },
        { tokenAt: (_, position) => (position === 17 ? stop : 100 + position) },
      );
      const a = driver.add({
        id: 'a',
        prompt: prompt(9),
        // The stop token is the last but one. The request rests already: its last token is in flight.
        maxTokens: 10,
        resumable: true,
        stopTokenIds: [stop],
      });
      driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 40, stopTokenIds: [] });
      driver.addChunk(a, { maxTokens: 4 });
      driver.schedule();
      driver.schedule();
      let numSteady = 0;
      const rows: string[][] = [];
      for (let i = 0; i < 16; i++) {
        ({ numSteady } = driver.schedule());
        if (i === 4) expect(numSteady).toBe(steadyDecode ? 2 : 0);
        driver.update();
        rows.push(driver.last);
      }
      expect(driver.scheduler.stats().droppedOutputs).toBeGreaterThan(0);
      return rows;
    };
    const rows = rowsOf(true);
    expect(rows).toEqual(rowsOf(false));
  });

  it('is none with the option off, and decides the same', () => {
    const driver = new Driver({ steadyDecode: false, now: () => 1000 });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 20 });
    for (let i = 0; i < 6; i++) {
      const plan = driver.schedule();
      expect([plan.numSteady, plan.repeats]).toEqual([0, 0]);
      driver.update();
    }
    expectTexts(driver, [handle]);
  });
});
