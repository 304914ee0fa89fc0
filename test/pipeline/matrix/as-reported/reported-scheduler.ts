import type { OmniAdapter, Parkable, ParkQueue } from '../stages/omni-adapter.js';
import type { ReportedGuards } from './reported-guards.js';

export type ReportedStatus =
  | 'WAITING'
  | 'WAITING_FOR_CHUNK'
  | 'WAITING_FOR_STREAMING_REQ'
  | 'RUNNING'
  | 'PREEMPTED'
  | 'FINISHED_STOPPED'
  | 'FINISHED_ABORTED';

/** A request of the model. Counts are in tokens. */
export class ReportedRequest implements Parkable {
  status: ReportedStatus = 'WAITING';
  total: number;
  computed = 0;
  /** Pieces of input that came. */
  chunks = 0;
  /** Whether it goes on with further input after it has stopped: then a stop ends a segment of it alone. */
  readonly isResumable: boolean;

  constructor(
    readonly id: string,
    prompt: number,
    isResumable = false,
  ) {
    this.total = prompt;
    this.isResumable = isResumable;
  }

  get isFinished(): boolean {
    return this.status.startsWith('FINISHED');
  }
}

/** A step of the model, as the worker gets it. The fields are named as those of our plans are. */
export interface ReportedPlan {
  readonly requests: ReportedRequest[];
  numRequests: number;
}

/**
 * A model of vLLM V1's scheduler as far as requests and containers go (28be48fa), with the borrowing adapter of vllm-omni
 * in it. **The status decides which container is searched** when a request is finished: that is what the reports are
 * about. Blocks play no part in them and are left out.
 */
export class ReportedScheduler {
  readonly requests = new Map<string, ReportedRequest>();
  waiting: ReportedRequest[] = [];
  running: ReportedRequest[] = [];
  /** `num_waiting_for_streaming_input`: an incremental counter. */
  numWaitingForStreamingInput = 0;
  /** The counts of the events that guards found, by name. */
  readonly found: Record<string, number> = {};
  readonly #maxNumSeqs: number;
  readonly #guards: ReportedGuards;
  readonly #adapter: OmniAdapter<ReportedRequest> | null;

  /** @param adapter null for the first stage, which receives no chunks */
  constructor(maxNumSeqs: number, guards: ReportedGuards, adapter: OmniAdapter<ReportedRequest> | null) {
    this.#maxNumSeqs = maxNumSeqs;
    this.#guards = guards;
    this.#adapter = adapter;
  }

  add(request: ReportedRequest): void {
    if (this.requests.has(request.id)) throw new Error(`AssertionError: duplicate request id ${request.id}`);
    if (request.status === 'WAITING_FOR_STREAMING_REQ') this.numWaitingForStreamingInput++;
    this.requests.set(request.id, request);
    this.waiting.push(request);
  }

  /** vLLM `has_unfinished_requests`. */
  get hasWork(): boolean {
    return this.waiting.length - this.numWaitingForStreamingInput + this.running.length > 0;
  }

  /** Plans a step: the adapter parks, vLLM's own `schedule` runs, the adapter restores. */
  schedule(): ReportedPlan {
    const adapter = this.#adapter;
    if (adapter === null) return this.#schedule();
    if (this.#guards.purgeAtProcess) this.#purge(adapter);
    adapter.processPendingChunks(this.#queues());
    let plan: ReportedPlan;
    try {
      plan = this.#schedule();
    } finally {
      if (this.#guards.purgeAtRestore) this.#purge(adapter);
      this.#countZombies(adapter);
      adapter.restoreQueues(this.#queues());
    }
    adapter.postprocess(plan);
    return plan;
  }

  /** vLLM `Scheduler.schedule`: it knows nothing of parked requests. */
  #schedule(): ReportedPlan {
    const requests: ReportedRequest[] = [];
    for (const request of this.running) if (request.total > request.computed) requests.push(request);
    while (this.waiting.length > 0 && this.running.length < this.#maxNumSeqs) {
      const [request] = this.waiting as [ReportedRequest];
      if (request.status === 'WAITING_FOR_STREAMING_REQ') break;
      if (request.status !== 'WAITING' && request.status !== 'PREEMPTED')
        throw new Error(`RuntimeError: Invalid request status: ${request.status}`);
      this.waiting.shift();
      this.running.push(request);
      request.status = 'RUNNING';
      if (request.total > request.computed) requests.push(request);
    }
    return this.#afterSchedule(requests);
  }

  /** vLLM `_update_after_schedule`: looks each scheduled id up. */
  #afterSchedule(scheduled: readonly ReportedRequest[]): ReportedPlan {
    const requests: ReportedRequest[] = [];
    for (const { id } of scheduled) {
      const request = this.requests.get(id);
      if (request === undefined) {
        if (!this.#guards.getAndSkip) throw new Error(`KeyError: '${id}'`);
        this.#count('skipped');
        continue;
      }
      request.computed = request.total;
      requests.push(request);
    }
    return { requests, numRequests: requests.length };
  }

  /**
   * vLLM `update_from_output`.
   * @param compute computes a step of a request, and returns whether the request stops with it;
   * tokens that are generated lengthen it
   */
  update(
    plan: ReportedPlan,
    compute: (request: ReportedRequest) => { stops: boolean; tokens: number },
  ): void {
    const stopped = new Set<ReportedRequest>();
    for (const scheduled of plan.requests) {
      const request = this.requests.get(scheduled.id);
      if (request === undefined || request.isFinished) continue;
      const { stops, tokens } = compute(request);
      request.total += tokens;
      if (!stops) continue;
      request.status = 'FINISHED_STOPPED';
      // The end of a segment: the running queue keeps it until its next input comes.
      if (request.isResumable) continue;
      this.#free(request);
      stopped.add(request);
    }
    if (stopped.size > 0) this.running = this.running.filter((request) => !stopped.has(request));
  }

  /** vllm-omni's `finish_requests` around vLLM's. */
  finish(ids: readonly string[]): void {
    const targets = ids.flatMap((id) => this.requests.get(id) ?? []).filter(({ isFinished }) => !isFinished);
    this.#adapter?.finishRequests(targets);
    if (this.#guards.realign) this.#realign(targets);
    this.#finishByStatus(targets);
    if (this.#guards.sweep) this.#sweep();
    if (this.#guards.cleanup) for (const request of targets) this.#adapter?.cleanupReceiver(request);
  }

  /**
   * A finish that does not come through the adapter: something inside vLLM ends the request, such as the timeout of its
   * input.
   */
  finishInside(id: string): void {
    const request = this.requests.get(id);
    if (request !== undefined) this.#finishByStatus([request]);
  }

  /** vLLM `finish_requests`: the status alone decides which container is searched. */
  #finishByStatus(targets: readonly ReportedRequest[]): void {
    const fromRunning = new Set(targets.filter(({ status }) => status === 'RUNNING'));
    const fromWaiting = new Set(targets.filter(({ status }) => status !== 'RUNNING'));
    for (const { status } of fromWaiting)
      if (status === 'WAITING_FOR_STREAMING_REQ') this.numWaitingForStreamingInput--;
    if (fromRunning.size > 0) this.running = this.running.filter((request) => !fromRunning.has(request));
    if (fromWaiting.size > 0) this.waiting = this.waiting.filter((request) => !fromWaiting.has(request));
    for (const request of targets) {
      request.status = 'FINISHED_ABORTED';
      this.#free(request);
    }
  }

  /** Entries of `running` that are finished or that nobody knows: places that nobody can use. */
  get lostPlaces(): number {
    return this.running.filter((request) => !this.#isLive(request)).length;
  }

  #free(request: ReportedRequest): void {
    this.requests.delete(request.id);
    if (request.status === 'FINISHED_STOPPED') this.#adapter?.cleanupReceiver(request);
  }

  #purge(adapter: OmniAdapter<ReportedRequest>): void {
    for (const parked of adapter.parked) {
      const dead = parked.filter((request) => !this.#isLive(request));
      if (dead.length === 0) continue;
      parked.splice(0, parked.length, ...parked.filter((request) => this.#isLive(request)));
      for (const request of dead) {
        this.#count('purged');
        adapter.cleanupReceiver(request);
      }
    }
  }

  /** Counts what is about to be put back and is finished or unknown: the zombies of the report. */
  #countZombies(adapter: OmniAdapter<ReportedRequest>): void {
    const dead = adapter.parked.flat().filter((request) => !this.#isLive(request));
    if (dead.length > 0) this.#count('zombies put back', dead.length);
  }

  #realign(targets: readonly ReportedRequest[]): void {
    for (const request of targets) {
      const before = request.status;
      if (this.running.includes(request)) request.status = 'RUNNING';
      else if (this.waiting.includes(request) && before === 'RUNNING') request.status = 'WAITING';
      if (request.status !== before) this.#count('realigned');
    }
  }

  #sweep(): void {
    const kept = this.running.filter((request) => this.#isLive(request));
    if (kept.length < this.running.length) this.#count('swept', this.running.length - kept.length);
    this.running = kept;
  }

  #isLive(request: ReportedRequest): boolean {
    return !request.isFinished && this.requests.get(request.id) === request;
  }

  #count(guard: string, times = 1): void {
    this.found[guard] = (this.found[guard] ?? 0) + times;
  }

  #queues() {
    return {
      waiting: new ListQueue(() => this.waiting),
      running: new ListQueue(() => this.running),
    };
  }
}

/** vLLM's lists as the adapter handles them: whatever it puts back is taken. */
class ListQueue implements ParkQueue<ReportedRequest> {
  readonly #list: () => ReportedRequest[];

  constructor(list: () => ReportedRequest[]) {
    this.#list = list;
  }

  get length(): number {
    return this.#list().length;
  }

  [Symbol.iterator](): Iterator<ReportedRequest> {
    return [...this.#list()][Symbol.iterator]();
  }

  remove(request: ReportedRequest): void {
    const at = this.#list().indexOf(request);
    if (at >= 0) this.#list().splice(at, 1);
  }

  pushBack(request: ReportedRequest): void {
    this.#list().push(request);
  }

  pushFront(request: ReportedRequest): void {
    this.#list().unshift(request);
  }
}
