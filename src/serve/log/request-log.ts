import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { RequestResult } from '../../engine/outputs/outputs.js';
import { type ApiError, toApiError } from '../api/api-error.js';
import type { Generation } from '../reply/generation.js';
import { decode } from '../text/detokenizer.js';
import type { Vocabulary } from '../text/vocabulary.js';

/** The outcome of a request, besides its status. */
interface Outcome {
  /** The thrown error; undefined if there is none. */
  error?: unknown;
  generation?: Generation;
}

const LONGEST_PATH = 200;

/**
 * Writes one line for each HTTP request to the app's own log when its response is over. Nothing is
 * logged while tokens are streamed.
 *
 * Invariant: without `texts`, no line contains a client's text from a body, a model's answer, or a
 * key. A refusal with status 400 quotes the body, so its message is left out. Its `code` and
 * `param` give the reason.
 */
export class RequestLog {
  /** Decodes the generated tokens; null if prompts and answers are not logged. */
  readonly #texts: Vocabulary | null;
  readonly #outcomes = new WeakMap<ServerResponse, Outcome>();

  /** @param texts null if prompts and answers are not logged */
  constructor(texts: Vocabulary | null) {
    this.#texts = texts;
  }

  /**
   * Logs the requests of an app, and assigns each its id. Call this before other hooks are added,
   * because those may refuse requests.
   */
  watch(app: FastifyInstance): void {
    app.setGenReqId(requestIdOf);
    // An app without a log has no log level.
    const isLogged = (app.log.level as string | undefined) !== undefined;
    app.addHook('onRequest', (request, reply, done) => {
      reply.header('x-request-id', request.id);
      if (!isLogged) {
        done();
        return;
      }
      const startedAt = performance.now();
      const { raw } = reply;
      this.#outcomes.set(raw, {});
      raw.once('close', () => {
        const ended = this.#end(request, raw, performance.now() - startedAt);
        // A custom vocabulary may throw, which must not end the server.
        ended.catch((thrown: unknown) => request.log.error(thrown, 'the request could not be logged'));
      });
      done();
    });
  }

  /** Notes that the request generates text. */
  generates(response: ServerResponse, generation: Generation): void {
    const outcome = this.#outcomes.get(response);
    if (outcome !== undefined) outcome.generation = generation;
  }

  /** Notes that the request is answered with an error. @param error the thrown value */
  failed(response: ServerResponse, error: unknown): void {
    const outcome = this.#outcomes.get(response);
    if (outcome !== undefined) outcome.error = error;
  }

  async #end(request: FastifyRequest, response: ServerResponse, ms: number): Promise<void> {
    const { error, generation } = this.#outcomes.get(response) as Outcome;
    const all = generation === undefined ? [] : await resultsOf(generation);
    const results = all.filter((result) => result !== null);
    const thrown = error ?? generation?.failure ?? null;
    const failure = thrown === null ? null : toApiError(thrown);
    const { method, url, ip, log, body } = request;
    const line = {
      method,
      path: url.split('?')[0].slice(0, LONGEST_PATH),
      ip,
      // A client that left before there was an answer received no status.
      ...(response.headersSent && { status: response.statusCode }),
      ...(!response.writableFinished && { left: true }),
      ms: rounded(ms),
      ...(generation !== undefined && countsOf(generation, all)),
      ...(failure !== null && { error: reasonOf(failure, this.#texts !== null) }),
      // If the server itself refuses, the stack contains nothing useful.
      ...(failure !== null &&
        failure.status >= 500 &&
        failure !== thrown &&
        !isEnd(failure) && { err: thrown }),
      ...(this.#texts !== null && textsOf(body, results, this.#texts)),
    };
    log[levelOf(failure, response.statusCode, method)](line, 'request');
  }
}

function levelOf(
  failure: ApiError | null,
  status: number,
  method: string,
): 'error' | 'warn' | 'info' | 'debug' {
  if (failure !== null) return failure.status >= 500 && !isEnd(failure) ? 'error' : 'info';
  // A health check that reports a bad state has not failed itself.
  if (status >= 500) return 'warn';
  // Monitors and pages poll the routes that only read.
  return status < 400 && (method === 'GET' || method === 'HEAD') ? 'debug' : 'info';
}

/** Whether a request came during shutdown, as happens in every restart. */
function isEnd({ body }: ApiError): boolean {
  return body.error.code === 'shutdown';
}

/** The results of all choices, once all have ended; null for a choice that failed. */
function resultsOf({ choices }: Generation): Promise<(RequestResult | null)[]> {
  return Promise.all(choices.map(({ stream }) => stream.result().catch(() => null)));
}

function countsOf(generation: Generation, results: readonly (RequestResult | null)[]): object {
  const { choices, id } = generation;
  const ends = new Set(results.flatMap((result) => result?.finishReason ?? []));
  const firsts = results.flatMap((result) => result?.timings.firstTokenMs ?? []);
  const queued = results.flatMap((result) => result?.timings.firstScheduledMs ?? []);
  return {
    id,
    prompt_tokens: generation.numPromptTokens,
    cached_tokens: generation.numCachedTokens(results),
    output_tokens: generation.numOutputTokens,
    ...(choices.length > 1 && { choices: choices.length }),
    ...(ends.size > 0 && { finish_reason: [...ends].join(', ') }),
    // `queue_ms` is the longest wait of a choice for its first step. `first_token_ms` is the time
    // to the first token of any choice.
    ...(queued.length > 0 && { queue_ms: rounded(Math.max(...queued)) }),
    ...(firsts.length > 0 && { first_token_ms: rounded(Math.min(...firsts)) }),
  };
}

function reasonOf({ status, message, body }: ApiError, withTexts: boolean): object {
  const { code, param } = body.error;
  return { code, ...(param !== null && { param }), ...((status !== 400 || withTexts) && { message }) };
}

function textsOf(body: unknown, results: readonly RequestResult[], vocabulary: Vocabulary): object {
  const { prompt, messages, input, instructions } = (body ?? {}) as Record<string, unknown>;
  const asked = messages ?? prompt ?? input;
  return {
    ...(asked !== undefined && { prompt: asked }),
    ...(instructions !== undefined && { instructions }),
    ...(results.length > 0 && { answers: results.map(({ tokens }) => decode(vocabulary, tokens)) }),
  };
}

/** Milliseconds, rounded to hundredths. */
function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

/** One to 128 printable ASCII characters. */
const GOOD = /^[\x20-\x7e]{1,128}$/;

/**
 * The id of an HTTP request, for the log and the `x-request-id` header of the response. The client
 * or a proxy may provide the id; otherwise it is new. The engine's ids are separate, since two
 * clients may send the same id.
 */
function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GOOD.test(given) ? given : randomUUID();
}
