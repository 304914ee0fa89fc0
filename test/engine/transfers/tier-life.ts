// Random lives of engines over a tier.
import { describe, expect, it } from 'vitest';
import type {
  BlockLists,
  ConnectorOutput,
  Finished,
  HandOver,
  Match,
  SchedulerConnector,
  WorkerConnector,
  WorkerStep,
} from '../../../src/connector.js';
import {
  Anomalies,
  Engine,
  ReferenceExecutor,
  type ReferenceExecutorOptions,
  type Request,
} from '../../../src/index.js';
import { carryRules } from '../../../src/scheduler/options/single-rules.js';
import type { FinishReason } from '../../../src/scheduler/request/status.js';
import { BlockArena, CompletionQueue, type Lane, Verdict } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { Random } from '../../support/engine-bench.js';
import { LaneJobs } from '../../support/lane-jobs.js';

const BLOCK_SIZE = 4;
/** A step that is never settled. */
const NEVER = Number.MAX_SAFE_INTEGER;
const NUM_CLIENTS = 50;

/** One transfer: blocks of the device and of the tier. */
interface Copy {
  handle: number;
  device: number[];
  tier: number[];
}

interface Metadata {
  loads: Copy[];
  stores: Copy[];
}

/** The places of the KV memory and the tier, and the lanes between them. */
export interface Tiers {
  executor: Pick<ReferenceExecutorOptions, 'device' | 'defer'>;
  place: 'host' | 'pinned';
  makeLane(queue: CompletionQueue, source: BlockArena, target: BlockArena): Lane;
}

/** Bugs that are planted in the worker. `loads at once` is none with the rule `fenceFrees`: it is how vLLM's workers load. */
type Bug =
  | 'none'
  | 'loads at once'
  | 'skips'
  | 'one block short'
  | 'wrong blocks'
  | 'reports before it is over'
  | 'declares nothing';

/**
 * Stores the prompts of requests that finished in a tier, and loads them for others that begin
 * alike. Both sides of a connector are one object, over real lanes.
 */
class TierConnector implements SchedulerConnector<Metadata>, WorkerConnector<Metadata> {
  readonly protection = 'own';
  readonly prompts = new Map<string, Int32Array>();
  readonly anomalies = new Anomalies(true);
  readonly queue = new CompletionQueue({ capacity: 64, anomalies: this.anomalies });
  readonly jobs = new LaneJobs();
  readonly tier: BlockArena;
  readonly out: Lane;
  readonly back: Lane;
  numLoads = 0;
  numStores = 0;
  /** Block of the tier by prefix. */
  readonly #stored = new Map<string, number>();
  readonly #storing = new Map<number, Copy>();
  readonly #keys = new Map<number, string[]>();
  readonly #executor: ReferenceExecutor;
  readonly #bug: Bug;
  #nextBlock = 0;
  #next: Metadata = { loads: [], stores: [] };
  #reportNow: number[] = [];

  constructor(executor: ReferenceExecutor, bug: Bug, { place, makeLane }: Tiers) {
    this.#executor = executor;
    this.#bug = bug;
    const { bytesPerBlock } = executor.kv;
    this.tier = BlockArena.allocate({ numBlocks: 4096, bytesPerBlock, place });
    this.out = makeLane(this.queue, executor.kv, this.tier);
    this.back = makeLane(this.queue, this.tier, executor.kv);
  }

  /** Whether blocks are still to go to the tier. */
  get isStoring(): boolean {
    return this.#storing.size > 0;
  }

  // The scheduler's side.

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const from = Math.floor(numLocalTokens / BLOCK_SIZE);
    const until = this.#lookUp(request.id, from).length + from;
    // The last token is computed, so that there is something to sample from.
    const numTokens = Math.min(until * BLOCK_SIZE, request.numTokens - 1) - numLocalTokens;
    return numTokens > 0 ? { numTokens, async: true } : { numTokens: 0, async: false };
  }

  updateStateAfterAlloc(request: Request, [blocks]: BlockLists, numExternalTokens: number): void {
    if (numExternalTokens === 0) return;
    const known = this.#lookUp(request.id, 0);
    const end = Math.ceil(Math.min(known.length * BLOCK_SIZE, request.numTokens - 1) / BLOCK_SIZE);
    const from = end - Math.ceil(numExternalTokens / BLOCK_SIZE);
    const device = [...blocks.subarray(from, end)];
    this.#next.loads.push({ handle: request.handle, device, tier: known.slice(from, end) });
  }

  buildMetadata(): Metadata {
    const next = this.#next;
    this.#next = { loads: [], stores: [] };
    return next;
  }

  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    const prompt = this.prompts.get(request.id)!;
    const [blocks] = handOver.blocks;
    const count = Math.floor(Math.min(prompt.length, handOver.numSettledTokens) / BLOCK_SIZE);
    if (reason === 'abort' || count === 0 || blocks.length < count) return { delayFree: false };
    // Blocks that go nowhere are free while a step in flight still writes what comes behind the end.
    if (this.#bug === 'loads at once' && request.handle % 3 > 0) return { delayFree: false };
    const device = [...blocks.subarray(0, count)];
    const tier = device.map(() => this.#nextBlock++);
    const copy = { handle: request.handle, device, tier };
    this.#next.stores.push(copy);
    this.#storing.set(request.handle, copy);
    this.#keys.set(request.handle, keysOf(prompt));
    return { delayFree: true };
  }

  hasPendingWork(): boolean {
    return this.jobs.size > 0;
  }

  // The worker's side.

  startLoads(metadata: Metadata | undefined, { notBefore }: WorkerStep): void {
    const { loads, stores } = metadata as Metadata;
    this.#store(stores);
    for (const { handle, device, tier } of loads) {
      this.numLoads++;
      const targets = this.#bug === 'one block short' ? device.slice(0, -1) : device;
      const sources = this.#bug === 'wrong blocks' ? [...tier.slice(1), tier[0] + 1] : tier;
      if (this.#bug === 'skips') {
        this.#executor.adopt(handle, Int32Array.from(device));
        this.#reportNow.push(handle);
        continue;
      }
      // Reported at once, and not begun while a step can read the KV that it was to load.
      const early = this.#bug === 'reports before it is over';
      const job = this.back.submit(
        Int32Array.from(sources.slice(0, targets.length)),
        Int32Array.from(targets),
        early ? NEVER : this.#bug === 'loads at once' ? -1 : notBefore,
      );
      this.jobs.add(this.queue, job, { handle, kind: 'load', blocks: Int32Array.from(device) });
      if (early) this.#reportNow.push(handle);
      // The step in flight is computed later.
      if (this.#bug === 'loads at once') this.back.flush(Int32Array.of(job));
    }
  }

  onStepSettled(step: number): void {
    this.back.settle(step);
  }

  getFinished(finished: readonly number[]): ConnectorOutput {
    if (this.#bug === 'reports before it is over') {
      for (const handle of finished) for (const { job } of this.jobs.of(handle)) this.back.cancel(job);
    }
    const finishedReceiving = this.#reportNow.splice(0).map((handle) => ({ handle }));
    const finishedSending: { handle: number }[] = [];
    this.queue.drain((number, verdict) => {
      const job = this.jobs.complete(this.queue, number);
      if (this.#bug === 'reports before it is over' && job.kind === 'load') return;
      if (verdict !== Verdict.ok) throw new Error(`job ${number} ended with ${verdict}`);
      if (job.kind === 'load') {
        if (this.#bug !== 'declares nothing') this.#executor.adopt(job.handle, job.blocks);
        finishedReceiving.push({ handle: job.handle });
        return;
      }
      const { tier } = this.#storing.get(job.handle)!;
      this.#storing.delete(job.handle);
      const keys = this.#keys.get(job.handle)!;
      for (const [i, block] of tier.entries())
        if (!this.#stored.has(keys[i])) this.#stored.set(keys[i], block);
      finishedSending.push({ handle: job.handle });
    });
    this.anomalies.throwFirst();
    return { finishedReceiving, finishedSending };
  }

  shutdown(): void {
    this.out.dispose();
    this.back.dispose();
  }

  /**
   * Of requests that finished before the step was planned, so the KV that they computed is there.
   */
  #store(stores: readonly Copy[]): void {
    for (const { handle, device, tier } of stores) {
      this.numStores++;
      const job = this.out.submit(Int32Array.from(device), Int32Array.from(tier));
      this.jobs.add(this.queue, job, { handle, kind: 'store', blocks: Int32Array.from(device) });
    }
  }

  /** Blocks of the tier that hold the prompt from a block on, without a gap. */
  #lookUp(id: string, from: number): number[] {
    const found: number[] = [];
    for (const key of keysOf(this.prompts.get(id)!).slice(from)) {
      const block = this.#stored.get(key);
      if (block === undefined) break;
      found.push(block);
    }
    return found;
  }
}

/** One key for each full block of a text: all of it up to there. */
function keysOf(text: Int32Array): string[] {
  return Array.from({ length: Math.floor(text.length / BLOCK_SIZE) }, (_, i) =>
    text.subarray(0, (i + 1) * BLOCK_SIZE).join(),
  );
}

interface Outcome {
  engine: Engine;
  connector: TierConnector;
  faults: string[];
  wrongTexts: number;
}

/**
 * Requests with beginnings in common, over an engine with a pool that is too small for all of them.
 * The second half of them comes when every transfer of the first half is over. So there is
 * something to load, however slow the lanes are.
 */
async function live(
  seed: number,
  options: { pipelineDepth: 1 | 2 | 3; caching: boolean; fenceFrees?: boolean },
  bug: Bug,
  tiers: Tiers,
): Promise<Outcome> {
  const random = new Random(seed);
  const { pipelineDepth, caching, fenceFrees = false } = options;
  const sizes = { numBlocks: 40, blockSize: BLOCK_SIZE, maxNumSeqs: 5, maxModelLen: 64, pipelineDepth };
  const executor = new ReferenceExecutor({
    ...sizes,
    onMismatch: 'report',
    ...tiers.executor,
  });
  const connector = new TierConnector(executor, bug, tiers);
  const engine = new Engine({
    ...sizes,
    executor,
    connector,
    workers: [connector],
    enablePrefixCaching: caching,
    ...carryRules({ fenceFrees }),
    hashSeed: 3,
    strict: bug === 'none',
  });
  void engine.run();
  let wrongTexts = 0;
  const client = async (n: number): Promise<void> => {
    for (let i = 0; i < 6 * (n % (NUM_CLIENTS / 2)); i++) await turn();
    const prompt = wordy(6 + random.below(24), random.below(3));
    const id = `r${n}`;
    connector.prompts.set(id, prompt);
    const maxTokens = 1 + random.below(8);
    const stream = engine.submit({ id, prompt, maxTokens });
    if (random.chance(bug === 'loads at once' ? 50 : 10)) {
      for (let i = random.below(8); i > 0; i--) await turn();
      stream.abort();
    }
    const { tokens, finishReason } = await stream.result();
    const expected = unpagedText(prompt, tokens.length);
    if (tokens.some((token, i) => token !== expected[i])) wrongTexts++;
    if (finishReason === 'length' && tokens.length !== maxTokens) wrongTexts++;
  };
  const clients = Array.from({ length: NUM_CLIENTS }, (_, n) => n);
  for (const half of [clients.slice(0, NUM_CLIENTS / 2), clients.slice(NUM_CLIENTS / 2)]) {
    await Promise.all(half.map(client));
    while (connector.isStoring || connector.jobs.size > 0) await turn();
  }
  await engine.shutdown({ drainMs: 5000 });
  return { engine, connector, faults: executor.faults.map(({ kind }) => kind), wrongTexts };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Lives over these tiers, all right or with a bug in the worker. */
export function describeTierLife(tiers: Tiers): void {
  describe('KV that goes to a tier and comes back while the engine works', () => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      for (const caching of [true, false]) {
        it(`is right in every step (depth ${pipelineDepth}, ${caching ? 'with' : 'without'} a prefix cache)`, async () => {
          for (const seed of [1, 2]) {
            const { connector, faults, wrongTexts } = await live(
              seed,
              { pipelineDepth, caching },
              'none',
              tiers,
            );
            expect(faults).toEqual([]);
            expect(wrongTexts).toBe(0);
            expect(connector.numStores).toBeGreaterThan(15);
            expect(connector.numLoads).toBeGreaterThan(caching ? 2 : 15);
            expect([connector.jobs.size, connector.queue.inFlight]).toEqual([0, 0]);
          }
        });
      }
    }

    it.each([
      ['skips', ['unwritten-read']],
      ['one block short', ['unwritten-read']],
      ['wrong blocks', ['foreign-read']],
      ['declares nothing', ['unexpected-load']],
      // The copy reads the content from before the load.
      ['reports before it is over', ['unwritten-read', 'foreign-read', 'stale-read']],
    ] as const)('and a worker that %s is found out', async (bug, kinds) => {
      const { faults, connector } = await live(3, { pipelineDepth: 2, caching: false }, bug, tiers);
      expect(connector.numLoads).toBeGreaterThan(5);
      expect(faults.filter((kind) => (kinds as readonly string[]).includes(kind))).not.toEqual([]);
    });
  });
}

/** A device that computes a step only now and then. @returns the `defer` option of an executor */
function slowDevice(): { defer: (compute: () => void) => void } {
  const waiting: (() => void)[] = [];
  let ticks = 0;
  const tick = (): void => {
    if (++ticks % 4 === 0) waiting.shift()?.();
    if (waiting.length > 0) setImmediate(tick);
  };
  return {
    defer: (compute) => {
      if (waiting.push(compute) === 1) setImmediate(tick);
    },
  };
}

/** Lives on the host with the rule `fenceFrees`, and a worker that loads into blocks at once, as vLLM's do. */
export function describeFencedLife(tiers: Tiers): void {
  const live3 = async (options: { pipelineDepth: 2 | 3; caching: boolean; fenceFrees: boolean }) => {
    const lives: Outcome[] = [];
    for (const seed of [1, 2, 3])
      lives.push(await live(seed, options, 'loads at once', { ...tiers, executor: slowDevice() }));
    return lives;
  };
  describe.each([2, 3] as const)(
    'KV that is loaded while steps are in flight, at depth %i',
    (pipelineDepth) => {
      it.each([true, false])('is right with fenceFrees (a prefix cache: %s)', async (caching) => {
        const lives = await live3({ pipelineDepth, caching, fenceFrees: true });
        for (const life of lives) expect([life.faults, life.wrongTexts]).toEqual([[], 0]);
        const numLoads = lives.reduce((sum, { connector }) => sum + connector.numLoads, 0);
        expect(numLoads).toBeGreaterThan(caching ? 2 : 15);
      });

      it('is found to be written over without fenceFrees', async () => {
        const lives = await live3({ pipelineDepth, caching: false, fenceFrees: false });
        const faults = lives.flatMap((life) => life.faults);
        expect(faults.filter((kind) => kind === 'foreign-read')).not.toEqual([]);
      });
    },
  );
}
