// With `fenceFrees`, a connector that loads too early does no harm; without it, it does.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Match } from '../../../src/connector.js';
import type { Request } from '../../../src/index.js';
import type { SchedulerConnector } from '../../../src/scheduler/connector/connector.js';
import type { BlockLists } from '../../../src/scheduler/connector/kv-view.js';
import { CompletionQueue, HostLane } from '../../../src/transfer.js';
import { seeded } from '../../support/core-bench.js';
import { ReferenceDriver, wordy } from './support.js';

const BLOCK = 4;
const TEXTS = [0, 1, 2].map((seed) => wordy(28, seed));

/** Has computed all texts, and keeps their KV. */
class Source {
  readonly driver = new ReferenceDriver({ numBlocks: 64, blockSize: BLOCK, maxNumBatchedTokens: 128 });

  async compute(): Promise<void> {
    for (const [i, prompt] of TEXTS.entries()) this.driver.add({ id: `t${i}`, prompt, maxTokens: 8 });
    await this.driver.step();
  }

  /** Blocks of a text that begins as `prompt` does. */
  blocksOf(prompt: ArrayLike<number>): Int32Array {
    const text = TEXTS.findIndex((all) => Array.from(prompt).every((token, i) => token === all[i]));
    const { scheduler } = this.driver;
    return scheduler.core.blocks(scheduler.get(`t${text}`)?.slot as number);
  }
}

/** A connector that breaks its contract: a load writes while its step is planned, whatever `notBefore` says. */
class EagerConnector {
  driver: ReferenceDriver | null = null;
  numLoads = 0;
  readonly #source: Source;
  readonly #queue = new CompletionQueue();
  #lane: HostLane | null = null;
  readonly #loaded: number[] = [];

  constructor(source: Source) {
    this.#source = source;
  }

  onNewRequest(): void {}
  buildMetadata = () => ({});
  updateConnectorOutput(): void {}
  requestFinished = () => ({ delayFree: false });

  getNumNewMatchedTokens({ handle }: Request, numLocal: number): Match {
    const numTokens = Math.floor((this.#promptOf(handle).length - 1) / BLOCK) * BLOCK - numLocal;
    return { numTokens: Math.max(0, numTokens), async: numTokens > 0 };
  }

  updateStateAfterAlloc({ handle }: Request, [row]: BlockLists, numExternal: number): void {
    if (numExternal === 0) return;
    const { executor } = this.driver as ReferenceDriver;
    this.#lane ??= new HostLane(this.#queue, this.#source.driver.executor.kv, executor.kv);
    const prompt = this.#promptOf(handle);
    const end = Math.floor((prompt.length - 1) / BLOCK);
    const from = end - numExternal / BLOCK;
    const ours = Int32Array.from(row.subarray(from, end));
    const job = this.#lane.submit(this.#source.blocksOf(prompt).slice(from, end), ours);
    this.#lane.flush(Int32Array.of(job));
    executor.adopt(handle, ours);
    this.#loaded.push(handle);
    this.numLoads++;
  }

  /** Says of the loads of the last plan that they are over. */
  report(): void {
    const finishedReceiving = this.#loaded.splice(0).map((handle) => ({ handle }));
    if (finishedReceiving.length > 0) this.driver?.scheduler.updateTransfers({ finishedReceiving });
  }

  dispose(): void {
    this.#lane?.dispose();
  }

  #promptOf(handle: number): ArrayLike<number> {
    return this.driver?.inputs.get(handle)?.prompt ?? [];
  }
}

let source: Source;
beforeAll(async () => {
  source = new Source();
  await source.compute();
});
afterAll(() => source.driver.dispose());

/** The faults of a random life over a small pool, and its events. */
async function live(seed: number, fenceFrees: boolean, aborts: boolean) {
  const next = seeded(seed);
  const connector = new EagerConnector(source);
  using driver = new ReferenceDriver(
    {
      ...{ pipelineDepth: (2 + (seed % 2)) as 2 | 3, numBlocks: 12 + next(8), blockSize: BLOCK, fenceFrees },
      ...{
        maxNumSeqs: 4,
        maxNumBatchedTokens: 40,
        enablePrefixCaching: next(2) === 0,
        reserveFullIsl: false,
      },
      ...{
        policy: (['priority', 'fcfs'] as const)[next(2)],
        connector: connector as unknown as SchedulerConnector,
      },
    },
    { onMismatch: 'report' },
  );
  connector.driver = driver;
  const schedule = (): void => {
    driver.schedule();
    connector.report();
  };
  for (let i = 0; i < 250; i++) {
    const dice = next(100);
    if (dice < 25) {
      const prompt = TEXTS[next(3)].slice(0, 1 + next(20));
      driver.add({ id: `r${i}`, prompt, maxTokens: 4 + next(20), priority: next(3) });
    } else if (dice < 60) {
      if (driver.inFlight.length < driver.scheduler.config.pipelineDepth) schedule();
    } else if (dice < 95) {
      if (driver.inFlight.length > 0) await driver.update();
    } else if (aborts) driver.scheduler.abort(`r${next(i + 1)}`);
  }
  driver.scheduler.abortAll();
  while (driver.inFlight.length > 0) await driver.update();
  const { numPreemptions } = driver.scheduler.stats();
  connector.dispose();
  return { faults: driver.executor.faults, numLoads: connector.numLoads, numPreemptions };
}

const SEEDS = Array.from({ length: 40 }, (_, i) => i);

describe('with fenceFrees, a connector that writes before it may hurts nobody', () => {
  it.each([false, true])('whose blocks it gets, of preempted requests and with aborts %s', async (aborts) => {
    let [loads, preemptions] = [0, 0];
    for (const seed of SEEDS) {
      const life = await live(seed, true, aborts);
      expect(life.faults, `seed ${seed}`).toEqual([]);
      loads += life.numLoads;
      preemptions += life.numPreemptions;
    }
    expect(loads).toBeGreaterThan(10 * SEEDS.length);
    expect(preemptions).toBeGreaterThan(SEEDS.length);
  });

  it.each([false, true])('without it, it does: with aborts %s', async (aborts) => {
    let broken = 0;
    for (const seed of SEEDS) if ((await live(seed, false, aborts)).faults.length > 0) broken++;
    expect(broken).toBeGreaterThan(0);
  });
});
