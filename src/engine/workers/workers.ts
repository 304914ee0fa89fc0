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

/** What all workers reported in one round, each report with the rank that it came from. */
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
 * The worker sides of the connector, one per rank, called in the order of a step: `planned`, `begin`, `end`, `settle`, `collect`.
 * Whatever a worker does wrong is counted, and costs the loads that the worker was to begin; no step fails because of it.
 */
export class Workers {
  readonly #scheduler: Scheduler;
  readonly #workers: readonly WorkerMethods[];
  readonly #countFailure: CountFailure;
  /** Handles of the requests that finished; the next `collect` tells the workers. */
  #finished: number[] = [];
  /** Handles of requests that finished, as long as the workers were not given the metadata that goes with their ends. */
  #ended: number[] = [];
  /** Handles of requests that gave their blocks back and go on: their stores are to be over before the next step is executed. */
  #released: number[] = [];
  /** With protection `fence`: blocks that were taken from the pool, not told to the workers yet. */
  #taken: Int32Array = NO_BLOCKS;
  /** Loads that workers failed to begin: to be reported as failed, besides what the workers report. */
  #lost: TransferReport[] = [];
  readonly #verdicts = new LoadVerdicts();
  /** The last step of which the workers know that it and all before it were executed. */
  #settled = -1;
  /** See `begunStep`. */
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

  /** The last step whose metadata the workers were given: the loads and stores that it asks for have begun. */
  get begunStep(): number {
    return this.#begun;
  }

  /** Whether the workers are still to hear of an end: the plan that told of it had no metadata. */
  get owesEnds(): boolean {
    return this.#ended.length > 0;
  }

  /** Notes the blocks that change hands in a new plan: the workers have to hear of them before this plan, or a later one, is executed. */
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
   * Has the workers begin the loads of a plan. To be called before the plan is executed, or instead if it is empty.
   * @param isFirst every step before the plan was executed; otherwise blocks that were given back are left to the next plan
   * @param finishedHandles requests that finished and that no earlier plan told of
   */
  begin(plan: Plan, isFirst: boolean, finishedHandles: readonly number[] = plan.finishedHandles): void {
    const { connectorMetadata: metadata, step } = plan;
    if (finishedHandles.length > 0) this.#ended = this.#ended.concat(finishedHandles);
    // Workers hear of an end not before they get the metadata: it has what the connector has begun for these requests.
    if (!plan.lacksMetadata) {
      this.#begun = step;
      this.#tellEnded();
    }
    const reuse = this.#takeReuse(isFirst);
    // If stores of blocks that were given back are not over yet, a load of an empty plan may have got these blocks. It waits for the
    // next plan, before which those stores are over.
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

  /** To be called instead of `begin` for a plan that will never be executed: nothing of its metadata begins. */
  skip(finishedHandles: readonly number[]): void {
    this.#ended = this.#ended.concat(finishedHandles);
    this.#tellEnded();
  }

  #tellEnded(): void {
    if (this.#ended.length === 0) return;
    this.#finished = this.#finished.concat(this.#ended);
    this.#ended = [];
  }

  /** Has the workers begin the stores of a plan: after it was executed and updated, before a block that it freed is reused. */
  end(plan: Plan): void {
    const { connectorMetadata: metadata, step } = plan;
    const times = { step, failed: plan.failedHandles() };
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'startStores', () => worker.startStores?.(metadata, times));
    });
  }

  /** Tells the workers that every step up to this one was executed: nothing of these steps writes a block any more. */
  settle(step: number): void {
    if (step <= this.#settled) return;
    this.#settled = step;
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'onStepSettled', () => worker.onStepSettled?.(step));
    });
  }

  /** Asks every worker once which transfers ended. @returns their reports; null if there are none */
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
   * Completes the reports of a round that takes the answer of a step: a rank that has not reported a synchronous load of this step
   * by now has failed to load. It may have thrown when it was asked.
   */
  withVerdicts(step: number, output: ConnectorOutput | null): ConnectorOutput | null {
    const silent = this.#verdicts.close(step);
    if (silent.length === 0) return output;
    return { ...output, failedReceiving: [...(output?.failedReceiving ?? []), ...silent] };
  }

  /** Ends the workers, with the engine. */
  shutdown(): void {
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'shutdown', () => worker.shutdown?.());
    });
  }

  /** Which blocks change hands, for the workers; none while stores of blocks that were given back have not begun. */
  #takeReuse(isFirst: boolean): BlockReuse {
    if (!isFirst && this.#released.length > 0) return { released: [], taken: NO_BLOCKS };
    const reuse = { released: this.#released, taken: this.#taken };
    this.#released = [];
    this.#taken = NO_BLOCKS;
    return reuse;
  }

  /** Adds a worker's reports to those of the others. All lists are read first: if one cannot be read, none of them counts. */
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

  /** Reports all loads of the plan as failed for a rank: it is not known which of them the rank has begun. */
  #lose({ step, syncLoads }: Plan, rank: number): void {
    // If the metadata could not be made, the scheduler knows already that its loads failed.
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

/** A worker's answer; null if it reports nothing. A promise is refused: nobody waits for it. */
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
