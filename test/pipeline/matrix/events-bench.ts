// One stage, as reported and blockstep's, driven by hand.
import { type Request, Scheduler } from '../../../src/index.js';
import { ALL_GUARDS, type ReportedGuards } from './as-reported/reported-guards.js';
import { ReportedRequest, ReportedScheduler } from './as-reported/reported-scheduler.js';
import { type Chunk, chunkKey, Transport } from './stages/flow.js';
import { OmniAdapter, type Parkable } from './stages/omni-adapter.js';

/** Get and skip apart, everything that the reports were about is missing. */
export const UNGUARDED: ReportedGuards = {
  ...ALL_GUARDS,
  purgeAtProcess: false,
  purgeAtRestore: false,
  realign: false,
  sweep: false,
  cleanup: false,
};

/** One stage behind another that is only imagined: its chunks come when a test orders them. */
interface Bench {
  add(id: string): void;
  /** A chunk of this request comes, with this index. */
  chunk(id: string, index: number, finished?: boolean): void;
  /** One step from plan to update. @param meanwhile called between processing and restoring */
  tick(meanwhile?: () => void): void;
  /** Somebody from outside ends a request. */
  abort(id: string): void;
  /** Something in the scheduler's own code ends a request; only while a step is planned. */
  endInside(id: string): void;
  /** Writes a status, as code does that changes statuses and containers in two moves. */
  restamp(id: string, status: string): void;
  statusOf(id: string): string;
  /** Ids of the requests that the last step was for. */
  readonly scheduled: readonly string[];
  /** All ids in the list of running requests. */
  readonly running: readonly string[];
  readonly hasWork: boolean;
}

interface BenchOptions {
  readonly maxNumSeqs?: number;
  readonly restoresStatus?: boolean;
  /** Hears of each chunk, with the request object that it was taken for. */
  readonly onChunk?: (request: Parkable) => void;
}

const STAGE = 1;

abstract class AdapterBench<R extends Parkable> implements Bench {
  readonly adapter: OmniAdapter<R>;
  readonly #transport = new Transport();
  #meanwhile: () => void = () => {};
  scheduled: string[] = [];

  constructor({ maxNumSeqs = 8, restoresStatus = true, onChunk = () => {} }: BenchOptions) {
    this.adapter = new OmniAdapter<R>({
      stage: STAGE,
      maxNumSeqs,
      restoresStatus,
      onChunk,
      receive: (key) => this.#transport.remove(key, 0),
      meanwhile: () => this.#meanwhile(),
    });
  }

  chunk(id: string, index: number, finished = false): void {
    const chunk: Chunk = { index, finished };
    this.#transport.put(chunkKey(id, STAGE - 1, index), chunk, 0);
    this.adapter.poll();
  }

  tick(meanwhile: () => void = () => {}): void {
    this.#meanwhile = meanwhile;
    this.step();
    this.#meanwhile = () => {};
    this.adapter.poll();
  }

  abstract step(): void;
  abstract add(id: string): void;
  abstract abort(id: string): void;
  abstract endInside(id: string): void;
  abstract restamp(id: string, status: string): void;
  abstract statusOf(id: string): string;
  abstract readonly running: readonly string[];
  abstract readonly hasWork: boolean;
}

/** A stage as it was reported. */
export class ReportedBench extends AdapterBench<ReportedRequest> {
  readonly scheduler: ReportedScheduler;

  constructor(guards: ReportedGuards, options: BenchOptions = {}) {
    super({ ...options, onChunk: (request) => feed(request as ReportedRequest) });
    this.scheduler = new ReportedScheduler(options.maxNumSeqs ?? 8, guards, this.adapter);
  }

  add(id: string): void {
    this.scheduler.add(new ReportedRequest(id, 4));
  }

  /** A session whose first segment stops with the step that computes its chunk. */
  addSegment(id: string): void {
    this.scheduler.add(new ReportedRequest(id, 4, true));
  }

  /** A request of a generation stage: it has nothing to compute before its chunk comes, which is its prompt. */
  addFed(id: string): void {
    this.scheduler.add(new ReportedRequest(id, 0));
  }

  /** A session that waits for its next input. */
  addIdle(id: string): void {
    const request = new ReportedRequest(id, 4);
    request.status = 'WAITING_FOR_STREAMING_REQ';
    this.scheduler.add(request);
  }

  step(): void {
    const plan = this.scheduler.schedule();
    this.scheduled = plan.requests.map(({ id }) => id);
    this.scheduler.update(plan, ({ isResumable }) => ({ stops: isResumable, tokens: 1 }));
  }

  abort(id: string): void {
    this.scheduler.finish([id]);
  }

  endInside(id: string): void {
    this.scheduler.finishInside(id);
  }

  restamp(id: string, status: string): void {
    (this.scheduler.requests.get(id) as ReportedRequest).status = status as ReportedRequest['status'];
  }

  statusOf(id: string): string {
    return (this.scheduler.requests.get(id) as ReportedRequest).status;
  }

  get running(): string[] {
    return this.scheduler.running.map(({ id }) => id);
  }

  get hasWork(): boolean {
    return this.scheduler.hasWork;
  }
}

/** The chunk of a request that has nothing else to compute is its prompt. */
function feed(request: ReportedRequest): void {
  request.chunks++;
  if (request.total === 0) request.total = 4;
}

/** A stage over our own scheduler, with the same adapter. */
export class OurBench extends AdapterBench<Request> {
  readonly scheduler: Scheduler;
  now = 0;

  constructor(options: BenchOptions = {}) {
    super(options);
    this.scheduler = new Scheduler({
      numBlocks: 257,
      maxNumSeqs: options.maxNumSeqs ?? 8,
      maxModelLen: 128,
      hashSeed: 7,
      now: () => this.now,
      borrower: this.adapter as never,
    });
  }

  add(id: string): void {
    this.scheduler.add({ id, prompt: [3, 3, 3, 3], maxTokens: 64 });
  }

  /** A session whose first segment stops with the step that computes its chunk. */
  addSegment(id: string): void {
    this.scheduler.add({ id, prompt: [3, 3, 3, 3], maxTokens: 1, resumable: true });
  }

  /** A session that waits for its next input: its first answer has ended. */
  addIdle(id: string): void {
    this.addSegment(id);
    this.tick();
    this.chunk(id, 0, true);
    this.tick();
    this.tick();
  }

  step(): void {
    const plan = this.scheduler.schedule();
    this.scheduled = plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(5);
    this.scheduler.update(plan, { tokens, counts });
    this.scheduler.verify();
  }

  abort(id: string): void {
    this.scheduler.abort(id);
  }

  /** Our scheduler's own code ends nothing while requests are lent: aborts from inside a callback wait for the next step. */
  endInside(id: string): void {
    this.scheduler.abort(id);
  }

  restamp(id: string, status: string): void {
    (this.scheduler.get(id) as Request).status = status as Request['status'];
  }

  statusOf(id: string): string {
    return (this.scheduler.get(id) as Request).status;
  }

  get running(): string[] {
    return this.scheduler.inspect().running;
  }

  get hasWork(): boolean {
    return this.scheduler.hasWork();
  }

  get anomalies(): Record<string, number> {
    return this.scheduler.stats().anomalies;
  }
}
