// A hash is reported once, resets are reported, sinks that throw or call back cost nothing.
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../src/scheduler/events/kv-event.js';
import { codeOf, Driver, makeScheduler, prompt } from '../../support/driver.js';

/** A sink that keeps its events, as text. */
function listener(): { told: string[]; onEvents: (events: readonly KvEvent[]) => void } {
  const told: string[] = [];
  const say = (event: KvEvent): string => {
    if (event.type === 'cleared') return 'cleared';
    const blocks = event.hashes.length / 16;
    return event.type === 'removed'
      ? `removed ${blocks}`
      : `stored ${blocks} of ${event.tokenIds.length} tokens`;
  };
  return { told, onEvents: (events) => told.push(...events.map(say)) };
}

describe('KV cache events', () => {
  it('tell a hash once, and that it is gone when its last block is', () => {
    const kvEvents = listener();
    const driver = new Driver({ kvEvents });
    // The second one finds the first block, which the step publishes as it is planned, and computes the last one itself.
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.add({ id: 'b', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    expect(kvEvents.told).toEqual(['stored 2 of 8 tokens']);
    const { core } = driver.scheduler;
    const ids = [...core.published()];
    const hashes = ids.map((id) => core.native.publishedHash(id));
    const at = hashes.findIndex((hash, i) => hashes.indexOf(hash) < i);
    const [first, second] = [ids[hashes.indexOf(hashes[at])], ids[at]];
    const evict = (id: number): void => {
      core.native.evict(Int32Array.of(id));
      driver.add({ id: `next ${id}`, prompt: [1], maxTokens: 1 });
      driver.run();
    };
    evict(first);
    expect(kvEvents.told).toHaveLength(1);
    evict(second);
    expect(kvEvents.told.slice(1)).toEqual(['removed 1']);
  });

  it('tell with an update what it has published, also if nothing is ever scheduled again', () => {
    const kvEvents = listener();
    const scheduler = makeScheduler({ kvEvents, pipelineDepth: 2 });
    scheduler.add({ id: 'a', prompt: prompt(7), maxTokens: 9 });
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    const one = { tokens: Int32Array.of(7), counts: Int32Array.of(1) };
    scheduler.update(first, one);
    const before = kvEvents.told.length;
    // The token of the first step fills the second block, which the second step has computed.
    scheduler.update(second, one);
    expect(kvEvents.told.slice(before)).toEqual(['stored 1 of 4 tokens']);
    scheduler.dispose();
  });

  it('tell with a failed step what it has taken back, also if nothing is ever scheduled again', () => {
    const kvEvents = listener();
    const scheduler = makeScheduler({ kvEvents });
    scheduler.add({ id: 'a', prompt: prompt(7), maxTokens: 9 });
    scheduler.failStep(scheduler.schedule());
    expect(kvEvents.told).toEqual(['stored 1 of 4 tokens', 'removed 1']);
    scheduler.dispose();
  });

  it('tell with reports between two steps what they have taken back, also if nothing is ever scheduled again', () => {
    const kvEvents = listener();
    const driver = new Driver({ kvEvents });
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    driver.scheduler.updateTransfers({ lostBlocks: [...driver.scheduler.core.published()] });
    expect(kvEvents.told).toEqual(['stored 2 of 8 tokens', 'removed 2']);
  });

  it('tell of a reset at once, also if nothing is ever scheduled again', () => {
    const kvEvents = listener();
    const driver = new Driver({ kvEvents });
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    expect(driver.scheduler.resetPrefixCache().ok).toBe(true);
    expect(kvEvents.told).toEqual(['stored 2 of 8 tokens', 'cleared']);
  });

  it('are not told to a sink that threw, which costs nothing else', () => {
    const told: string[] = [];
    const onEvents = (events: readonly KvEvent[]): void => {
      told.push(events[0].type);
      throw new Error('no');
    };
    const driver = new Driver({ kvEvents: { onEvents } });
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    driver.scheduler.resetPrefixCache();
    expect(told).toEqual(['stored', 'cleared']);
    expect(driver.scheduler.stats().anomalies).toEqual({ 'kv-events-failed': 2 });
  });

  it('may not call the scheduler from their sink', () => {
    const codes: string[] = [];
    const kvEvents = {
      onEvents: () => void codes.push(codeOf(() => driver.scheduler.schedule())),
    };
    const driver: Driver = new Driver({ kvEvents });
    driver.add({ id: 'a', prompt: prompt(8), maxTokens: 1 });
    driver.run();
    expect(codes).toEqual(['ERR_BLOCKSTEP_REENTRANT']);
  });

  it('do not go with a GPU that decides', () => {
    const kvEvents = listener();
    expect(() => makeScheduler({ kvEvents, authority: 'device' })).toThrow(
      /^authority must be host with kvEvents/,
    );
  });
});
