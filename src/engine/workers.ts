import { badArgument, show } from '../core/errors.js';
import type { ConnectorOutput, InvalidBlock, TransferReport } from '../scheduler/connector.js';
import type { Plan } from '../scheduler/plan.js';
import type { EngineState } from './engine-state.js';
import type { WorkerCalls } from './worker-calls.js';

/** What the workers reported in one round, each report with the rank that it came from. */
interface Collected {
  finishedReceiving: TransferReport[];
  finishedSending: TransferReport[];
  failedReceiving: TransferReport[];
  invalidBlocks: InvalidBlock[];
}

const LISTS = ['finishedReceiving', 'finishedSending', 'failedReceiving'] as const;

/**
 * The worker sides of the connector, one per rank, called in the order of one step. Whatever a worker does wrong costs the
 * loads that it was to begin, and is counted; a step never fails of it.
 */
export class Workers {
  readonly #e: EngineState;
  readonly #workers: readonly WorkerCalls[];
  /** Handles of the requests that finished since the workers were asked last. */
  #finished: number[] = [];
  /** Handles of those that gave their blocks back and whose stores are to be over before the next step. */
  #released: number[] = [];
  /** What is to be reported besides what workers say: loads that they failed to begin. */
  #lost: TransferReport[] = [];
  /** Every step up to this one was executed. */
  #settled = -1;

  constructor(e: EngineState, workers: readonly WorkerCalls[]) {
    this.#e = e;
    this.#workers = workers;
  }

  /** A plan was made: the requests that finished before it are known to the workers from now on. */
  planned({ finishedHandles, releasedHandles }: Plan): void {
    if (finishedHandles.length > 0) this.#finished = this.#finished.concat(finishedHandles);
    if (releasedHandles.length > 0) this.#released = this.#released.concat(releasedHandles);
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
   */
  begin(plan: Plan, isFirst: boolean): void {
    const { connectorMetadata: metadata, step } = plan;
    const times = { step, notBefore: step - 1 };
    const released = isFirst ? this.#released : [];
    if (released.length > 0) this.#released = [];
    this.#workers.forEach((worker, rank) => {
      const begun = this.#try(rank, 'startLoads', () => {
        worker.handlePreemptions?.(metadata, released);
        worker.startLoads?.(metadata, times);
      });
      if (!begun) this.#lose(plan, rank);
    });
  }

  /** After the plan was executed and updated, and before a block that it freed is reused. */
  end({ connectorMetadata: metadata, step }: Plan, failed: readonly number[]): void {
    const times = { step, failed };
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
      invalidBlocks: [],
    };
    this.#lost = [];
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'getFinished', () => {
        const output = takeReports(worker.getFinished(finished));
        if (output === null) return;
        // Read as a whole first: a list that cannot be read must not leave half of the others behind.
        const lists = LISTS.map((name) => listOf(output, name).map((report) => ({ ...report, rank })));
        const blocks = listOf(output, 'invalidBlocks');
        LISTS.forEach((name, i) => {
          all[name].push(...lists[i]);
        });
        all.invalidBlocks.push(...blocks);
      });
    });
    const count = LISTS.reduce((sum, name) => sum + all[name].length, all.invalidBlocks.length);
    return count === 0 ? null : all;
  }

  shutdown(): void {
    this.#workers.forEach((worker, rank) => {
      this.#try(rank, 'shutdown', () => worker.shutdown?.());
    });
  }

  /** Nobody knows what of the plan's loads this rank has begun: they failed, and those in flight are waited for. */
  #lose({ step, syncLoads }: Plan, rank: number): void {
    for (const { request, child } of syncLoads)
      this.#lost.push({ handle: request.handle, child, rank, step });
    for (const { handle, load } of this.#e.scheduler.inspect().requests) {
      if (load?.step === step) this.#lost.push({ handle, child: load.child, rank, step });
    }
  }

  #try(rank: number, method: string, call: () => unknown): boolean {
    try {
      call();
      return true;
    } catch (error) {
      this.#e.countWorkerFailure(rank, method, error);
      return false;
    }
  }
}

/** A worker's answer; a promise is none, since nobody waits for it. */
function takeReports(answer: unknown): ConnectorOutput | null {
  if (answer === null || answer === undefined) return null;
  if (typeof answer === 'object' && !('then' in answer)) return answer;
  throw badArgument('getFinished()', show(answer), 'an object of lists, or null');
}

function listOf<Name extends keyof ConnectorOutput>(
  output: ConnectorOutput,
  name: Name,
): NonNullable<ConnectorOutput[Name]> {
  const list: unknown = output[name] ?? [];
  if (Array.isArray(list)) return list as unknown as NonNullable<ConnectorOutput[Name]>;
  throw badArgument(`getFinished().${name}`, show(list), 'an array');
}
