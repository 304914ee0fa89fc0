// An engine over a store, and clients that check every token.
import { expect } from 'vitest';
import { StoreConnector, type StoreOptions, StoreWorker } from '../../../../src/connectors/store/index.js';
import { Engine, type EngineOptions, type Executor, ReferenceExecutor } from '../../../../src/index.js';
import { unpagedText, wordy } from '../../../executors/reference/support.js';
import { Random, settled } from '../../../support/engine-bench.js';
import { PATIENCE_MS, pause } from '../../../support/waiting.js';

export const BLOCK = 4;
export const TOKENS = 9;
const SEED = 3;

/** How an engine over a store is made. */
export interface StoreLife {
  store: StoreOptions;
  numRanks?: number;
  pipelineDepth?: 1 | 2 | 3;
  /** Blocks of the pool. */
  numBlocks?: number;
  hashSeed?: number;
  model?: string;
  stagingBlocks?: number;
  lookupBudgetMs?: number;
  timeoutMs?: number;
  pauseMs?: number;
  /** The clock of the store; default: the real one. */
  now?: () => number;
  engine?: Partial<EngineOptions>;
}

/** Executors of several ranks that compute the same step, each in its own memory: their tokens must agree. */
class AllRanks implements Executor {
  readonly #ranks: readonly ReferenceExecutor[];

  constructor(ranks: readonly ReferenceExecutor[]) {
    this.#ranks = ranks;
  }

  execute: Executor['execute'] = (plan, tables) => {
    const answers = this.#ranks.map((rank) => Promise.resolve(rank.execute(plan, tables)));
    return Promise.all(answers).then((all) => {
      for (const other of all) expect(other).toEqual(all[0]);
      return all[0];
    });
  };

  dispose(): void {
    for (const rank of this.#ranks) rank.dispose();
  }
}

/** An engine with reference executors over a store. */
export function serve(life: StoreLife) {
  const { store, numRanks = 1, pipelineDepth = 1, numBlocks = 41, stagingBlocks = 32 } = life;
  const sizes = { numBlocks, blockSize: BLOCK, maxNumSeqs: 6, maxNumBatchedTokens: 48, maxModelLen: 64 };
  const executors = Array.from(
    { length: numRanks },
    () => new ReferenceExecutor({ ...sizes, pipelineDepth, seed: SEED }),
  );
  const { bytesPerBlock } = executors[0].kv;
  const { lookupBudgetMs = PATIENCE_MS, timeoutMs = PATIENCE_MS, pauseMs = 20 } = life;
  const format = { model: life.model ?? 'words', layout: 'reference', dtype: 'words', bytesPerBlock };
  const times = { timeoutMs, pauseMs, ...(life.now && { now: life.now }) };
  const connector = new StoreConnector({ store, format, numRanks, lookupBudgetMs, ...times });
  const stagingBytes = stagingBlocks * bytesPerBlock;
  const workers = executors.map(
    (memory, rank) => new StoreWorker({ memory, store, rank, stagingBytes, ...times }),
  );
  const engine = new Engine({
    ...{ ...sizes, pipelineDepth, hashSeed: life.hashSeed ?? 7, strict: true },
    loadFailurePolicy: 'recompute',
    executor: numRanks === 1 ? executors[0] : new AllRanks(executors),
    connector,
    workers,
    ...life.engine,
  });
  return { engine, executors, connector, workers };
}

export type Served = ReturnType<typeof serve>;

/** The clients of a life, and their requests. */
export interface Clients {
  seed: number;
  requests: number;
  /** Different prompts. */
  prompts: number;
  /** Share of aborts, in percent. */
  aborts?: number;
  /** Called in every round. */
  onRound?: (round: number) => void | Promise<void>;
}

/** Lets clients come and go until all are served, and checks every token. */
export async function live(served: Served, clients: Clients): Promise<void> {
  const { engine, executors } = served;
  const { requests, aborts = 15 } = clients;
  const random = new Random(clients.seed);
  const prompts = Array.from({ length: clients.prompts }, (_, i) => wordy(13 + 5 * (i % 4), i));
  const texts: Promise<void>[] = [];
  const end = Date.now() + PATIENCE_MS;
  let submitted = 0;
  for (let round = 0; submitted < requests || engine.hasWork(); round++) {
    if (Date.now() > end) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
    await clients.onRound?.(round);
    if (submitted < requests && random.chance(30)) {
      const prompt = prompts[random.below(prompts.length)];
      const stream = engine.submit({ prompt, maxTokens: TOKENS });
      submitted++;
      const isAborted = random.chance(aborts);
      texts.push(
        stream.result().then(({ tokens, finishReason }) => {
          expect([...tokens]).toEqual(unpagedText(prompt, TOKENS, { seed: SEED }).slice(0, tokens.length));
          if (!isAborted) expect(finishReason).toBe('length');
        }),
      );
      if (isAborted) setTimeout(() => stream.abort(), random.below(5));
    }
    const { state } = engine.step();
    await settled();
    if (round % 64 === 0) engine.verify();
    if (state !== 'progress' || random.chance(20)) await pause();
  }
  await Promise.all(texts);
  for (const { faults } of executors) expect(faults).toEqual([]);
  expect(engine.stats().workerFailures).toBe(0);
  expect(engine.stats().scheduler).toMatchObject({ numDraining: 0, rowsInUse: 0 });
  expect(engine.stats().scheduler.anomalies).toEqual({});
}

/** Resolves when the store has all that the engine has given it so far. */
export async function stored({ engine, connector, workers }: Served): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  const numPending = (): number =>
    workers.reduce((sum, worker) => sum + worker.stats().stagingBlocksInUse, connector.stats().store.pending);
  while (numPending() > 0 || engine.hasWork()) {
    if (Date.now() > end) throw new Error(`still on the way: ${JSON.stringify(workers[0].stats())}`);
    engine.step();
    await pause();
  }
}

/** Ends an engine, when its threads have ended too. */
export async function end({ engine }: Served): Promise<void> {
  await engine.shutdown();
  engine.dispose();
  await pause(10);
}
