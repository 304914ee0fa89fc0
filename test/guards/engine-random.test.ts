// Random lives of an engine whose loads land and fail at any time.
import { describe, expect, it } from 'vitest';
import type { RequestStream } from '../../src/index.js';
import type { Script } from '../support/connector/scripted-connector.js';
import { prompt, Random } from '../support/driver.js';
import { leftovers } from '../support/engine-bench.js';
import { RemoteEngine } from './remote-engine.js';

const KINDS: readonly Script[] = [
  {},
  { ext: 8 },
  { ext: 6 },
  { ext: 8, async: true, oneshot: true },
  { ext: 7, async: true, oneshot: true },
  { ext: 8, async: true, oneshot: true, delayFree: true, delayAbort: true },
  { delayFree: true },
  { delayFree: true, delivers: true },
];
const MOST = 60;

/** A life of an engine over memory that loads write: loads land and fail at any time, requests are aborted at any time. */
async function live(seed: number): Promise<void> {
  const random = new Random(seed);
  const pipelineDepth = (1 + (seed % 3)) as 1 | 2 | 3;
  const scripts = Object.fromEntries(
    Array.from({ length: MOST }, (_, i) => [`r${i}`, KINDS[random.below(KINDS.length)]]),
  );
  const bench = new RemoteEngine(scripts, {
    pipelineDepth,
    ranks: 2,
    numBlocks: 16 + random.below(16),
    loadFailurePolicy: seed % 2 === 0 ? 'recompute' : 'fail',
    reserveFullIsl: random.chance(50),
    longPrefillTokenThreshold: random.chance(30) ? 4 : 0,
    deadlines: false,
  });
  const streams: RequestStream[] = [];
  const unsent = new Set<string>();
  for (const id of Object.keys(scripts)) {
    if (!random.chance(15)) continue;
    for (const worker of bench.workers) if (random.chance(60)) worker.spoiled.add(id);
  }
  const counts = new Map<string, number>();
  const settle = (): void => {
    for (const rank of [0, 1]) {
      const worker = bench.workers[rank];
      for (const handle of worker.finished.splice(0)) unsent.add(`${rank} ${handle}`);
    }
    for (const key of [...unsent]) {
      if (!random.chance(40)) continue;
      const [rank, handle] = key.split(' ').map(Number);
      const uses = bench.engine.scheduler.getByHandle(handle)?.outstanding?.describe() ?? [];
      unsent.delete(key);
      if (uses.includes(`store:child 0 rank ${rank}`))
        bench.workers[rank].extra.push({ finishedSending: [{ handle }] });
    }
    for (const worker of bench.workers) {
      for (const { id } of streams) if (random.chance(30)) worker.land(id);
    }
  };
  const round = async (): Promise<void> => {
    bench.engine.step();
    bench.engine.verify();
    if (random.chance(60)) await bench.kv.deliver();
    settle();
  };
  while (streams.length < MOST) {
    if (random.chance(40)) {
      const id = `r${streams.length}`;
      const maxTokens = 1 + random.below(9);
      counts.set(id, maxTokens);
      streams.push(bench.submit({ id, prompt: prompt(9 + random.below(12), random.below(3)), maxTokens }));
    }
    if (random.chance(5) && streams.length > 0) streams[random.below(streams.length)].abort();
    if (random.chance(1)) bench.engine.resetPrefixCache({ resetRunning: true });
    await round();
  }
  for (let i = 0; bench.engine.hasWork(); i++) {
    if (i === 3000)
      throw new Error(`seed ${seed} never ends: ${JSON.stringify(bench.engine.stats().scheduler)}`);
    await round();
  }
  let whole = 0;
  for (const stream of streams) {
    const result = await stream.result().catch((error: unknown) => error as Error);
    if (result instanceof Error) {
      expect(result.message).toMatch(/its KV could not be loaded/);
      continue;
    }
    const right = bench.kv.text(stream.id, counts.get(stream.id) as number);
    expect([...result.tokens]).toEqual(right.slice(0, result.tokens.length));
    if (result.finishReason === 'abort') continue;
    expect(result.tokens).toHaveLength(right.length);
    whole++;
  }
  expect(whole).toBeGreaterThan(MOST / 3);
  expect(bench.anomalies).toEqual({});
  expect(bench.engine.stats().workerFailures).toBe(0);
  expect(leftovers(bench.engine)).toEqual([]);
}

describe('an engine whose connector loads, fails and sends at random', () => {
  for (const first of [0, 10, 20]) {
    it(`says what it would say alone, and leaves nothing behind: seeds ${first} to ${first + 9}`, async () => {
      for (let seed = first; seed < first + 10; seed++) {
        try {
          await live(seed);
        } catch (error) {
          throw new Error(`seed ${seed}`, { cause: error });
        }
      }
    });
  }
});
