// A server's requests become spans, as children of their clients'; preemptions, aborts and stops
// show in them.
import { type Attributes, trace } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { Engine, ReferenceExecutor } from 'blockstep';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { tracedServer, traceEngines } from '../../examples/opentelemetry.js';

const exporter = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
const tracer = trace.getTracer('test');
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

beforeEach(() => exporter.reset());

/** The ended spans of requests, by their ids; and those of steps. */
function spans(): { requests: Map<string, ReadableSpan>; steps: ReadableSpan[] } {
  const all = exporter.getFinishedSpans();
  const requests = all.filter(({ name }) => name !== 'step');
  return {
    requests: new Map(requests.map((span) => [String(span.attributes['gen_ai.request.id']), span])),
    steps: all.filter(({ name }) => name === 'step'),
  };
}

const eventsOf = ({ events }: ReadableSpan): string[] => events.map(({ name }) => name);

/** A traced engine with so many blocks of four tokens. */
function tracedEngine(numBlocks = 64): Engine {
  const sizes = { numBlocks, blockSize: 4, maxNumSeqs: 4, maxModelLen: 24 };
  const engine = new Engine({ ...sizes, executor: new ReferenceExecutor(sizes) });
  const stop = traceEngines(tracer, { model: 'm' });
  onTestFinished(() => {
    stop();
    engine.dispose();
  });
  return engine;
}

function stepAll(engine: Engine): void {
  while (engine.stats().streams > 0) engine.step();
}

describe('a traced server', () => {
  it('makes a span of each request, as a child of its client’s, whole or streamed', async () => {
    const app = await tracedServer(tracer);
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const ask = async (body: object, headers: Record<string, string> = {}): Promise<string> => {
      const response = await fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ prompt: 'one two one', max_tokens: 2, ignore_eos: true, ...body }),
      });
      return response.text();
    };
    const traceparent = `00-${TRACE}-${PARENT}-01`;
    const { id } = JSON.parse(await ask({}, { traceparent })) as { id: string };
    const streamed = await ask({ stream: true, max_tokens: 3 }, { traceparent });
    const alone = JSON.parse(await ask({})) as { id: string };
    await app.close();
    const { requests, steps } = spans();
    expect(requests.size).toBe(3);
    const span = requests.get(`${id}-0`)!;
    expect(span.name).toBe('text_completion my-model');
    expect(span.spanContext().traceId).toBe(TRACE);
    expect(span.parentSpanContext?.spanId).toBe(PARENT);
    expect(span.attributes).toMatchObject({
      'gen_ai.operation.name': 'text_completion',
      'gen_ai.request.model': 'my-model',
      'gen_ai.request.max_tokens': 2,
      'gen_ai.usage.input_tokens': 3,
      'gen_ai.usage.output_tokens': 2,
      'gen_ai.usage.cache_read.input_tokens': 0,
      'gen_ai.response.finish_reasons': ['length'],
    } satisfies Attributes);
    const seconds = (name: string): number => span.attributes[`gen_ai.latency.${name}`] as number;
    expect(seconds('time_in_queue')).toBeGreaterThanOrEqual(0);
    expect(seconds('time_to_first_token')).toBeGreaterThanOrEqual(seconds('time_in_queue'));
    expect(seconds('e2e')).toBeGreaterThanOrEqual(seconds('time_to_first_token'));
    expect(eventsOf(span)).toEqual(['admitted', 'first token']);
    const [, streamedId] = /"id":"([^"]+)"/.exec(streamed)!;
    expect(requests.get(`${streamedId}-0`)?.parentSpanContext?.spanId).toBe(PARENT);
    // A request without a parent of the client has none, and the steps are nobody's.
    expect(requests.get(`${alone.id}-0`)?.parentSpanContext).toBeUndefined();
    expect(steps.length).toBeGreaterThanOrEqual(7);
    for (const { parentSpanContext } of steps) expect(parentSpanContext).toBeUndefined();
  });
});

describe('spans of requests', () => {
  it('say when a request was preempted and went on', () => {
    // Seven blocks that can be used: both requests begin, and only one of them can have its six.
    const engine = tracedEngine(8);
    const prompt = [1, 2, 3, 4, 5, 6, 7, 8];
    for (const id of ['a', 'b'])
      engine.submit({ id, prompt: [id.charCodeAt(0), ...prompt.slice(1)], maxTokens: 16 });
    stepAll(engine);
    const { requests } = spans();
    expect(eventsOf(requests.get('a')!)).toEqual(['admitted', 'first token']);
    expect(eventsOf(requests.get('b')!)).toEqual(['admitted', 'preempted', 'resumed', 'first token']);
    expect(requests.get('b')!.attributes).toMatchObject({ 'gen_ai.usage.output_tokens': 16 });
  });

  it('end with their requests, however those end', () => {
    const engine = tracedEngine();
    const submit = (id: string) => engine.submit({ id, prompt: [1, 2, 3], maxTokens: 8 });
    submit('never').abort();
    engine.step();
    const stopped = submit('stopped');
    for (let i = 0; i < 3; i++) engine.step();
    stopped.stop('END');
    stepAll(engine);
    engine.step();
    const { requests } = spans();
    const never = requests.get('never')!.attributes;
    expect(never).toMatchObject({ 'gen_ai.response.finish_reasons': ['abort'] });
    expect(never).not.toHaveProperty('gen_ai.latency.time_to_first_token');
    expect(never).not.toHaveProperty('gen_ai.latency.time_in_queue');
    expect(requests.get('stopped')!.attributes).toMatchObject({ 'gen_ai.response.finish_reasons': ['stop'] });
  });

  it('are made while somebody wants them, and not longer', () => {
    const engine = tracedEngine();
    const stop = traceEngines(tracer, { model: 'other' });
    engine.submit({ id: 'open', prompt: [1, 2, 3], maxTokens: 8 });
    stop();
    // Requests that had not ended have ended for this listener; the other one goes on.
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(['text_completion other']);
    stepAll(engine);
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual([
      'text_completion other',
      'text_completion m',
    ]);
  });
});
