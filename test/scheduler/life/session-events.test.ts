// A chunk, an end and an abort in every state of a session.
import { describe, expect, it } from 'vitest';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

/** A state that a session can be in, and how it gets there. */
interface State {
  name: string;
  status: string;
  bring: (driver: Driver, handle: number) => void;
}

function until(status: string): (driver: Driver, handle: number) => void {
  return (driver, handle) => {
    for (let i = 0; driver.request(handle).status !== status; i++) {
      if (i > 60) throw new Error(`never ${status}`);
      if (driver.inFlight.length === driver.scheduler.config.pipelineDepth) driver.update();
      else if (driver.schedule().totalTokens === 0 && driver.inFlight.length > 0) driver.update();
    }
  };
}

const STATES: State[] = [
  { name: 'waiting', status: 'WAITING', bring: () => {} },
  { name: 'waiting for its grammar', status: 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR', bring: () => {} },
  { name: 'running', status: 'RUNNING', bring: until('RUNNING') },
  { name: 'preempted', status: 'PREEMPTED', bring: until('PREEMPTED') },
  {
    name: 'waiting for input',
    status: 'WAITING_FOR_STREAMING_REQ',
    bring: until('WAITING_FOR_STREAMING_REQ'),
  },
  {
    name: 'waiting with its next chunk',
    status: 'WAITING',
    bring: (driver, handle) => {
      until('WAITING_FOR_STREAMING_REQ')(driver, handle);
      driver.addChunk(handle, { prompt: prompt(4, 6) });
    },
  },
];

function inState({ name, bring, status }: State, pipelineDepth: 1 | 2 | 3, strict = false) {
  const squeezed = name === 'preempted';
  const driver = new Driver({ pipelineDepth, strict, numBlocks: squeezed ? 7 : 33 });
  if (squeezed) driver.add({ id: 'first', prompt: prompt(7, 1), maxTokens: 14 });
  const handle = driver.add({
    id: 's',
    prompt: prompt(9),
    maxTokens: squeezed ? 14 : 3,
    resumable: true,
    ...(status.includes('GRAMMAR') ? { grammar: new FakeGrammar({ notReady: 3 }) } : {}),
  });
  bring(driver, handle);
  expect(driver.request(handle).status).toBe(status);
  return { driver, handle };
}

function anomalies(driver: Driver): Record<string, number> {
  return driver.scheduler.stats().anomalies;
}

for (const pipelineDepth of [1, 2, 3] as const) {
  describe.each(STATES)(`depth ${pipelineDepth}, a session that is $name`, (state) => {
    it('takes a chunk and an end, answers both parts and ends once', () => {
      const { driver, handle } = inState(state, pipelineDepth, true);
      const idle = state.status === 'WAITING_FOR_STREAMING_REQ';
      expect(driver.addChunk(handle, { prompt: prompt(3, 7), maxTokens: 2 })).toBe(
        idle ? 'started' : 'queued',
      );
      expect(driver.endSession(handle)).toBe('queued');
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['length']);
      expect(driver.timesFinished('s')).toBe(1);
      expect(anomalies(driver)).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('takes an end: an idle one ends at once, any other with its answer', () => {
      const { driver, handle } = inState(state, pipelineDepth, true);
      const idle = state.status === 'WAITING_FOR_STREAMING_REQ';
      expect(driver.endSession(handle)).toBe(idle ? 'ended' : 'queued');
      driver.run();
      expect(driver.ends.get(handle)).toEqual([idle ? 'abort' : 'length']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('skips what comes behind the end, by reason', () => {
      const { driver, handle } = inState(state, pipelineDepth);
      const idle = state.status === 'WAITING_FOR_STREAMING_REQ';
      driver.endSession(handle);
      const { numTokens } = driver.scheduler.get('s') ?? { numTokens: 0 };
      expect(driver.scheduler.addChunk('s', { prompt: prompt(3, 7) })).toBe('skipped');
      expect(driver.scheduler.endSession('s')).toBe('skipped');
      expect(driver.endSession(handle)).toBe('skipped');
      const ended = { 'chunk-unknown': 1, 'end-unknown': 1, 'stale-handle': 1 };
      expect(anomalies(driver)).toEqual(idle ? ended : { 'chunk-after-end': 1, 'duplicate-end': 2 });
      if (!idle) expect(driver.request(handle).numTokens).toBe(numTokens);
      driver.run();
      expect(driver.ends.get(handle)).toHaveLength(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('is aborted, with chunks waiting: they are forgotten, and nothing brings it back', () => {
      const { driver, handle } = inState(state, pipelineDepth);
      driver.addChunk(handle, { prompt: prompt(3, 7) });
      driver.addChunk(handle, { prompt: prompt(3, 8) });
      const request = driver.request(handle);
      expect(driver.abort('s')).toEqual(['s']);
      expect(request.session?.queue).toEqual([]);
      expect(driver.scheduler.stats().numIdleSessions).toBe(0);
      expect(driver.scheduler.addChunk('s', { prompt: prompt(3, 7) })).toBe('skipped');
      expect(driver.addChunk(handle)).toBe('skipped');
      expect(driver.scheduler.endSession('s')).toBe('skipped');
      expect(driver.endSession(handle)).toBe('skipped');
      expect(driver.abort('s')).toEqual([]);
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(driver.timesFinished('s')).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
      const { 'stale-handle': stale, ...others } = anomalies(driver);
      expect(stale).toBe(2);
      expect(others).toEqual({ 'chunk-unknown': 1, 'end-unknown': 1, 'abort-unknown': 1 });
    });

    it('is aborted with everything else, and its id can be used again at once', () => {
      const { driver, handle } = inState(state, pipelineDepth, true);
      driver.abortAll();
      const again = driver.add({ id: 's', prompt: prompt(9), maxTokens: 2, resumable: true });
      expect(driver.addChunk(handle)).toBe('skipped');
      expect(driver.request(again).session?.queue).toEqual([]);
      driver.addChunk(again, { prompt: prompt(3, 7) });
      driver.endSession(again);
      driver.run();
      expect(driver.text(again)).toHaveLength(4);
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(driver.ends.get(again)).toEqual(['length']);
      expect(driver.scheduler.stats().numIdleSessions).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('whose status an adapter restamps is found by membership, and leaves no count behind', () => {
      const { driver, handle } = inState(state, pipelineDepth);
      const request = driver.request(handle);
      request.status = state.status === 'WAITING_FOR_STREAMING_REQ' ? 'WAITING' : 'WAITING_FOR_STREAMING_REQ';
      expect(driver.abort('s')).toEqual(['s']);
      expect(anomalies(driver)).toEqual({ 'realigned-status': 1 });
      expect([driver.scheduler.stats().numIdleSessions, driver.scheduler.numSkipped]).toEqual([0, 0]);
      const next = driver.add({ id: 'next', maxTokens: 2 });
      expect(driver.scheduler.hasWork()).toBe(true);
      driver.run();
      expect(driver.ends.get(next)).toEqual(['length']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  });
}

describe('a session whose status an adapter restamps while it waits for input', () => {
  it('takes its next chunk all the same: it is found where it stands', () => {
    const { driver, handle } = inState(STATES[4], 1);
    driver.request(handle).status = 'WAITING';
    expect(driver.addChunk(handle)).toBe('started');
    driver.endSession(handle);
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('is ended by its end marker all the same', () => {
    const { driver, handle } = inState(STATES[4], 1);
    driver.request(handle).status = 'WAITING';
    expect(driver.endSession(handle)).toBe('ended');
    expect(driver.scheduler.stats().numIdleSessions).toBe(0);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('what is no session', () => {
  it('takes no chunk and no end: both are skipped and counted, and thrown in strict mode', () => {
    const driver = new Driver();
    driver.add({ id: 'a', maxTokens: 2 });
    expect(driver.scheduler.addChunk('a', { prompt: prompt(3) })).toBe('skipped');
    expect(driver.scheduler.endSession('a')).toBe('skipped');
    expect(anomalies(driver)).toEqual({ 'chunk-not-resumable': 1, 'end-not-resumable': 1 });
    const strict = new Driver({ strict: true });
    strict.add({ id: 'a', maxTokens: 2 });
    expect(codeOf(() => strict.scheduler.addChunk('a', { prompt: prompt(3) }))).toBe('ERR_BLOCKSTEP_ANOMALY');
    expect(codeOf(() => strict.scheduler.endSession('a'))).toBe('ERR_BLOCKSTEP_ANOMALY');
    strict.run();
    expect(strict.scheduler.stats().finished.length).toBe(1);
  });

  it('was never known: a client that speaks too late is not wrong, in strict mode neither', () => {
    const driver = new Driver({ strict: true });
    expect(driver.scheduler.addChunk('nobody', { prompt: prompt(3) })).toBe('skipped');
    expect(driver.scheduler.endSession('nobody')).toBe('skipped');
    expect(anomalies(driver)).toEqual({ 'chunk-unknown': 1, 'end-unknown': 1 });
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('has finished and drains: its handle is known, its session is over', () => {
    const driver = new Driver({ strict: true });
    const handle = driver.add({ id: 's', prompt: prompt(9), maxTokens: 2, resumable: true });
    driver.step();
    driver.scheduler.hold(handle, 'store', 'job');
    driver.abort('s');
    expect(driver.addChunk(handle)).toBe('skipped');
    expect(driver.endSession(handle)).toBe('skipped');
    expect(anomalies(driver)).toEqual({ 'chunk-finished': 1, 'end-finished': 1 });
    driver.scheduler.complete(handle, 'store', 'job');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
