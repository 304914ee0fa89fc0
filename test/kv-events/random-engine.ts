// An engine with a small pool, driven at random.
import { Random } from '../../src/base/random.js';
import { type OffloadConnector, offload } from '../../src/connectors/offload/index.js';
import type { PlacementOptions } from '../../src/core/placement.js';
import { Engine } from '../../src/engine/engine.js';
import type { EngineOptions } from '../../src/engine/state/options.js';
import { ReferenceExecutor } from '../../src/executors/reference/reference-executor.js';
import type { KvEventSink } from '../../src/scheduler/events/kv-event.js';
import { cachedHashes } from '../support/prefix-hashes.js';
import { schedulerOf } from '../support/scheduler-of.js';

export const BLOCK_SIZE = 4;
const SIZES = {
  numBlocks: 40,
  blockSize: BLOCK_SIZE,
  maxModelLen: 64,
  maxNumSeqs: 8,
  maxNumBatchedTokens: 64,
};

/** The same with a tier in the host's memory, which is small too. */
export function tieredEngine(kvEvents: KvEventSink): { engine: Engine; connector: OffloadConnector } {
  const executor = new ReferenceExecutor({ ...SIZES });
  const { connector, workers } = offload({ memory: executor, hostBlocks: 50 });
  const engine = new Engine({ ...SIZES, executor, connector, workers, kvEvents, hashSeed: 7 });
  return { engine, connector };
}

/** An engine with a small pool, in which prefixes are shared and evicted all the time. */
export function smallEngine(
  kvEvents: KvEventSink,
  { kvGroups, ...more }: PlacementOptions & Pick<EngineOptions, 'kvGroups'> = {},
): Engine {
  const groups = kvGroups === undefined ? {} : { kvGroups };
  const executor = new ReferenceExecutor({ ...SIZES, ...groups });
  return new Engine({ ...SIZES, executor, kvEvents, hashSeed: 7, ...groups, ...more });
}

/** Drives it for so many steps: requests that begin alike, with adapters and salts, aborts, resets of the prefix cache. */
export async function driveRandomly(engine: Engine, numSteps: number, seed: number): Promise<void> {
  const random = new Random(seed);
  const live: string[] = [];
  for (let step = 0; step < numSteps; step++) {
    if (engine.numUnfinished < 12 && random.next() < 0.5) {
      const id = `r${seed}-${step}`;
      const family = random.below(4);
      const prompt = Array.from({ length: 1 + random.below(40) }, (_, i) =>
        i < 24 ? family * 100 + i : random.below(90),
      );
      const stream = engine.submit({
        id,
        prompt,
        maxTokens: 1 + random.below(20),
        ...(random.next() < 0.1 ? { cacheSalt: 'salt' } : {}),
        ...(random.next() < 0.1 ? { adapter: 'lora' } : {}),
      });
      stream.result().catch(() => {});
      live.push(id);
    }
    if (random.next() < 0.05) engine.abort(live.slice(-3));
    if (step % 1000 === 999) engine.resetPrefixCache({ resetRunning: random.next() < 0.5 });
    engine.step();
    if (step % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The different hashes that the engine's prefix cache has, or one KV cache group of it, sorted. */
export function engineHashes(engine: Engine, group?: number): string[] {
  return [...new Set(cachedHashes(schedulerOf(engine), group))].sort();
}
