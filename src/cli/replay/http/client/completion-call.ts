import type { ClientRequest, IncomingMessage } from 'node:http';
import { CallFailure, oneLine, statusFailure, wordsOf } from './call-failure.js';
import { EventReader } from './event-reader.js';
import { errorInWords, type HttpClient, TextCollector } from './http-client.js';

/** The tokens of a completion, as the server counts them. */
export interface CallUsage {
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** Tokens of the prompt that the server had cached; null: the server does not say. */
  readonly cachedTokens: number | null;
}

/** The end of a call that was not cut. */
export interface CallEnd {
  /** Null: a complete stream without a reason. */
  readonly finishReason: string | null;
  /** Null: the server did not say. */
  readonly usage: CallUsage | null;
  /** Null: the answer was complete. */
  readonly failure: CallFailure | null;
}

/** The receiver of a call's events. */
export interface CallReader {
  /** A chunk of text has arrived. */
  chunk(): void;
  /** The call has ended. Called once, as the last event, and never after `cut`. */
  ended(end: CallEnd): void;
}

/** Most characters that are kept of the body of an error. */
const MOST_ERROR = 4096;
/** Most characters of a finish reason. */
const MOST_REASON = 40;

/** One streamed completion: `POST /v1/completions`, and its answer. */
export class CompletionCall {
  readonly #client: HttpClient;
  readonly #body: Buffer;
  readonly #reader: CallReader;
  readonly #timer: NodeJS.Timeout;
  #request: ClientRequest;
  #isOver = false;
  #finishReason: string | null = null;
  #usage: CallUsage | null = null;

  /**
   * Sends the request.
   * @param body JSON, as UTF-8
   * @param timeoutMs most milliseconds until the end of the answer
   */
  constructor(client: HttpClient, body: Buffer, timeoutMs: number, reader: CallReader) {
    this.#client = client;
    this.#body = body;
    this.#reader = reader;
    const late = `the answer was not whole after ${timeoutMs / 1000} s`;
    this.#timer = setTimeout(() => this.#fail(new CallFailure('timed out', late)), timeoutMs);
    this.#request = this.#send(true);
  }

  /** Cuts the connection, like a client that lost its patience. */
  cut(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#request.destroy();
  }

  #send(mayResend: boolean): ClientRequest {
    const request = this.#client.begin('POST', '/v1/completions', {
      'content-type': 'application/json',
      'content-length': this.#body.length,
      accept: 'text/event-stream',
    });
    let hasAnswer = false;
    request.on('response', (response) => {
      hasAnswer = true;
      this.#read(response);
    });
    request.on('error', (error) => {
      if (this.#isOver || hasAnswer) return;
      // A server may close a kept connection just when a request is sent over it. The server has
      // not seen that request.
      const isStale = request.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      if (isStale && mayResend) this.#request = this.#send(false);
      else this.#fail(new CallFailure(brokeOff(error) ? 'broken off' : 'unreachable', errorInWords(error)));
    });
    request.end(this.#body);
    return request;
  }

  #read(response: IncomingMessage): void {
    const type = response.headers['content-type'] ?? 'no content type';
    if (response.statusCode !== 200) this.#readError(response);
    else if (/^text\/event-stream\b/i.test(type)) this.#readEvents(response);
    else {
      const what = `the server answers with ${type}, not with a stream of events (text/event-stream)`;
      this.#fail(new CallFailure('no event stream', what));
    }
  }

  #readError(response: IncomingMessage): void {
    const status = response.statusCode as number;
    const body = new TextCollector(response, MOST_ERROR);
    const over = (): void => this.#end(statusFailure(status, body.text));
    response.on('end', over).on('error', over);
  }

  #readEvents(response: IncomingMessage): void {
    const events = new EventReader((data) => this.#event(data));
    response.setEncoding('utf8');
    response.on('data', (piece: string) => events.push(piece));
    response.on('end', () => this.#streamEnded('the stream ended without an end of its text'));
    response.on('error', (error) => this.#streamEnded(errorInWords(error)));
  }

  /** The text is complete once it has an end, even if the connection breaks afterwards. */
  #streamEnded(how: string): void {
    this.#end(this.#finishReason === null ? new CallFailure('broken off', how) : null);
  }

  #event(data: string): void {
    if (this.#isOver) return;
    if (data === '[DONE]') {
      this.#end(null);
      return;
    }
    let body: unknown;
    try {
      body = JSON.parse(data);
    } catch {
      // Falls through: a body that is no JSON is no object either.
    }
    if (typeof body !== 'object' || body === null) {
      this.#fail(new CallFailure('unreadable', `an event is no JSON object: ${wordsOf(data)}`));
      return;
    }
    const { error, choices, usage } = body as Record<string, unknown>;
    if (error !== undefined && error !== null) {
      this.#fail(new CallFailure('error while streaming', wordsOf(JSON.stringify({ error }))));
      return;
    }
    this.#usage = readUsage(usage) ?? this.#usage;
    const [choice] = Array.isArray(choices) ? (choices as unknown[]) : [];
    if (typeof choice !== 'object' || choice === null) return;
    const { finish_reason: reason } = choice as Record<string, unknown>;
    if (typeof reason === 'string') this.#finishReason = oneLine(reason).slice(0, MOST_REASON);
    this.#reader.chunk();
  }

  /** Ends the call and its connection, whose further bytes are useless. */
  #fail(failure: CallFailure): void {
    this.#end(failure);
    this.#request.destroy();
  }

  #end(failure: CallFailure | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#reader.ended({ finishReason: this.#finishReason, usage: this.#usage, failure });
  }
}

/** Whether an established connection broke, as opposed to a connection that failed. */
function brokeOff(error: Error): boolean {
  return ['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function readUsage(usage: unknown): CallUsage | null {
  if (typeof usage !== 'object' || usage === null) return null;
  const { prompt_tokens, completion_tokens, prompt_tokens_details } = usage as Record<string, unknown>;
  if (!isCount(prompt_tokens) || !isCount(completion_tokens)) return null;
  const cached = (prompt_tokens_details as { cached_tokens?: unknown } | null | undefined)?.cached_tokens;
  return {
    promptTokens: prompt_tokens,
    generatedTokens: completion_tokens,
    cachedTokens: isCount(cached) ? cached : null,
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
