import { describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../src/index.js';
import type { KvEvent } from '../../src/scheduler/events/kv-event.js';
import { smallEngine } from './random-engine.js';

/**
 * The knowledge of a reader that receives events and nothing else: the place of each block of a
 * group in its text.
 */
class Places {
  readonly places = new Map<string, number>();
  /** Stored events whose parent was never stored in their group. */
  readonly holes: KvEvent[] = [];

  onEvents(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.type !== 'stored') continue;
      const { group, hashes, parentHash, firstBlock, tokenIds, blockSize } = event;
      const name = (hash: Uint8Array): string => `${group} ${Buffer.from(hash).toString('hex')}`;
      expect(parentHash === null).toBe(firstBlock === 0);
      for (let i = 0; i * 16 < hashes.length; i++) {
        // Each token of a prompt is its own place.
        expect(tokenIds[i * blockSize] % 1000).toBe((firstBlock! + i) * blockSize);
        this.places.set(name(hashes.subarray(16 * i, 16 * i + 16)), firstBlock! + i);
      }
      const parent = parentHash === null ? -1 : this.places.get(name(parentHash));
      if (parent === undefined) this.holes.push(event);
      else expect(parent).toBe(firstBlock! - 1);
    }
  }
}

describe('the place of a block', () => {
  it.each<[holes: boolean, KvGroupOptions[] | undefined]>([
    [false, undefined],
    [false, [{ type: 'full', blockSize: 8 }, { type: 'full' }]],
    [false, [{ type: 'mla' }, { type: 'sink', sinkTokens: 4 }]],
    [false, [{ type: 'full' }, { type: 'sliding', window: 9 }]],
    [false, [{ type: 'full' }, { type: 'chunked', chunk: 8, blockSize: 16 }]],
    [false, [{ type: 'full' }, { type: 'mamba', mode: 'all' }]],
    [
      true,
      [
        { type: 'full', blockSize: 16 },
        { type: 'sliding', window: 4 },
      ],
    ],
    [
      true,
      [
        { type: 'full', blockSize: 16 },
        { type: 'sliding', window: 9 },
      ],
    ],
    [true, [{ type: 'full' }, { type: 'mamba', mode: 'align' }]],
    [
      true,
      [
        { type: 'full', blockSize: 8 },
        { type: 'mamba', mode: 'align' },
      ],
    ],
  ])('is told, also where parents are not stored (%s): %j', (hasHoles, kvGroups) => {
    const reader = new Places();
    const engine = smallEngine(
      { onEvents: (events) => reader.onEvents(events) },
      kvGroups === undefined ? {} : { kvGroups },
    );
    const lengths = [60, 33, 59, 48, 20, 57, 41];
    for (let i = 0; i < 40; i++) {
      // Texts of three kinds, some of which part from their kind behind 24 tokens.
      const prompt = Array.from(
        { length: lengths[i % 7] },
        (_, k) => (i % 3) * 1000 + k + (k > 24 && i % 5 === 0 ? 500_000 : 0),
      );
      engine.submit({ prompt, maxTokens: 1 });
      while (i % 3 === 2 && engine.step().state === 'progress');
    }
    while (engine.step().state === 'progress');
    expect(engine.scheduler.stats().anomalies).not.toHaveProperty('kv-events-failed');
    engine.dispose();
    expect(reader.places.size).toBeGreaterThan(20);
    expect(reader.holes.length > 0).toBe(hasHoles);
    for (const hole of reader.holes) expect(hole).toMatchObject({ group: 1 });
  });
});
