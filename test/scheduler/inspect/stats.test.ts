// `stats`, the counts of the prefix cache, the diagnostics channels.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { channels } from '../../../src/base/channels.js';
import { Driver, prompt } from '../../support/driver.js';

describe('statistics', () => {
  it('of a fresh scheduler are zero, with the whole pool free', () => {
    const { anomalies, finished, outstanding, groups, ...numbers } = new Driver().scheduler.stats();
    expect(anomalies).toEqual({});
    expect(groups).toMatchObject([{ usedBlocks: 0, cachedBlocks: 0, nullPlaces: 0, droppedBlocks: 0 }]);
    const none = { count: 0, oldestMs: 0 };
    expect(outstanding).toEqual({ load: none, store: none, lease: none });
    expect(finished).toEqual({ stop: 0, length: 0, abort: 0, error: 0 });
    for (const [name, value] of Object.entries(numbers)) expect(value).toBe(name === 'freeBlocks' ? 32 : 0);
  });

  it('show the state as it is', () => {
    const driver = new Driver({ maxNumSeqs: 2, pipelineDepth: 2 });
    for (const id of ['a', 'b', 'c']) driver.add({ id, prompt: prompt(8), cacheSalt: id });
    driver.schedule();
    const { scheduler } = driver;
    expect(scheduler.stats()).toMatchObject({
      step: 1,
      numRunning: 2,
      numWaiting: 1,
      numSkipped: 0,
      stepsInFlight: 1,
      freeBlocks: 28,
      kvCacheUsage: 4 / 32,
      cachedBlocks: 4,
      rowsInUse: 2,
    });
    driver.update();
    expect(scheduler.stats()).toMatchObject({ stepsInFlight: 0, generationTokens: 2, promptTokens: 16 });
  });

  it('are a snapshot: what happens later does not change it', () => {
    const driver = new Driver();
    const before = driver.scheduler.stats();
    driver.abort('nobody');
    driver.add({ id: 'a', maxTokens: 1 });
    driver.run();
    expect(before).toMatchObject({ anomalies: {}, finished: { length: 0 }, step: 0 });
  });

  it('count evictions when a cached block is reused, never before', () => {
    const driver = new Driver({ numBlocks: 5 });
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    expect(driver.scheduler.stats()).toMatchObject({ evictions: 0, cachedBlocks: 2 });
    driver.add({ id: 'b', prompt: prompt(16, 1), maxTokens: 1 });
    driver.run();
    expect(driver.scheduler.stats()).toMatchObject({ evictions: 2, cachedBlocks: 4 });
  });

  it('carry the times of a request on the injected clock', () => {
    let now = 100;
    const driver = new Driver({ now: () => now });
    const request = driver.request(driver.add({ id: 'a', maxTokens: 2 }));
    const times = () => [request.addedAt, request.firstScheduledAt, request.firstTokenAt, request.finishedAt];
    expect(times()).toEqual([100, -1, -1, -1]);
    now = 200;
    driver.schedule();
    now = 300;
    driver.update();
    now = 400;
    driver.schedule();
    now = 500;
    driver.update();
    expect(times()).toEqual([100, 200, 300, 500]);
  });
});

describe('prefix cache', () => {
  /** Tokens found by a second request. */
  function hits(first: object, second: object, options = {}): number {
    const driver = new Driver(options);
    driver.add({ id: 'a', prompt: prompt(12), maxTokens: 1, ...first });
    driver.run();
    const handle = driver.add({ id: 'b', prompt: prompt(14), maxTokens: 1, ...second });
    const request = driver.request(handle);
    driver.run();
    expect(driver.scheduler.stats().prefixCacheHits).toBe(Math.max(0, request.numCachedTokens));
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 1));
    return request.numCachedTokens;
  }

  it('finds the full blocks of an equal prefix', () => {
    expect(hits({}, {})).toBe(12);
    expect(hits({}, { prompt: prompt(7) })).toBe(4);
    expect(hits({}, { prompt: prompt(12, 1) })).toBe(0);
  });

  it('never finds the last token, which must be computed to sample', () => {
    expect(hits({}, { prompt: prompt(12) })).toBe(8);
    expect(hits({}, { prompt: prompt(4) })).toBe(0);
  });

  it('isolates cacheSalt and adapter, from none, from others and from each other', () => {
    const names = [
      {},
      { cacheSalt: 's' },
      { cacheSalt: 't' },
      { adapter: 's' },
      { cacheSalt: 's', adapter: 's' },
    ];
    names.forEach((first, i) => {
      names.forEach((second, j) => {
        expect(hits(first, second)).toBe(i === j ? 12 : 0);
      });
    });
    expect(hits({ cacheSalt: 'ab', adapter: 'c' }, { cacheSalt: 'a', adapter: 'bc' })).toBe(0);
    expect(hits({ cacheSalt: '' }, {})).toBe(12);
  });

  it('finds nothing when it is off, and asks nothing', () => {
    const driver = new Driver({ enablePrefixCaching: false });
    driver.add({ id: 'a', prompt: prompt(12), maxTokens: 1 });
    driver.run();
    driver.add({ id: 'b', prompt: prompt(12), maxTokens: 1 });
    driver.run();
    const { prefixCacheRequests, prefixCacheQueries, cachedBlocks } = driver.scheduler.stats();
    expect([prefixCacheRequests, prefixCacheQueries, cachedBlocks]).toEqual([0, 0, 0]);
  });

  it('drops the last hit block for eagle drafts', () => {
    expect(hits({}, {}, { numSpeculativeTokens: 2, speculativeMethod: 'eagle' })).toBe(8);
  });

  it('counts each admission once, those after a preemption apart', () => {
    const driver = new Driver();
    driver.add({ id: 'a', prompt: prompt(10), maxTokens: 9 });
    driver.step();
    driver.add({ id: 'b', prompt: prompt(10), maxTokens: 9 });
    driver.step();
    const blocked = { prefixCacheRequests: 2, prefixCacheQueries: 20, prefixCacheHits: 8 };
    expect(driver.scheduler.stats()).toMatchObject({ ...blocked, preemptedRequests: 0 });
    const { numTokens } = driver.scheduler.get('a') as { numTokens: number };
    driver.abort('b');
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.schedule();
    const resumed = { preemptedRequests: 1, preemptedQueries: numTokens, preemptedHits: 0, promptTokens: 20 };
    expect(driver.scheduler.stats()).toMatchObject({ ...blocked, ...resumed });
  });
});

describe('diagnostics channels', () => {
  const unsubscribe: (() => void)[] = [];
  afterEach(() => {
    for (const off of unsubscribe.splice(0)) off();
    vi.restoreAllMocks();
  });

  function record(): [string, unknown][] {
    const messages: [string, unknown][] = [];
    for (const [name, channel] of Object.entries(channels)) {
      const listen = (message: unknown) => messages.push([name, message]);
      channel.subscribe(listen);
      unsubscribe.push(() => channel.unsubscribe(listen));
    }
    return messages;
  }

  it('tell the whole life of a request', () => {
    const messages = record();
    const driver = new Driver();
    const handle = driver.add({ id: 'a', prompt: prompt(6), maxTokens: 2 });
    driver.step();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.step();
    driver.abort('a');
    expect(messages).toEqual([
      ['add', { id: 'a', handle, numPromptTokens: 6, maxTokens: 2 }],
      ['admit', { id: 'a', handle, numComputedTokens: 0, resumed: false }],
      ['step', { step: 0, numRequests: 1, totalTokens: 6, freeBlocks: 30 }],
      ['preempt', { id: 'a', handle }],
      ['admit', { id: 'a', handle, numComputedTokens: 0, resumed: true }],
      ['step', { step: 1, numRequests: 1, totalTokens: 7, freeBlocks: 30 }],
      [
        'finish',
        {
          ...{ id: 'a', handle, reason: 'length', numOutputTokens: 2 },
          // The clock ticks once a call: a step is two, and the reset one.
          ...{ firstScheduledMs: 1, firstTokenMs: 2, endedMs: 5 },
        },
      ],
      ['anomaly', { reason: 'abort-unknown', detail: 'no unfinished request has id a' }],
    ]);
  });

  it('name the tokens found in the cache, the other reasons, and empty steps', () => {
    const driver = new Driver({}, { tokenAt: () => 2 });
    driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    const messages = record();
    driver.add({ id: 'b', prompt: prompt(9), maxTokens: 9, eosTokenId: 2 });
    driver.add({ id: 'c', prompt: prompt(9, 1) });
    driver.add({ id: 'd', prompt: prompt(9, 2) });
    driver.abort('c');
    driver.schedule((_, plan) => plan.requests[_].id === 'd');
    driver.update();
    driver.schedule();
    const said = messages.filter(([name]) => ['admit', 'finish', 'step'].includes(name));
    expect(said.map(([name, message]) => [name, Object.values(message as object).join()])).toEqual([
      ['finish', expect.stringMatching(/^c,\d+,abort,0,,,\d+$/)],
      ['admit', expect.stringMatching(/^b,\d+,8,false$/)],
      ['admit', expect.stringMatching(/^d,\d+,0,false$/)],
      ['step', expect.stringMatching(/^2,2,10,\d+$/)],
      ['finish', expect.stringMatching(/^d,\d+,error,0,\d+,,\d+$/)],
      ['finish', expect.stringMatching(/^b,\d+,stop,1,\d+,\d+,\d+$/)],
      ['step', expect.stringMatching(/^3,0,0,\d+$/)],
    ]);
  });

  it('publish nothing at all without subscribers, so that no message is made', () => {
    const spies = Object.values(channels).map((channel) => vi.spyOn(channel, 'publish'));
    const driver = new Driver({ numBlocks: 9 });
    for (let i = 0; i < 4; i++) driver.add({ id: `r${i}`, prompt: prompt(10, i), maxTokens: 8 });
    driver.run();
    driver.abort('nobody');
    expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(0);
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
  });
});
