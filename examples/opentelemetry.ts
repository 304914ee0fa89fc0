/**
 * OpenTelemetry over an engine's diagnostics channels: a span for each request and, if wanted, for each step. The engine knows nothing
 * of it. Where a client sends a `traceparent`, its request's span is a child of the client's.
 *
 *     npx tsx examples/opentelemetry.ts
 *
 * serves one request and prints the spans. Attributes have the names of OpenTelemetry's conventions for generative AI, and of vLLM.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { pathToFileURL } from 'node:url';
import {
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { type ChannelPayloads, Engine, ReferenceExecutor } from 'blockstep';
import { blockstepServer } from 'blockstep/serve';
import fastify, { type FastifyInstance } from 'fastify';

type Name = keyof ChannelPayloads;

/** The state of a request that has not ended. */
interface Live {
  readonly span: Span;
  /** Milliseconds since 1970 at which it was added. */
  readonly addedAt: number;
  /** Whether its client has stopped it, by a string that it found: then the engine says `abort`. */
  isStopped: boolean;
}

/**
 * Makes spans of what all engines of this process do, until what it returns is called.
 * @param options.model the name of the model, for the spans' names
 * @param options.steps whether each step gets a span too; there are many
 */
export function traceEngines(tracer: Tracer, options: { model: string; steps?: boolean }): () => void {
  const live = new Map<string, Live>();
  const offs: (() => void)[] = [];
  const on = <N extends Name>(name: N, listener: (message: ChannelPayloads[N]) => void): void => {
    const listen = (message: unknown): void => listener(message as ChannelPayloads[N]);
    subscribe(name, listen);
    offs.push(() => unsubscribe(name, listen));
  };
  // A handle is one request of one engine; ids tell requests of several engines apart.
  const key = ({ id, handle }: { id: string; handle: number }): string => `${handle} ${id}`;

  on('blockstep:request:add', (message) => {
    // This runs within `engine.submit`: the active span is that of the code that submits.
    const span = tracer.startSpan(`text_completion ${options.model}`, {
      kind: SpanKind.SERVER,
      attributes: {
        'gen_ai.operation.name': 'text_completion',
        'gen_ai.provider.name': 'blockstep',
        'gen_ai.request.model': options.model,
        'gen_ai.request.id': message.id,
        'gen_ai.request.max_tokens': message.maxTokens,
        'gen_ai.usage.input_tokens': message.numPromptTokens,
      },
    });
    live.set(key(message), { span, addedAt: Date.now(), isStopped: false });
  });
  on('blockstep:request:admit', (message) => {
    const { resumed, numComputedTokens } = message;
    const span = live.get(key(message))?.span;
    span?.addEvent(resumed ? 'resumed' : 'admitted', { 'blockstep.computed_tokens': numComputedTokens });
    if (!resumed) span?.setAttribute('gen_ai.usage.cache_read.input_tokens', numComputedTokens);
  });
  on('blockstep:request:preempt', (message) => {
    live.get(key(message))?.span.addEvent('preempted');
  });
  on('blockstep:request:stop', (message) => {
    const request = live.get(key(message));
    if (request !== undefined) request.isStopped = true;
  });
  on('blockstep:request:finish', (message) => {
    const request = live.get(key(message));
    live.delete(key(message));
    // A request may have begun before anybody listened.
    if (request === undefined) return;
    const { span, addedAt, isStopped } = request;
    const { firstScheduledMs, firstTokenMs, endedMs } = message;
    const reason = isStopped ? 'stop' : message.reason;
    span.setAttributes({
      'gen_ai.usage.output_tokens': message.numOutputTokens,
      'gen_ai.response.finish_reasons': [reason],
      'gen_ai.latency.e2e': endedMs / 1000,
    });
    if (firstScheduledMs !== null) span.setAttribute('gen_ai.latency.time_in_queue', firstScheduledMs / 1000);
    if (firstTokenMs !== null) {
      span.setAttribute('gen_ai.latency.time_to_first_token', firstTokenMs / 1000);
      // The last one in the list, with the time at which it happened.
      span.addEvent('first token', {}, addedAt + firstTokenMs);
    }
    if (reason === 'error') span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  });
  if (options.steps) {
    on('blockstep:engine:step', ({ engine, step, numRequests, totalTokens, latencyMs, failed }) => {
      const now = Date.now();
      const attributes = {
        'blockstep.engine': engine,
        'blockstep.step': step,
        'blockstep.requests': numRequests,
        'blockstep.tokens': totalTokens,
      };
      // A step is nobody's child: it computes tokens of many requests.
      const span = tracer.startSpan('step', { startTime: now - latencyMs, attributes, root: true });
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(now);
    });
  }
  return () => {
    for (const off of offs) off();
    for (const { span } of live.values()) span.end();
    live.clear();
  };
}

/** A server whose requests are traced, each as a child of what its client's `traceparent` names. */
export async function tracedServer(tracer: Tracer): Promise<FastifyInstance> {
  const sizes = { numBlocks: 1024, blockSize: 16, maxNumSeqs: 64, maxModelLen: 2048 };
  const engine = new Engine({ ...sizes, executor: new ReferenceExecutor(sizes) });
  const model = 'my-model';
  const app = fastify({ forceCloseConnections: true });
  // From here on, and so within `engine.submit`, the client's span is the active one.
  app.addHook('preHandler', (request, _reply, done) => {
    context.with(propagation.extract(ROOT_CONTEXT, request.headers), done);
  });
  const stopTracing = traceEngines(tracer, { model, steps: true });
  await app.register(blockstepServer, { engine, model: { id: model } });
  // Behind the server's own end, which lets requests finish.
  app.addHook('onClose', (_app, done) => {
    stopTracing();
    done();
  });
  return app;
}

async function main(): Promise<void> {
  const { ConsoleSpanExporter, NodeTracerProvider, SimpleSpanProcessor } = await import(
    '@opentelemetry/sdk-trace-node'
  );
  // In your own program: an exporter to your collector, in a BatchSpanProcessor.
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(new ConsoleSpanExporter())],
  });
  provider.register();
  const app = await tracedServer(trace.getTracer('blockstep'));
  const headers = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
  const payload = { prompt: 'A rose is a rose is a', max_tokens: 4 };
  await app.inject({ method: 'POST', url: '/v1/completions', headers, payload });
  await app.close();
  await provider.shutdown();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
