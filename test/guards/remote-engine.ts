import type {
  BlockReuse,
  ConnectorOutput,
  StoreStep,
  WorkerConnector,
  WorkerStep,
} from '../../src/connector.js';
import {
  Engine,
  type EngineOptions,
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
  type RequestStream,
  type StepTables,
  type SubmitInput,
} from '../../src/index.js';
import type { Script } from '../support/connector/scripted-connector.js';
import { prompt } from '../support/driver.js';
import { settled } from '../support/engine-bench.js';
import { mix } from '../support/fake-model.js';
import { RemoteConnector, type RemoteLoad } from './remote.js';

/** The answer of a row that read wrong KV. */
export const WRONG = 999_999;

/** The work of one row of a step, as its tables showed it when it was submitted. */
interface Row {
  id: string;
  blocks: Int32Array;
  from: number;
  to: number;
  samples: boolean;
}

/**
 * An executor with KV memory, one plane per rank. It writes a step's KV when the step is delivered, as a GPU does, and not when
 * the step is submitted. Each row reads back the KV of its computed tokens; a row that reads wrong KV answers `WRONG`.
 */
export class KvExecutor implements Executor {
  readonly usesTables = true;
  readonly planes: Int32Array[];
  readonly prompts = new Map<string, Int32Array>();
  /** Runs in place of the next step, and returns that step's answer. */
  plant: (() => ExecutorResult | never) | null = null;
  /** Steps and loads in the order in which they touched memory. */
  readonly log: string[] = [];
  readonly pending: { run: () => ExecutorResult; resolve: (result: ExecutorResult) => void }[] = [];
  readonly #blockSize: number;
  readonly #prints = new Map<string, number[]>();

  constructor(numBlocks: number, blockSize: number, ranks: number) {
    this.#blockSize = blockSize;
    this.planes = Array.from({ length: ranks }, () => new Int32Array(numBlocks * blockSize).fill(-1));
  }

  execute(plan: ExecutorPlan, tables: StepTables | null): Promise<ExecutorResult> {
    const { step } = plan;
    const width = (tables as StepTables).maxBlocksPerRow;
    const rows = plan.requests.slice(0, plan.numRequests).map(({ id }, i): Row => {
      const [from, n] = [plan.numComputedTokens[i], plan.numScheduledTokens[i]];
      const blocks = (tables as StepTables).blockTable.slice(i * width, i * width + plan.numBlocks[i]);
      return { id, blocks, from, to: from + n, samples: plan.maxOutputTokens[i] > 0 };
    });
    return new Promise((resolve) => {
      this.pending.push({ run: () => this.#run(step, rows), resolve });
    });
  }

  /** Computes the oldest steps, and answers them. */
  async deliver(count = 1): Promise<void> {
    for (const { run, resolve } of this.pending.splice(0, count)) {
      const { plant } = this;
      this.plant = null;
      if (plant === null) resolve(run());
      else resolve(new Promise<ExecutorResult>((settle) => settle(plant())) as unknown as ExecutorResult);
    }
    await settled();
  }

  /** The KV of positions of a request, into one plane. */
  write(plane: number, id: string, blocks: Int32Array, from: number, to: number): void {
    for (let p = from; p < to; p++) this.planes[plane][this.#slot(blocks, p)] = this.#print(id, p);
  }

  /** The text that a request gets if nothing goes wrong. */
  text(id: string, count: number): number[] {
    const from = (this.prompts.get(id) as Int32Array).length;
    return Array.from({ length: count }, (_, i) => this.#token(id, from + i));
  }

  #run(step: number, rows: readonly Row[]): ExecutorResult {
    this.log.push(`step ${step}`);
    // All of the step is written before any of it is read, since a row may share what another one writes.
    rows.forEach(({ id, blocks, from, to }) => {
      for (let plane = 0; plane < this.planes.length; plane++) this.write(plane, id, blocks, from, to);
    });
    const tokens: number[] = [];
    for (const row of rows) {
      if (row.samples) tokens.push(this.#reads(row) ? this.#token(row.id, row.to) : WRONG);
    }
    const counts = Int32Array.from(rows, ({ samples }) => (samples ? 1 : 0));
    return { tokens: Int32Array.from(tokens), counts };
  }

  #reads({ id, blocks, from }: Row): boolean {
    for (const plane of this.planes) {
      for (let p = 0; p < from; p++) if (plane[this.#slot(blocks, p)] !== this.#print(id, p)) return false;
    }
    return true;
  }

  #slot(blocks: Int32Array, position: number): number {
    return blocks[Math.floor(position / this.#blockSize)] * this.#blockSize + (position % this.#blockSize);
  }

  #token(id: string, position: number): number {
    const given = this.prompts.get(id) as Int32Array;
    return position < given.length ? given[position] : 1 + (mix(given[0], position) % 1000);
  }

  #print(id: string, position: number): number {
    const prints = this.#prints.get(id) ?? [];
    this.#prints.set(id, prints);
    for (let p = prints.length; p <= position; p++)
      prints.push(mix(p === 0 ? 1 : prints[p - 1], this.#token(id, p)));
    return prints[position];
  }
}

/** Writes what it is told to load into the plane of its rank, when the test lets it land and the contract allows it. */
export class RemoteWorker implements WorkerConnector<{ loads: readonly RemoteLoad[] }> {
  readonly calls: string[] = [];
  /** Steps that had loads, with the reports about them. */
  readonly begun: { step: number; notBefore: number; ids: string[] }[] = [];
  /** Handles of the requests that finished, as the worker received them. */
  readonly finished: number[] = [];
  /** Further reports of its next answer, besides loads that ended. */
  extra: ConnectorOutput[] = [];
  /** Called first in each method; may throw. */
  during: (method: string) => void = () => {};
  /** Handles that were reported as requests for which a step computed nothing. */
  readonly unstored: number[] = [];
  /** Blocks that steps took from the pool, as the worker received them. */
  readonly taken: number[][] = [];
  /** The handles of `unstored`, by step. */
  readonly unstoredIn = new Map<number, number[]>();
  /** Requests whose loads load nothing, and are reported as failed. */
  readonly spoiled = new Set<string>();
  /** Answers instead of it, where it answers anything. */
  instead: (() => unknown) | null = null;
  /** A hasty worker does not wait for the steps that still write a load's blocks. */
  hasty = false;
  readonly #kv: KvExecutor;
  readonly #plane: number;
  readonly #loads: { load: RemoteLoad; notBefore: number; landed: boolean }[] = [];
  #settled = -1;
  #done: RemoteLoad[] = [];
  #failed: RemoteLoad[] = [];

  constructor(kv: KvExecutor, plane: number) {
    this.#kv = kv;
    this.#plane = plane;
  }

  handlePreemptions(_metadata: unknown, { released, taken }: BlockReuse): void {
    this.#called('handlePreemptions', released.join());
    this.taken.push([...taken]);
  }

  startLoads(metadata: { loads: readonly RemoteLoad[] } | undefined, { step, notBefore }: WorkerStep): void {
    this.#called('startLoads', step);
    const { loads } = metadata ?? { loads: [] };
    if (loads.length > 0) this.begun.push({ step, notBefore, ids: loads.map(({ id }) => id) });
    for (const load of loads) {
      if (load.async) this.#loads.push({ load, notBefore, landed: false });
      else {
        if (this.spoiled.has(load.id)) this.#failed.push(load);
        else this.#write(load);
        this.#done.push(load);
      }
    }
  }

  startStores(_metadata: unknown, { step, failed }: StoreStep): void {
    this.#called('startStores', step);
    this.unstored.push(...failed);
    if (failed.length > 0) this.unstoredIn.set(step, [...failed]);
  }

  onStepSettled(step: number): void {
    this.#called('onStepSettled', step);
    this.#settled = step;
    this.#advance();
  }

  getFinished(finished: readonly number[]): ConnectorOutput | null {
    this.during('getFinished');
    const planted = this.instead?.();
    if (planted !== undefined) return planted as ConnectorOutput;
    this.finished.push(...finished);
    const [done, failed] = [this.#done, this.#failed].map((loads) =>
      loads.map(({ handle, child, step }) => ({ handle, child, step })),
    );
    const [extra] = this.extra.splice(0, 1);
    this.#done = [];
    this.#failed = [];
    if (done.length + failed.length === 0 && extra === undefined) return null;
    return {
      ...extra,
      finishedReceiving: [...done, ...(extra?.finishedReceiving ?? [])],
      failedReceiving: [...failed, ...(extra?.failedReceiving ?? [])],
    };
  }

  shutdown(): void {
    this.#called('shutdown', '');
  }

  /** The bytes of a request's load have come. */
  land(id: string): void {
    for (const each of this.#loads) if (each.load.id === id) each.landed = true;
    this.#advance();
  }

  #advance(): void {
    for (const each of [...this.#loads]) {
      const { load, notBefore, landed } = each;
      if (!landed || (!this.hasty && notBefore > this.#settled)) continue;
      this.#loads.splice(this.#loads.indexOf(each), 1);
      if (this.spoiled.has(load.id)) this.#failed.push(load);
      else this.#write(load);
      this.#done.push(load);
    }
  }

  #write({ id, blocks, from, to }: RemoteLoad): void {
    this.#kv.log.push(`load ${id} on rank ${this.#plane}`);
    this.#kv.write(this.#plane, id, blocks, from, to);
  }

  #called(method: string, what: string | number): void {
    this.calls.push(`${method} ${what}`.trim());
    this.during(method);
  }
}

/** An engine over an executor with KV memory, a remote connector, and one worker a rank. */
export class RemoteEngine {
  readonly engine: Engine;
  readonly kv: KvExecutor;
  readonly connector: RemoteConnector;
  readonly workers: RemoteWorker[];
  time = 1000;

  constructor(
    scripts: Record<string, Script>,
    options: Partial<EngineOptions> & { ranks?: number; protection?: 'own' | 'pin' | 'fence' } = {},
  ) {
    const { ranks = 1, protection = 'own', ...rest } = options;
    const { numBlocks = 33, blockSize = 4 } = rest;
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    this.kv = new KvExecutor(numBlocks, blockSize, ranks);
    this.connector = new RemoteConnector(scripts, { reporters: [all], protection });
    this.workers = all.map((rank) => new RemoteWorker(this.kv, rank));
    this.engine = new Engine({
      numBlocks,
      blockSize,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 64,
      maxModelLen: 64,
      hashSeed: 7,
      executor: this.kv,
      connector: this.connector,
      workers: this.workers,
      now: () => this.time,
      ...rest,
    });
  }

  submit(input: Partial<SubmitInput> & { id: string }): RequestStream {
    const full = { prompt: prompt(9), maxTokens: 4, ...input };
    this.kv.prompts.set(full.id, Int32Array.from(full.prompt));
    const stream = this.engine.submit(full);
    stream.result().catch(() => {});
    return stream;
  }

  /** Steps until nothing moves by itself. @returns the state that it ended in */
  steps(most = 50): string {
    for (let i = 0; i < most; i++) {
      const { state } = this.engine.step();
      this.engine.verify();
      if (state !== 'progress') return state;
    }
    throw new Error('it never rests');
  }

  /** Steps and answers until there is nothing left to do, or the executor has nothing to answer. */
  async finish(most = 200): Promise<string> {
    for (let i = 0; i < most; i++) {
      const state = this.steps();
      if (state !== 'waiting') return state;
      await this.kv.deliver();
    }
    throw new Error('it never ends');
  }

  /** Every rank has the bytes of a request's load. */
  land(id: string): void {
    for (const worker of this.workers) worker.land(id);
  }

  /** Every rank reports the request as sent, with its next answer. */
  send({ handle }: RequestStream): void {
    for (const worker of this.workers) worker.extra.push({ finishedSending: [{ handle }] });
  }

  get free(): number {
    return this.engine.stats().scheduler.freeBlocks;
  }

  get anomalies(): Record<string, number> {
    return this.engine.stats().scheduler.anomalies;
  }

  blocks({ handle }: RequestStream): number[] {
    const { scheduler } = this.engine;
    return [...scheduler.core.blocks(scheduler.getByHandle(handle)?.slot as number)];
  }
}
