import { Histogram } from '../../run/histogram.js';
import type { CallFailure } from '../client/call-failure.js';
import type { CallEnd } from '../client/completion-call.js';

/** The client's view of one request. Times are milliseconds since the first arrival. */
export interface Seen {
  readonly promptTokens: number;
  readonly sentMs: number;
  chunks: number;
  firstChunkMs: number;
  lastChunkMs: number;
}

/** The counts of a client during a replay. Times are real milliseconds, by its own clock. */
export class HttpMeasurements {
  /** Requests that ended by themselves, by the server's reason. */
  readonly finished: Record<string, number> = {};
  aborted = 0;
  /** Planned aborts that found their requests ended. */
  abortsTooLate = 0;
  /** Requests that the server refused because of overload (status 429). */
  refused = 0;
  /** Requests that failed, by kind. */
  readonly failed: Record<string, number> = {};
  /** The message of the first failure. */
  firstFailure: string | null = null;
  /**
   * Prompt tokens of the requests that were sent and not refused: by the server's count, else by
   * the trace's.
   */
  promptTokens = 0;
  generatedTokens = 0;
  /**
   * The part of the generated tokens that was counted as chunks, because the server did not report
   * a number of tokens.
   */
  generatedAsChunks = 0;
  /**
   * Prompt tokens of the requests whose cached tokens the server reports, and the number of cached
   * tokens; null: the server never reports them.
   */
  cache: { queries: number; hits: number } | null = null;
  /** From sending to the first chunk. */
  readonly ttftMs = new Histogram();
  /** Between one chunk and the next one of the same request. */
  readonly itlMs = new Histogram();
  /** Mean time between the tokens of a request that finished with two or more. */
  readonly tpotMs = new Histogram();
  /** From sending to the last chunk, for requests that finished. */
  readonly e2eMs = new Histogram();
  /**
   * How late requests were sent, counted from their arrival. A request that waited for a place
   * counts from the moment when it had a place.
   */
  readonly lateMs = new Histogram();
  /** How long requests waited for a place under the limit of concurrent requests. */
  readonly heldMs = new Histogram();

  get numFinished(): number {
    return sum(this.finished);
  }

  get numFailed(): number {
    return sum(this.failed);
  }

  /** Requests that reached an end of any kind. */
  get numEnded(): number {
    return this.numFinished + this.aborted + this.refused + this.numFailed;
  }

  /** Counts a chunk. @returns milliseconds since the previous chunk, or null for the first chunk */
  chunk(seen: Seen, nowMs: number): number | null {
    const gap = seen.chunks === 0 ? null : nowMs - seen.lastChunkMs;
    seen.chunks++;
    seen.lastChunkMs = nowMs;
    if (gap === null) {
      seen.firstChunkMs = nowMs;
      this.ttftMs.record(nowMs - seen.sentMs);
    } else this.itlMs.record(gap);
    return gap;
  }

  /** Counts a request that ended by itself. @returns how many tokens were generated */
  ended(seen: Seen, { finishReason, usage, failure }: CallEnd): number {
    if (failure?.isRefusal) {
      this.refused++;
      return 0;
    }
    this.promptTokens += usage?.promptTokens ?? seen.promptTokens;
    if (usage !== null && usage.cachedTokens !== null) {
      this.cache ??= { queries: 0, hits: 0 };
      this.cache.queries += usage.promptTokens;
      this.cache.hits += usage.cachedTokens;
    }
    const tokens = usage?.generatedTokens ?? seen.chunks;
    this.generatedTokens += tokens;
    if (usage === null) this.generatedAsChunks += seen.chunks;
    if (failure !== null) this.#fail(failure);
    else this.#finish(seen, finishReason ?? 'none', tokens);
    return tokens;
  }

  /** Counts a request whose connection was cut, with its tokens so far. */
  cut(seen: Seen): void {
    this.promptTokens += seen.promptTokens;
    this.generatedTokens += seen.chunks;
    this.generatedAsChunks += seen.chunks;
  }

  #fail({ kind, message }: CallFailure): void {
    this.failed[kind] = (this.failed[kind] ?? 0) + 1;
    this.firstFailure ??= message;
  }

  #finish({ chunks, sentMs, firstChunkMs, lastChunkMs }: Seen, reason: string, tokens: number): void {
    this.finished[reason] = (this.finished[reason] ?? 0) + 1;
    if (chunks === 0) return;
    this.e2eMs.record(lastChunkMs - sentMs);
    if (tokens > 1) this.tpotMs.record((lastChunkMs - firstChunkMs) / (tokens - 1));
  }
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
