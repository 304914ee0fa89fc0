import { badArg } from '../../base/checks.js';
import { badArgument } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { type ChildFailure, ChildrenError } from '../../scheduler/connector/children-error.js';
import type {
  BlockReuse,
  StoreStep,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from '../../scheduler/connector/connector.js';
import { checkOptions } from '../base/option-checks.js';
import type { MultiMetadata, MultiSaid } from './multi-metadata.js';
import { merged, reportsOf } from './worker-reports.js';

/** Options of a `MultiWorker`. */
export interface MultiWorkerOptions {
  /** The workers of this rank, one for each child of the `MultiConnector`, in the same order. */
  children: readonly WorkerConnector[];
}

const OPTIONS = knownNames<MultiWorkerOptions>('the options of a MultiWorker', { children: true });

/** The worker of one child, and its state. */
interface Part {
  readonly index: number;
  readonly name: string;
  readonly worker: WorkerConnector;
  /** Its `handlePreemptions` failed, so it begins nothing of this plan. */
  isBlocked: boolean;
}

const NONE: readonly number[] = [];

/**
 * Worker side of a `MultiConnector`, one for each rank. Each child's worker gets its own metadata,
 * and its reports get its child index. A child that throws costs its own loads, as it would alone,
 * and the error names it.
 */
export class MultiWorker implements WorkerConnector<MultiMetadata, MultiSaid> {
  readonly #parts: readonly Part[];
  /**
   * As in `MultiMetadata`. It is known from the first plan on; before that there is nothing to
   * report.
   */
  #firsts: readonly number[] = NONE;

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: MultiWorkerOptions) {
    checkOptions(options, OPTIONS);
    const { children } = options;
    if (!Array.isArray(children) || children.length === 0)
      throw badArg('children', children, 'a list of at least one worker');
    this.#parts = (children as unknown[]).map((worker, index) => ({
      ...{ index, worker: parseWorker(worker, index), name: nameOf(worker, index) },
      isBlocked: false,
    }));
  }

  handlePreemptions(metadata: MultiMetadata | undefined, reuse: BlockReuse): void {
    // An error thrown here would prevent the other children's loads, so `startLoads` throws it.
    this.#blocked = [];
    for (const part of this.#parts) {
      const before = this.#blocked.length;
      this.#try(this.#blocked, part, () =>
        part.worker.handlePreemptions?.(metadata?.children[part.index], reuse),
      );
      part.isBlocked = this.#blocked.length > before;
    }
  }
  #blocked: ChildFailure[] = [];

  startLoads(metadata: MultiMetadata | undefined, step: WorkerStep): void {
    const failures = this.#blocked;
    this.#blocked = [];
    if (metadata !== undefined) {
      if (metadata.children.length !== this.#parts.length)
        throw badArgument(
          'children',
          `${this.#parts.length} workers`,
          `${metadata.children.length}, one for each connector`,
        );
      this.#firsts = metadata.firsts;
    }
    for (const part of this.#parts) {
      if (part.isBlocked) continue;
      this.#try(failures, part, () => part.worker.startLoads?.(metadata?.children[part.index], step));
    }
    for (const part of this.#parts) part.isBlocked = false;
    if (failures.length > 0) throw new ChildrenError(failures);
  }

  waitForLayerLoad(layer: number): void | PromiseLike<void> {
    const waits = this.#parts
      .map(({ worker }) => worker.waitForLayerLoad?.(layer))
      .filter((wait) => wait !== undefined);
    if (waits.length > 0) return Promise.all(waits).then(() => {});
  }

  saveLayer(layer: number): void {
    this.#all((worker) => worker.saveLayer?.(layer));
  }

  startStores(metadata: MultiMetadata | undefined, step: StoreStep): void {
    this.#all((worker, index) => worker.startStores?.(metadata?.children[index], step));
  }

  onStepSettled(step: number): void {
    this.#all((worker) => worker.onStepSettled?.(step));
  }

  getFinished(finished: readonly number[]): WorkerOutput<MultiSaid> | null {
    const failures: ChildFailure[] = [];
    const outputs: { part: Part; output: WorkerOutput }[] = [];
    for (const part of this.#parts) {
      const output = this.#try(failures, part, () => {
        const answer = part.worker.getFinished(finished);
        // `#try` refuses a promise and handles its rejection.
        return isThenable(answer) ? answer : reportsOf(answer, this.#first(part));
      });
      if (output) outputs.push({ part, output });
    }
    const answer =
      outputs.length === 0 ? null : merged(outputs.map(({ part, output }) => [part.index, output]));
    if (failures.length > 0) throw new ChildrenError(failures, answer);
    return answer;
  }

  shutdown(): void {
    this.#all((worker) => worker.shutdown?.());
  }

  #first({ index }: Part): number {
    return this.#firsts[index] ?? index;
  }

  #all(call: (worker: WorkerConnector, index: number) => void): void {
    const failures: ChildFailure[] = [];
    for (const part of this.#parts) this.#try(failures, part, () => call(part.worker, part.index));
    if (failures.length > 0) throw new ChildrenError(failures);
  }

  /**
   * A child that itself combines several fails with all of its child indexes, or with the indexes
   * that its error names.
   */
  #try<T>(failures: ChildFailure[], part: Part, call: () => T): T | undefined {
    try {
      const answer = call();
      if (!isThenable(answer)) return answer;
      Promise.resolve(answer).catch(() => {});
      throw new TypeError('answered with a promise, where an answer is wanted at once');
    } catch (error) {
      const first = this.#first(part);
      const { name } = part;
      if (error instanceof ChildrenError) {
        for (const each of error.failures) failures.push({ ...each, child: first + each.child });
        return error.answer as T | undefined;
      }
      const end = this.#firsts[part.index + 1] ?? first + 1;
      for (let child = first; child < end; child++) failures.push({ child, name, error });
      return undefined;
    }
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function parseWorker(worker: unknown, index: number): WorkerConnector {
  const getFinished = (worker as WorkerConnector | null)?.getFinished;
  if (typeof worker === 'object' && worker !== null && typeof getFinished === 'function')
    return worker as WorkerConnector;
  throw badArg(`children[${index}]`, worker, 'an object with a function getFinished');
}

function nameOf(worker: unknown, index: number): string {
  return `${(worker as object | null)?.constructor?.name ?? 'worker'} ${index}`;
}
