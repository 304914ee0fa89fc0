import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { RequestResult } from '../../engine/outputs/outputs.js';
import { type ApiError, toApiError } from '../api/api-error.js';
import type { Generation } from '../reply/generation.js';
import { decode } from '../text/detokenizer.js';
import type { Vocabulary } from '../text/vocabulary.js';

/** What became of a request beside its status. */
interface Outcome {
  /** What was thrown; undefined: nothing. */
  error?: unknown;
  generation?: Generation;
}

const LONGEST_PATH = 200;

/**
 * Writes one line for each HTTP request when its answer is over: to the app's own log, and nothing while tokens come.
 *
 * Invariant: without `texts` no line has what a client wrote in a body, what the model answered, or a key. So the message of a refusal
 * with status 400 is left out, which quotes the body: its `code` and `param` say the reason.
 */
export class RequestLog {
  /** Makes text of what was generated; null: prompts and answers are not logged. */
  readonly #texts: Vocabulary | null;
  readonly #outcomes = new WeakMap<ServerResponse, Outcome>();

  /** @param texts null: prompts and answers are not logged */
  constructor(texts: Vocabulary | null) {
    this.#texts = texts;
  }

  /** Logs the requests of an app, and gives each its id. To be called before other hooks are added: those may refuse. */
  watch(app: FastifyInstance): void {
    app.setGenReqId(requestIdOf);
    // An app without a log has one without a level.
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
        // A vocabulary of the user's may throw, which is no reason for the server to end.
        ended.catch((thrown: unknown) => request.log.error(thrown, 'the request could not be logged'));
      });
      done();
    });
  }

  /** The request generates text. */
  generates(response: ServerResponse, generation: Generation): void {
    const outcome = this.#outcomes.get(response);
    if (outcome !== undefined) outcome.generation = generation;
  }

  /** The request is answered with an error. @param error what was thrown */
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
      // Who left before there was an answer has got none.
      ...(response.headersSent && { status: response.statusCode }),
      ...(!response.writableFinished && { left: true }),
      ms: rounded(ms),
      ...(generation !== undefined && countsOf(generation, all)),
      ...(failure !== null && { error: reasonOf(failure, this.#texts !== null) }),
      // Where the server itself refuses, there is nothing to be found in the stack.
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
  // A check that says how bad things are has not failed itself.
  if (status >= 500) return 'warn';
  // What only reads is asked again and again by monitors and pages.
  return status < 400 && (method === 'GET' || method === 'HEAD') ? 'debug' : 'info';
}

/** Whether a request came while the server was ending, as happens in every restart. */
function isEnd({ body }: ApiError): boolean {
  return body.error.code === 'shutdown';
}

/** The results of all choices, when all of them have ended; null for one that failed. */
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
    // The longest time that one of the choices waited for its first step, and the time to the first token of all.
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

/** Milliseconds, to a hundredth. */
function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

/** One to 128 printable characters of ASCII. */
const GOOD = /^[\x20-\x7e]{1,128}$/;

/**
 * The id of an HTTP request, for the log and the `x-request-id` of the answer: the one that the client or a proxy gave it, or a new one.
 * The engine has ids of its own: two clients may give the same.
 */
function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GOOD.test(given) ? given : randomUUID();
}
