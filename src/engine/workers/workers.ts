import { joined } from '../../base/arrays.js';
import { ChildrenError } from '../../scheduler/connector/children-error.js';
import type {
  BlockReuse,
  ConnectorOutput,
  InvalidBlock,
  TransferReport,
  WorkerMetadata,
} from '../../scheduler/connector/connector.js';
import { parseWorkerOutput, TRANSFER_LISTS } from '../../scheduler/connector/connector-output.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { peer } from '../../scheduler/request/outstanding.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { LoadVerdicts } from './load-verdicts.js';
import type { WorkerMethods } from './worker-methods.js';

/** The reports of all workers in one round, each with its worker's rank. */
interface Collected extends Record<(typeof TRANSFER_LISTS)[number], TransferReport[]> {
  invalidBlocks: InvalidBlock[];
  workerMetadata: WorkerMetadata[];
}

/** Counts a failed call of a worker: the rank, the method, and the error. */
export type CountFailure = (rank: number, method: string, error: unknown) => void;

const NO_BLOCKS = new Int32Array(0);
const NO_REUSE: BlockReuse = Object.freeze({ released: Object.freeze([]), taken: NO_BLOCKS });

/**
 * The worker sides of the connector, one per rank, called in the order of a step: `planned`,
 * `begin`, `end`, `settle`, `collect`. An error of a worker is counted, and fails the loads that
 * the worker should have begun; no step fails because of it.
 */
export class Workers {
  readonly #scheduler: Scheduler;
  readonly #workers: readonly WorkerMethods[];
  readonly #countFailure: CountFailure;
  /** Whether a worker must be notified of steps whose blocks can be stored. */
  readonly #hasStores: boolean;
  /** Handles of finished requests that the next `collect` tells the workers. */
  #finished: number[] = [];
  /** Handles of finished requests whose ends wait for the connector metadata that goes with them. */
  #ended: number[] = [];
  /**
   * Handles of requests that released their blocks and continue. Their stores must end before the
   * next step is executed.
   */
  #released: number[] = [];
  /**
   * Ids of blocks taken from the pool that have not been reported to the workers yet; see
   * `BlockReuse.taken`.
   */
  #taken: Int32Array = NO_BLOCKS;
  /**
   * Blocks that requests dropped while they continue (`Plan.droppedBlocks`), as long as the stores
   * of step `behind` or an earlier one have not begun.
   */
  #dropped: { readonly behind: number; readonly blocks: ReadonlySet<number> }[] = [];
  /**
   * A plan took one of these blocks. It is executed only when every earlier step was, and the
   * block's stores have begun.
   */
  #takesDropped = false;
  /** The last plan with tokens, and the last one that has ended. */
  #planned = -1;
  #lastEnded = -1;
  /** Loads that workers failed to begin; the next `collect` reports them as failed. */
  #lost: TransferReport[] = [];
  readonly #verdicts = new LoadVerdicts();
  /**
   * The last step that was reported to the workers as settled: it and all earlier steps were
   * executed.
   */
  #settled = -1;
  /** See `begunStep`. */
  #begun = -1;

  /**
   * @param countFailure called for every call of a worker that threw, or returned reports that
   * cannot be read
   */
  constructor(scheduler: Scheduler, workers: readonly WorkerMethods[], countFailure: CountFailure) {
    this.#scheduler = scheduler;
    this.#workers = workers;
    this.#hasStores = workers.some(({ startStores }) => startStores !== undefined);
    this.#countFailure = countFailure;
  }

  /**
   * Whether the taken blocks are reported to the workers. With executors that watch blocks, plans
   * list them anyway.
   */
  get #isTold(): boolean {
    const { connector, kvGroups } = this.#scheduler.config;
    const protection = connector?.protection ?? [];
    return protection.includes('fence') || (kvGroups !== null && protection.includes('own'));
  }

  /** Whether blocks changed owners that stores of steps in flight may still have to read. */
  get #owesReuse(): boolean {
    return this.#released.length > 0 || this.#takesDropped;
  }

  /**
   * The last step whose connector metadata, with its loads and stores, was given to the workers.
   */
  get begunStep(): number {
    return this.#begun;
  }

  /**
   * Whether the workers still have to learn of an end, because the plan that reported the end
   * lacked its connector metadata.
   */
  get owesEnds(): boolean {
    return this.#ended.length > 0;
  }

  /**
   * Notes the blocks that change owners in a new plan. The workers must learn of them before this
   * plan, or a later one, is executed.
   */
  planned({ releasedHandles, takenBlocks, droppedBlocks, step, totalTokens }: Plan): void {
    if (releasedHandles.length > 0) this.#released = this.#released.concat(releasedHandles);
    if (takenBlocks.length > 0 && this.#isTold) this.#taken = joined(this.#taken, takenBlocks);
    const isOver = this.#planned <= this.#lastEnded;
    if (droppedBlocks.length > 0 && this.#hasStores && !isOver)
      this.#dropped.push({ behind: this.#planned, blocks: new Set(droppedBlocks) });
    if (
      this.#dropped.length > 0 &&
      takenBlocks.some((id) => this.#dropped.some(({ blocks }) => blocks.has(id)))
    )
      this.#takesDropped = true;
    if (totalTokens > 0) this.#planned = step;
  }

  /**
   * Whether the plan may be executed only after all earlier steps. This is so if it loads into
   * blocks that earlier steps may still write, or takes blocks whose stores have not begun.
   */
  mustWait({ hasSyncLoads }: Plan): boolean {
    return hasSyncLoads || this.#owesReuse;
  }

  /**
   * Lets the workers begin the loads of a plan. Call it before the plan is executed, and also for
   * an empty plan, which is not executed.
   * @param isFirst every earlier step was executed; otherwise the workers learn of released blocks
   * with a later plan
   * @param finishedHandles finished requests that no earlier plan named
   */
  begin(plan: Plan, isFirst: boolean, finishedHandles: readonly number[] = plan.finishedHandles): void {
    const { connectorMetadata: metadata, step } = plan;
    if (finishedHandles.length > 0) this.#ended = this.#ended.concat(finishedHandles);
    // Workers learn of an end only with the metadata, which names the transfers that the connector
    // has begun for the request.
    if (!plan.lacksMetadata) {
      this.#begun = step;
      this.#tellEnded();
    }
    const reuse = this.#drainReuse(isFirst);
    // A load of an empty plan may have taken blocks whose earlier stores are not over. Then the
    // load waits for the next plan, before which those stores end.
    const times = { step, notBefore: this.#owesReuse ? step : step - 1 };
    this.#verdicts.expect(plan, this.#scheduler.config.connector?.reporters ?? []);
    for (let rank = 0; rank < this.#workers.length; rank++) {
      const { handlePreemptions, startLoads } = this.#workers[rank];
      try {
        handlePreemptions?.(metadata, reuse);
        startLoads?.(metadata, times);
      } catch (error) {
        this.#note(rank, 'startLoads', error);
        this.#lose(plan, rank, error instanceof ChildrenError ? error.children : null);
      }
    }
  }

  /** Replaces `begin` for a plan that will never be executed: no transfer of its metadata begins. */
  skip(finishedHandles: readonly number[]): void {
    this.#ended = this.#ended.concat(finishedHandles);
    this.#tellEnded();
  }

  #tellEnded(): void {
    if (this.#ended.length === 0) return;
    this.#finished = this.#finished.concat(this.#ended);
    this.#ended = [];
  }

  /**
   * Lets the workers begin the stores of a plan: after its execution and update, and before a block
   * that it freed is reused.
   */
  end(plan: Plan): void {
    // A plan without tokens ends at once, while steps before it may still be in flight.
    if (plan.totalTokens > 0) {
      this.#lastEnded = plan.step;
      if (this.#dropped.length > 0) this.#dropped = this.#dropped.filter(({ behind }) => behind > plan.step);
    }
    // To find the failed rows, every row must be examined.
    if (!this.#hasStores) return;
    const { connectorMetadata: metadata, step } = plan;
    const times = { step, failed: plan.failedHandles() };
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'startStores', () => worker.startStores?.(metadata, times));
    });
  }

  /**
   * Tells the workers that every step up to this one was executed, so that these steps write no
   * block any more.
   */
  settle(step: number): void {
    if (step <= this.#settled) return;
    this.#settled = step;
    for (let rank = 0; rank < this.#workers.length; rank++) {
      try {
        this.#workers[rank].onStepSettled?.(step);
      } catch (error) {
        this.#note(rank, 'onStepSettled', error);
      }
    }
  }

  /** Asks every worker once which transfers ended. @returns the reports of all workers; null if there are none */
  collect(): ConnectorOutput | null {
    const finished = this.#finished;
    if (finished.length > 0) this.#finished = [];
    let all: Collected | null = this.#lost.length > 0 ? nothingYet(this.#lost) : null;
    if (all !== null) this.#lost = [];
    for (let rank = 0; rank < this.#workers.length; rank++) {
      const answer = this.#ask(rank, finished);
      // Mostly there is no report, and then nothing is allocated.
      if (answer === null || answer === undefined) continue;
      const gathered = all ?? nothingYet([]);
      all = gathered;
      this.#try(rank, 'getFinished', () => this.#addAnswer(gathered, answer, rank));
    }
    if (all === null) return null;
    const gathered = all;
    const count = TRANSFER_LISTS.reduce(
      (sum, name) => sum + gathered[name].length,
      gathered.invalidBlocks.length,
    );
    return count + gathered.workerMetadata.length === 0 ? null : gathered;
  }

  /**
   * Completes the reports of a round that processes the answer of a step. Each synchronous load of
   * this step that a rank has not reported by now is added as failed. The rank may have thrown when
   * it was asked.
   */
  withVerdicts(step: number, output: ConnectorOutput | null): ConnectorOutput | null {
    const silent = this.#verdicts.close(step);
    if (silent.length === 0) return output;
    return { ...output, failedReceiving: [...(output?.failedReceiving ?? []), ...silent] };
  }

  /** Shuts the workers down, with the engine. */
  shutdown(): void {
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'shutdown', () => worker.shutdown?.());
    });
  }

  /**
   * The blocks that change owners, for the workers; none while stores of released blocks have not
   * begun.
   */
  #drainReuse(isFirst: boolean): BlockReuse {
    if (!isFirst && this.#owesReuse) return NO_REUSE;
    this.#takesDropped = false;
    if (this.#released.length + this.#taken.length === 0) return NO_REUSE;
    const reuse = { released: this.#released, taken: this.#taken };
    this.#released = [];
    this.#taken = NO_BLOCKS;
    return reuse;
  }

  /**
   * A worker's answer to `getFinished`. If some of its children failed, this is the answer of the
   * others.
   */
  #ask(rank: number, finished: readonly number[]): unknown {
    try {
      return this.#workers[rank].getFinished(finished);
    } catch (error) {
      this.#note(rank, 'getFinished', error);
      return error instanceof ChildrenError ? error.answer : null;
    }
  }

  /**
   * Adds a worker's reports to the others'. If one of its lists cannot be read, none of them
   * counts.
   */
  #addAnswer(all: Collected, answer: unknown, rank: number): void {
    const output = parseWorkerOutput(answer);
    if (output === null) return;
    // A report that cannot be read throws here, before any list of this worker is added.
    const lists = TRANSFER_LISTS.map((name) => (output[name] ?? []).map((report) => ({ ...report, rank })));
    const { invalidBlocks = [], metadata } = output;
    TRANSFER_LISTS.forEach((name, i) => {
      all[name].push(...(name === 'finishedReceiving' ? this.#verdicts.removeAwaited(lists[i]) : lists[i]));
    });
    all.invalidBlocks.push(...invalidBlocks);
    if (metadata !== undefined) all.workerMetadata.push({ rank, metadata });
  }

  /**
   * Reports the loads of the plan as failed for a rank, because it is unknown which of them the
   * rank has begun.
   * @param children the workers whose loads are meant; null = all
   */
  #lose({ step, syncLoads }: Plan, rank: number, children: readonly number[] | null): void {
    // The scheduler already knows about `failed` loads: their metadata could not be made.
    for (const { request, child, failed } of syncLoads) {
      if (failed || children?.includes(child) === false) continue;
      this.#lost.push({ handle: request.handle, child, rank, step });
    }
    for (const { handle, load, outstanding } of this.#scheduler.inspect().requests) {
      if (load?.step !== step || !outstanding?.has('load', peer(load.child, rank))) continue;
      if (children?.includes(load.child) === false) continue;
      this.#lost.push({ handle, child: load.child, rank, step });
    }
  }

  /** Makes a call, and counts an error. */
  #try(rank: number, method: string, call: () => unknown): void {
    try {
      call();
    } catch (error) {
      this.#note(rank, method, error);
    }
  }

  /** Counts an error of a worker, which goes no further. */
  #note(rank: number, method: string, error: unknown): void {
    this.#countFailure(rank, method, error);
  }
}

function nothingYet(failedReceiving: TransferReport[]): Collected {
  return {
    ...{ finishedReceiving: [], finishedSending: [], failedReceiving, renewed: [] },
    ...{ invalidBlocks: [], workerMetadata: [] },
  };
}
