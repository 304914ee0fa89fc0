import type {
  BlockReuse,
  StoreStep,
  TransferReport,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from '../../scheduler/connector/connector.js';
import { REPORT_LISTS } from '../../scheduler/connector/connector-output.js';
import type { TransferWatch } from './transfer-watch.js';
import type { Diary } from './trouble.js';

/** Decides by chance the fate of a worker's reports. */
export interface ReportFate {
  /** Whether the worker is not asked in this round. */
  skips(): boolean;
  /** Whether a report of a transfer is lost. */
  loses(): boolean;
  /** Whether a report of a transfer comes a second time, later. */
  repeats(): boolean;
  /** Called with every mistake; see `Treatment`. */
  broke(what: string): void;
}

/**
 * The worker side of a connector on one rank, with an observer around it. The worker is asked late,
 * and its reports come late, twice or never. Messages of workers to their scheduler side
 * (`metadata`) are neither lost nor repeated, because they are the connector's own.
 */
export class WatchedWorker implements WorkerConnector {
  readonly #inner: WorkerConnector;
  readonly #rank: number;
  readonly #watch: TransferWatch;
  readonly #diary: Diary;
  readonly #fate: ReportFate;
  /** Handles that the worker knows as finished, and has not reported as sent. */
  readonly #told = new Set<number>();
  #untold: number[] = [];
  /** Reports that come once more. */
  #again: { finishedReceiving: TransferReport[]; finishedSending: TransferReport[] } = none();
  /** Handles of requests with a lost report. */
  readonly lost = new Set<number>();

  constructor(inner: WorkerConnector, rank: number, watch: TransferWatch, diary: Diary, fate: ReportFate) {
    this.#inner = inner;
    this.#rank = rank;
    this.#watch = watch;
    this.#diary = diary;
    this.#fate = fate;
  }

  handlePreemptions(metadata: unknown, { released, taken }: BlockReuse): void {
    const lent = { released: [...released], taken: taken.slice() };
    this.#call('handlePreemptions', () => this.#inner.handlePreemptions?.(metadata, lent));
    lent.released.length = 0;
    lent.taken.fill(-1);
  }

  startLoads(metadata: unknown, step: WorkerStep): void {
    this.#watch.begun(this.#rank, step.step, step.notBefore);
    this.#call('startLoads', () => this.#inner.startLoads?.(metadata, { ...step }));
  }

  startStores(metadata: unknown, { step, failed }: StoreStep): void {
    const lent = [...failed];
    this.#call('startStores', () => this.#inner.startStores?.(metadata, { step, failed: lent }));
    lent.length = 0;
  }

  onStepSettled(step: number): void {
    this.#watch.settled(step);
    this.#call('onStepSettled', () => this.#inner.onStepSettled?.(step));
  }

  getFinished(finished: readonly number[]): WorkerOutput | null {
    this.#untold.push(...finished);
    // A synchronous load must be reported in the round that takes its step.
    if (this.#fate.skips() && !this.#watch.hasSyncLoad(this.#rank)) return null;
    const lent = this.#untold;
    this.#untold = [];
    for (const handle of lent) this.#told.add(handle);
    const output = this.#call('getFinished', () => this.#inner.getFinished(lent));
    lent.length = 0;
    return this.#judge(output ?? {});
  }

  shutdown(): void {
    this.#call('shutdown', () => this.#inner.shutdown?.());
    if ([...this.#watch.jobs].some(({ lane }) => this.#watch.isOfRank(lane, this.#rank)))
      this.#fate.broke(`rank ${this.#rank} was shut down, and a copy is not over`);
    this.#call('shutdown for the second time', () => this.#inner.shutdown?.());
  }

  #judge(output: WorkerOutput): WorkerOutput {
    const { finishedReceiving = [], finishedSending = [] } = output;
    const rank = this.#rank;
    for (const { handle, step } of finishedReceiving) {
      this.#diary.note(`rank ${rank} has received ${handle}`);
      this.#watch.received(rank, handle, step);
    }
    for (const { handle } of finishedSending) {
      this.#diary.note(`rank ${rank} has sent ${handle}`);
      if (!this.#told.delete(handle))
        this.#fate.broke(
          `rank ${rank} reports ${handle} as sent, of whose end it was not told, or for the second time`,
        );
    }
    const again = this.#again;
    this.#again = none();
    const kept = {
      finishedReceiving: [
        ...again.finishedReceiving,
        ...this.#filter('finishedReceiving', finishedReceiving),
      ],
      finishedSending: [...again.finishedSending, ...this.#filter('finishedSending', finishedSending)],
    };
    const given = this.#call('the metadata of getFinished', () => structuredClone(output));
    for (const name of REPORT_LISTS)
      if (given[name] !== undefined && !Array.isArray(given[name])) this.#fate.broke(`${name} is no list`);
    return { ...given, ...kept };
  }

  #filter(
    name: 'finishedReceiving' | 'finishedSending',
    reports: readonly TransferReport[],
  ): TransferReport[] {
    return reports.filter((report) => {
      if (this.#fate.repeats()) this.#again[name].push(report);
      if (!this.#fate.loses()) return true;
      this.#diary.note(`the ${name} of ${report.handle} by rank ${this.#rank} is lost`);
      this.lost.add(report.handle);
      return false;
    });
  }

  #call<T>(method: string, work: () => T): T {
    try {
      const answer = work();
      const isPromise = typeof answer === 'object' && answer !== null && 'then' in answer;
      if (isPromise) this.#fate.broke(`${method} of rank ${this.#rank} answers a promise`);
      return answer;
    } catch (error) {
      const what = error instanceof Error ? error.stack : String(error);
      this.#fate.broke(`${method} of rank ${this.#rank} throws ${what}`);
      throw error;
    }
  }
}

function none(): { finishedReceiving: TransferReport[]; finishedSending: TransferReport[] } {
  return { finishedReceiving: [], finishedSending: [] };
}
