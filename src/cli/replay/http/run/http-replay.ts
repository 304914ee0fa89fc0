import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { costOf, DEFAULT_COST_MODEL } from '../../../../executors/cost-model/cost-model.js';
import { aloneMs } from '../../../../executors/cost-model/step-cost.js';
import type { Workload } from '../../../../workload/workload.js';
import { AbortPlan } from '../../run/abort-plan.js';
import type { CallFailure } from '../client/call-failure.js';
import { type BodyOptions, completionBody } from '../client/completion-body.js';
import { type CallEnd, CompletionCall } from '../client/completion-call.js';
import type { HttpClient } from '../client/http-client.js';
import { CallPlaces } from './call-places.js';
import { HttpMeasurements, type Seen } from './http-measurements.js';
import type { EndedRequest, HttpObserver } from './http-observer.js';

/** How a workload is replayed over HTTP. */
export interface HttpReplayOptions extends BodyOptions {
  /** Requests arrive this many times as fast as in the workload. */
  readonly speedUp: number;
  /** Fraction of the requests that are aborted. */
  readonly abortRate: number;
  readonly seed: number;
  /** Most requests under way at once; null: no limit. */
  readonly concurrency: number | null;
  /** Most milliseconds of a request. */
  readonly timeoutMs: number;
}

/** A request that was sent and has not ended. */
interface Live {
  readonly seen: Seen;
  /** Null until the request is sent. */
  call: CompletionCall | null;
  /** Timer of the planned abort; null: none is planned. */
  abort: NodeJS.Timeout | null;
}

/** The server counts as gone after this many calls in a row that cannot reach it. */
const GONE_AFTER = 3;
/** Estimates the life of a request until requests have ended. */
const USUAL_COST = costOf(DEFAULT_COST_MODEL);
/** The longest time of Node's timers. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Sends the requests of a workload to a server, each at its real time of arrival, and reads the
 * answers.
 *
 * The replay in virtual time aborts the same requests. The time of an abort follows from the
 * expected life of the request. This is its life under the default cost model, times the factor by
 * which the server was slower lately.
 */
export class HttpReplay {
  readonly measurements = new HttpMeasurements();
  readonly #workload: Workload;
  readonly #client: HttpClient;
  readonly #options: HttpReplayOptions;
  readonly #aborts: AbortPlan;
  readonly #places: CallPlaces;
  readonly #live = new Set<Live>();
  /** Aborted when no further request is to be sent. */
  readonly #ending = new AbortController();
  #observer: HttpObserver | null = null;
  #startMs = 0;
  #endMs: number | null = null;
  /**
   * The next request to be sent, and the first request whose arrival the observer does not know
   * yet.
   */
  #next = 0;
  #arrived = 0;
  #unreachableInRow = 0;
  #failure: string | null = null;
  #onIdle: (() => void) | null = null;

  constructor(workload: Workload, client: HttpClient, options: HttpReplayOptions) {
    this.#workload = workload;
    this.#client = client;
    this.#options = options;
    this.#aborts = new AbortPlan(options.abortRate, options.seed);
    this.#places = new CallPlaces(options.concurrency);
  }

  /** Milliseconds since the first arrival. After the end of the replay, the time of the end. */
  get nowMs(): number {
    return this.#endMs ?? performance.now() - this.#startMs;
  }

  /** When the last request arrives, in milliseconds. */
  get lastArrivalMs(): number {
    return this.#arrivalMs(this.#workload.length - 1);
  }

  /** Why the replay ended before all requests had ended; null: it did not. */
  get failure(): string | null {
    return this.#failure;
  }

  /** Sets the observer of later events. */
  observe(observer: HttpObserver): void {
    this.#observer = observer;
  }

  /**
   * Replays until every request has ended, until the signal is aborted, or until going on is
   * pointless (`failure`): the server denies access, or is gone.
   * @returns whether every request has ended
   */
  async run(signal: AbortSignal): Promise<boolean> {
    this.#startMs = performance.now();
    const interrupt = (): void => this.#stop();
    signal.addEventListener('abort', interrupt, { once: true });
    if (signal.aborted) interrupt();
    const ending = this.#ending.signal;
    while (this.#next < this.#workload.length && !ending.aborted) await this.#sendNext(ending);
    if (this.#live.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    signal.removeEventListener('abort', interrupt);
    this.#endMs = this.nowMs;
    return this.measurements.numEnded === this.#workload.length;
  }

  #arrivalMs(index: number): number {
    return this.#workload.arrivalMs[index] / this.#options.speedUp;
  }

  /**
   * Waits for the next arrival, and sends the request. The body is made before the wait, so that
   * sending is not late.
   */
  async #sendNext(ending: AbortSignal): Promise<void> {
    const index = this.#next;
    const body = completionBody(this.#workload, index, this.#options);
    await this.#until(this.#arrivalMs(index), ending);
    const freedMs = await this.#places.acquire();
    if (ending.aborted) return;
    const arrivalMs = this.#arrivalMs(index);
    // Waiting for a place is no lateness of the client.
    if (this.#options.concurrency !== null) this.measurements.heldMs.record(Math.max(0, freedMs - arrivalMs));
    this.#next++;
    this.#send(index, body, Math.max(arrivalMs, freedMs));
    // Requests that are due together must not delay each other's bytes.
    await setImmediate();
  }

  async #until(atMs: number, signal: AbortSignal): Promise<void> {
    while (this.nowMs < atMs && !signal.aborted) {
      const ms = Math.min(LONGEST_TIMER_MS, Math.ceil(atMs - this.nowMs));
      await sleep(ms, undefined, { signal }).catch(() => {});
    }
  }

  #send(index: number, body: Buffer, dueMs: number): void {
    const { timeoutMs } = this.#options;
    const arrivalMs = this.#arrivalMs(index);
    const promptTokens = this.#workload.inputTokens[index];
    const alone = aloneMs(USUAL_COST, promptTokens, this.#workload.outputTokens[index]);
    const abortAt = this.#aborts.draw(index, arrivalMs, alone);
    const sentMs = this.nowMs;
    if (abortAt !== null && abortAt <= sentMs) {
      // The client lost its patience while the request waited for a place.
      this.measurements.aborted++;
      this.#places.release(sentMs);
      return;
    }
    const lateMs = Math.max(0, sentMs - dueMs);
    this.measurements.lateMs.record(lateMs);
    const seen: Seen = { promptTokens, sentMs, chunks: 0, firstChunkMs: 0, lastChunkMs: 0 };
    const live: Live = { seen, call: null, abort: null };
    this.#live.add(live);
    this.#observer?.sent(sentMs, lateMs, this.#queuedOutside(sentMs));
    live.call = new CompletionCall(this.#client, body, timeoutMs, {
      chunk: () => this.#chunk(live),
      ended: (end) => this.#ended(live, end, alone),
    });
    if (abortAt === null) return;
    const abortMs = Math.min(LONGEST_TIMER_MS, abortAt - sentMs);
    live.abort = setTimeout(() => this.#abort(live), abortMs);
  }

  /** Requests that have arrived and wait for a place. */
  #queuedOutside(nowMs: number): number {
    const { length } = this.#workload;
    while (this.#arrived < length && this.#arrivalMs(this.#arrived) <= nowMs) this.#arrived++;
    return Math.max(0, this.#arrived - this.#next);
  }

  #chunk({ seen }: Live): void {
    this.#unreachableInRow = 0;
    const { nowMs } = this;
    const gapMs = this.measurements.chunk(seen, nowMs);
    this.#observer?.chunk(nowMs, gapMs, gapMs === null ? nowMs - seen.sentMs : null);
  }

  #abort(live: Live): void {
    live.call?.cut();
    this.measurements.aborted++;
    this.measurements.cut(live.seen);
    this.#forget(live, { e2eMs: null, unseenTokens: 0, cache: null });
  }

  #ended(live: Live, end: CallEnd, alone: number): void {
    const { seen } = live;
    const { failure, usage } = end;
    if (live.abort !== null && failure === null) this.measurements.abortsTooLate++;
    const tokens = this.measurements.ended(seen, end);
    const hasFinished = failure === null && seen.chunks > 0;
    const e2eMs = hasFinished ? seen.lastChunkMs - seen.sentMs : null;
    if (e2eMs !== null) this.#aborts.observe(e2eMs, alone);
    const isKnown = usage !== null && usage.cachedTokens !== null;
    const cache = isKnown ? { queries: usage.promptTokens, hits: usage.cachedTokens as number } : null;
    this.#forget(live, { e2eMs, unseenTokens: failure?.isRefusal ? 0 : tokens - seen.chunks, cache });
    this.#judge(failure);
  }

  /** Ends the replay if no other request can succeed. */
  #judge(failure: CallFailure | null): void {
    if (failure?.kind !== 'unreachable') this.#unreachableInRow = 0;
    else if (++this.#unreachableInRow >= GONE_AFTER) this.#stop(`the server is gone: ${failure.message}`);
    if (failure?.isHopeless) this.#stop(failure.message);
  }

  #forget(live: Live, how: Omit<EndedRequest, 'hadChunk'>): void {
    if (live.abort !== null) clearTimeout(live.abort);
    this.#live.delete(live);
    const { nowMs } = this;
    this.#places.release(nowMs);
    this.#observer?.ended(nowMs, { hadChunk: live.seen.chunks > 0, ...how });
    if (this.#live.size === 0) this.#onIdle?.();
  }

  /** Stops sending, and cuts the open requests, which stay unfinished. */
  #stop(failure: string | null = null): void {
    if (this.#ending.signal.aborted) return;
    this.#failure = failure;
    this.#ending.abort();
    this.#places.close();
    for (const live of this.#live) {
      live.call?.cut();
      if (live.abort !== null) clearTimeout(live.abort);
      this.measurements.cut(live.seen);
    }
    this.#live.clear();
    this.#onIdle?.();
  }
}
