import { joined } from '../../base/arrays.js';
import { badArgument, show } from '../../base/errors.js';
import type {
  BlockReuse,
  ConnectorOutput,
  InvalidBlock,
  TransferReport,
  WorkerMetadata,
  WorkerOutput,
} from '../../scheduler/connector/connector.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { peer } from '../../scheduler/request/outstanding.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { LoadVerdicts } from './load-verdicts.js';
import type { WorkerMethods } from './worker-methods.js';

/** What the workers reported in one round, each report with the rank that it came from. */
interface Collected {
  finishedReceiving: TransferReport[];
  finishedSending: TransferReport[];
  failedReceiving: TransferReport[];
  renewed: TransferReport[];
  invalidBlocks: InvalidBlock[];
  workerMetadata: WorkerMetadata[];
}

/** Counts a call of a worker that failed: its rank, the method, and what it threw. */
export type CountFailure = (rank: number, method: string, error: unknown) => void;

const LISTS = ['finishedReceiving', 'finishedSending', 'failedReceiving', 'renewed'] as const;
const NO_BLOCKS = new Int32Array(0);

/**
 * The worker sides of the connector, one per rank, called in the order of one step. Whatever a worker does wrong costs the
 * loads that it was to begin, and is counted; a step never fails of it.
 */
export class Workers {
  readonly #scheduler: Scheduler;
  readonly #workers: readonly WorkerMethods[];
  readonly #countFailure: CountFailure;
  /** Handles of the requests that finished since the workers were asked last. */
  #finished: number[] = [];
  /** Handles of those that finished, until the workers get metadata. */
  #ended: number[] = [];
  /** Handles of those that gave their blocks back and whose stores are to be over before the next step. */
  #released: number[] = [];
  /** With protection `fence`: blocks that were taken from the pool, and of which the workers were not told yet. */
  #taken: Int32Array = NO_BLOCKS;
  /** What is to be reported besides what workers say: loads that they failed to begin. */
  #lost: TransferReport[] = [];
  readonly #verdicts = new LoadVerdicts();
  /** Every step up to this one was executed. */
  #settled = -1;
  /** The workers were given all that the connector had for them up to the metadata of this step. */
  #begun = -1;

  /** @param countFailure is told of every call of a worker that threw, or answered what cannot be read */
  constructor(scheduler: Scheduler, workers: readonly WorkerMethods[], countFailure: CountFailure) {
    this.#scheduler = scheduler;
    this.#workers = workers;
    this.#countFailure = countFailure;
  }

  get #isFenced(): boolean {
    return this.#scheduler.config.connector?.protection.includes('fence') === true;
  }

  /** The last step whose metadata the workers were given: what it begins has begun. */
  get begunStep(): number {
    return this.#begun;
  }

  /** Whether they are still to hear of an end: the plan that told of it had no metadata. */
  get owesEnds(): boolean {
    return this.#ended.length > 0;
  }

  /** A plan was made: what changed hands in it has to be told before it is executed, or a later one. */
  planned({ releasedHandles, takenBlocks }: Plan): void {
    if (releasedHandles.length > 0) this.#released = this.#released.concat(releasedHandles);
    if (takenBlocks.length > 0 && this.#isFenced) this.#taken = joined(this.#taken, takenBlocks);
  }

  /**
   * Whether the plan may be executed only behind all steps before it: it loads into blocks that they may still write, or
   * takes blocks whose stores have not begun.
   */
  mustWait({ hasSyncLoads }: Plan): boolean {
    return hasSyncLoads || this.#released.length > 0;
  }

  /**
   * Before the plan is executed, or when it has nothing to execute.
   * @param isFirst every step before it was executed; otherwise what gave its blocks back is left to the next plan
   * @param finishedHandles those that no plan before told of
   */
  begin(plan: Plan, isFirst: boolean, finishedHandles: readonly number[] = plan.finishedHandles): void {
    const { connectorMetadata: metadata, step } = plan;
    if (finishedHandles.length > 0) this.#ended = this.#ended.concat(finishedHandles);
    // With the metadata, and not earlier, they get what the connector has begun for these requests.
    if (!plan.lacksMetadata) {
      this.#begun = step;
      this.#tellEnded();
    }
    const reuse = this.#takeReuse(isFirst);
    // The stores of blocks that were given back are not over yet, and an empty plan may have given those to a load: so that
    // waits until the next plan, before which they are over.
    const times = { step, notBefore: this.#released.length === 0 ? step - 1 : step };
    this.#verdicts.expect(plan, this.#scheduler.config.connector?.reporters ?? []);
    this.#workers.forEach((worker, rank) => {
      const begun = this.#try(rank, 'startLoads', () => {
        worker.handlePreemptions?.(metadata, reuse);
        worker.startLoads?.(metadata, times);
      });
      if (!begun) this.#lose(plan, rank);
    });
  }

  /** Instead of `begin`: the plan will never be executed, and nothing of its metadata begins. */
  skip(finishedHandles: readonly number[]): void {
    this.#ended = this.#ended.concat(finishedHandles);
    this.#tellEnded();
  }

  #tellEnded(): void {
    if (this.#ended.length === 0) return;
    this.#finished = this.#finished.concat(this.#ended);
    this.#ended = [];
  }

  /** After the plan was executed and updated, and before a block that it freed is reused. */
  end(plan: Plan): void {
    const { connectorMetadata: metadata, step } = plan;
    const times = { step, failed: plan.failedHandles() };
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'startStores', () => worker.startStores?.(metadata, times));
    });
  }

  /** Every step up to this one was executed, so that what a freed block was written by is over. */
  settle(step: number): void {
    if (step <= this.#settled) return;
    this.#settled = step;
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'onStepSettled', () => worker.onStepSettled?.(step));
    });
  }

  /** Asks every worker once what ended; null if nothing did. */
  collect(): ConnectorOutput | null {
    const finished = this.#finished;
    if (finished.length > 0) this.#finished = [];
    const all: Collected = {
      finishedReceiving: [],
      finishedSending: [],
      failedReceiving: this.#lost,
      renewed: [],
      invalidBlocks: [],
      workerMetadata: [],
    };
    this.#lost = [];
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'getFinished', () => {
        const output = takeReports(worker.getFinished(finished));
        if (output !== null) this.#add(all, output, rank);
      });
    });
    const count = LISTS.reduce((sum, name) => sum + all[name].length, all.invalidBlocks.length);
    return count + all.workerMetadata.length === 0 ? null : all;
  }

  /**
   * The reports of a round that takes the answer of a step: a rank that has not said by now that a synchronous load of this
   * step is there has failed to load. It may have thrown where it was asked.
   */
  withVerdicts(step: number, output: ConnectorOutput | null): ConnectorOutput | null {
    const silent = this.#verdicts.close(step);
    if (silent.length === 0) return output;
    return { ...output, failedReceiving: [...(output?.failedReceiving ?? []), ...silent] };
  }

  shutdown(): void {
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'shutdown', () => worker.shutdown?.());
    });
  }

  /** What the workers are told of blocks that change hands; nothing, while stores of what was given back have not begun. */
  #takeReuse(isFirst: boolean): BlockReuse {
    if (!isFirst && this.#released.length > 0) return { released: [], taken: NO_BLOCKS };
    const reuse = { released: this.#released, taken: this.#taken };
    this.#released = [];
    this.#taken = NO_BLOCKS;
    return reuse;
  }

  /** Reads a worker's answer as a whole first: a list that cannot be read must not leave half of the others behind. */
  #add(all: Collected, output: WorkerOutput, rank: number): void {
    const lists = LISTS.map((name) => listOf(output, name).map((report) => ({ ...report, rank })));
    const blocks = listOf(output, 'invalidBlocks');
    const { metadata } = output;
    LISTS.forEach((name, i) => {
      all[name].push(...(name === 'finishedReceiving' ? this.#verdicts.take(lists[i]) : lists[i]));
    });
    all.invalidBlocks.push(...blocks);
    if (metadata !== undefined) all.workerMetadata.push({ rank, metadata });
  }

  /** Nobody knows what of the plan's loads this rank has begun: they failed, and those in flight are waited for. */
  #lose({ step, syncLoads }: Plan, rank: number): void {
    // Where the metadata could not be made they are known to be lost.
    for (const { request, child, failed } of syncLoads)
      if (!failed) this.#lost.push({ handle: request.handle, child, rank, step });
    for (const { handle, load, outstanding } of this.#scheduler.inspect().requests) {
      if (load?.step !== step || !outstanding?.has('load', peer(load.child, rank))) continue;
      this.#lost.push({ handle, child: load.child, rank, step });
    }
  }

  #try(rank: number, method: string, call: () => unknown): boolean {
    try {
      call();
      return true;
    } catch (error) {
      this.#countFailure(rank, method, error);
      return false;
    }
  }
}

/** A worker's answer; a promise is none, since nobody waits for it. */
function takeReports(answer: unknown): WorkerOutput | null {
  if (answer === null || answer === undefined) return null;
  if (typeof answer === 'object' && !('then' in answer)) return answer;
  throw badArgument('getFinished()', show(answer), 'an object of lists, or null');
}

function listOf<Name extends Exclude<keyof WorkerOutput, 'metadata'>>(
  output: WorkerOutput,
  name: Name,
): NonNullable<WorkerOutput[Name]> {
  const list: unknown = output[name] ?? [];
  if (Array.isArray(list)) return list as unknown as NonNullable<WorkerOutput[Name]>;
  throw badArgument(`getFinished().${name}`, show(list), 'an array');
}
