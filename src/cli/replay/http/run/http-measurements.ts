import { Histogram } from '../../run/histogram.js';
import type { CallFailure } from '../client/call-failure.js';
import type { CallEnd } from '../client/completion-call.js';

/** What the client saw of one request. Times are milliseconds since the first arrival. */
export interface Seen {
  readonly promptTokens: number;
  readonly sentMs: number;
  chunks: number;
  firstChunkMs: number;
  lastChunkMs: number;
}

/** What a client counts as it replays. Times are real milliseconds, by its own clock. */
export class HttpMeasurements {
  /** Requests that ended by themselves, by what the server gave as the reason. */
  readonly finished: Record<string, number> = {};
  aborted = 0;
  /** Planned aborts that found their requests ended. */
  abortsTooLate = 0;
  /** Requests that the server refused because it had too much to do (status 429). */
  refused = 0;
  /** Requests that failed, by how. */
  readonly failed: Record<string, number> = {};
  /** What was said of the first of them. */
  firstFailure: string | null = null;
  /** Tokens of the prompts of the requests that were sent and not refused: by the server's count, else by the trace's. */
  promptTokens = 0;
  generatedTokens = 0;
  /** Of these, those that are chunks, counted: the server did not say how many tokens were in them. */
  generatedAsChunks = 0;
  /** Prompt tokens of the requests of which the server says how many were cached, and how many were; null: it never says. */
  cache: { queries: number; hits: number } | null = null;
  /** From sending to the first chunk. */
  readonly ttftMs = new Histogram();
  /** Between one chunk and the next one of the same request. */
  readonly itlMs = new Histogram();
  /** Mean time between the tokens of a request, for those that finished with two or more. */
  readonly tpotMs = new Histogram();
  /** From sending to the last chunk, for those that finished. */
  readonly e2eMs = new Histogram();
  /** How late requests were sent: behind their arrival or, where they had to wait for a place, behind the moment they had one. */
  readonly lateMs = new Histogram();
  /** How long requests waited for a place among those that may be under way at once. */
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

  /** A chunk has come. @returns milliseconds since the one before, or null if it is the first one */
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

  /** A request has ended by itself. @returns how many tokens were generated */
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

  /** The connection of a request was cut: what came of it counts. */
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
