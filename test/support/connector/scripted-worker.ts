import type {
  BlockReuse,
  ConnectorOutput,
  StoreStep,
  WorkerConnector,
  WorkerStep,
} from '../../../src/connector.js';

/** A worker side that reports what a test puts into `next`, and writes down every call. */
export class ScriptedWorker implements WorkerConnector {
  readonly calls: string[] = [];
  /** Handles of finished requests that it received, in order. */
  readonly finished: number[] = [];
  /** The reports of the next rounds, the first one first. */
  readonly next: (ConnectorOutput | null)[] = [];
  readonly throwing = new Set<string>();

  handlePreemptions(_metadata: unknown, { released }: BlockReuse): void {
    this.#called('preemptions', released.join(','));
  }

  startLoads(_metadata: unknown, { step, notBefore }: WorkerStep): void {
    this.#called('loads', `${step} not before ${notBefore}`);
  }

  startStores(_metadata: unknown, { step, failed }: StoreStep): void {
    this.#called('stores', failed.length === 0 ? `${step}` : `${step} without ${failed.join(',')}`);
  }

  onStepSettled(step: number): void {
    this.#called('settled', `${step}`);
  }

  getFinished(finished: readonly number[]): ConnectorOutput | null {
    this.finished.push(...finished);
    if (this.throwing.has('finished')) throw new Error('planted in finished');
    return this.next.shift() ?? null;
  }

  shutdown(): void {
    this.#called('shutdown', '');
  }

  #called(method: string, what: string): void {
    this.calls.push(what === '' ? method : `${method} ${what}`);
    if (this.throwing.has(method)) throw new Error(`planted in ${method}`);
  }
}
