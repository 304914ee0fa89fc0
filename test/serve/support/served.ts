import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { onTestFinished } from 'vitest';
import { Engine, type EngineOptions, ReferenceExecutor } from '../../../src/index.js';
import { blockstepServer, type ServeOptions } from '../../../src/serve/index.js';

/** The name of the model that tests ask for. */
export const MODEL = 'test-model';

/** How a server is made. */
export interface Served {
  engine?: Partial<EngineOptions>;
  serve?: Partial<ServeOptions>;
  /** Milliseconds that a step takes; default: none. */
  latencyMs?: number;
  /** Options of Fastify itself. */
  app?: FastifyServerOptions;
  /** Routes and hooks of the test itself. */
  add?: (app: FastifyInstance) => void;
}

/** A server over a reference executor, which listens on a free port until the test ends. */
export async function serve({
  engine: engineOptions,
  serve: serveOptions,
  app: appOptions,
  latencyMs,
  add,
}: Served = {}) {
  const sizes = {
    numBlocks: 2049,
    blockSize: 16,
    maxNumSeqs: 64,
    maxNumBatchedTokens: 2048,
    maxModelLen: 2048,
    pipelineDepth: 1 as const,
    ...engineOptions,
  };
  const { executor: own, ...rest } = sizes;
  const executor =
    own ?? new ReferenceExecutor({ ...rest, seed: 1, ...(latencyMs !== undefined && { latencyMs }) });
  const engine = new Engine({ ...rest, executor });
  const app = fastify({ forceCloseConnections: true, ...appOptions });
  add?.(app);
  await app.register(blockstepServer, { engine, model: { id: MODEL }, drainMs: 1000, ...serveOptions });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => app.close());
  const post = (path: string, body: unknown, init: RequestInit = {}): Promise<Response> => {
    const { headers, ...others } = init;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const json = { 'content-type': 'application/json', ...(headers as Record<string, string>) };
    return fetch(url + path, {
      method: 'POST',
      ...(text !== '' && { body: text, headers: json }),
      ...others,
    });
  };
  return { engine, executor, app, url, post };
}

/**
 * The fields of a server's answers, as far as tests read them; each kind of answer has some of
 * these.
 */
export interface Answer {
  readonly id: string;
  readonly choices: readonly {
    readonly index: number;
    readonly text: string;
    readonly delta: { readonly role?: string; readonly content?: string };
    readonly message: { readonly role: string; readonly content: string };
    readonly finish_reason: string | null;
    readonly stop_reason: string | number | null;
    readonly logprobs: {
      readonly content?: readonly { readonly token: string; readonly top_logprobs: readonly object[] }[];
      readonly tokens?: readonly string[];
      /** Null for the first token of an echo. */
      readonly token_logprobs?: readonly (number | null)[];
      readonly top_logprobs?: readonly object[];
      readonly text_offset?: readonly number[];
    } | null;
  }[];
  readonly usage: {
    readonly completion_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
  readonly error: { readonly message: string; readonly param: string | null; readonly code: string | null };
  readonly tokens: number[];
  readonly token_strs: string[];
}

/** The body of an answer. */
export async function answerOf(response: Response | Promise<Response>): Promise<Answer> {
  return (await (await response).json()) as Answer;
}

/** The data of a stream's events, in order; the last one must be `[DONE]`, which is not among them. */
export async function eventsOf(response: Response): Promise<Answer[]> {
  const text = await response.text();
  const events = text.split('\n\n');
  if (events.pop() !== '') throw new Error(`the stream ends within an event: ${text.slice(-100)}`);
  const data = events.map((event) => {
    if (!event.startsWith('data: ')) throw new Error(`no event: ${event}`);
    return event.slice(6);
  });
  if (data.pop() !== '[DONE]') throw new Error(`the stream was not done: ${text.slice(-100)}`);
  return data.map((each) => JSON.parse(each) as Answer);
}

/** Whether an engine has nothing left: no request, no block in use, nobody waiting. */
export function isEmpty(engine: Engine): boolean {
  const { streams, scheduler } = engine.stats();
  return streams === 0 && scheduler.numRunning === 0 && scheduler.numWaiting === 0 && !engine.hasWork();
}
