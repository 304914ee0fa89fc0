/**
 * A program that awaits requests of pipelines, one kind of wait after the other, while nothing but the pipeline keeps the process alive. It
 * must come to its end, and prints how each request ended.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ReferenceExecutor } from '../../../src/index.js';
import {
  MemoryTransport,
  Pipeline,
  type PipelineMessage,
  type PipelineStream,
  StageServer,
} from '../../../src/pipeline/index.js';

/** How long events of the world outside take, and the limits that nobody keeps, in milliseconds. */
const SOON_MS = 20;
const SIZES = { numBlocks: 64, blockSize: 4, maxNumSeqs: 4, maxModelLen: 128 };

function stage(name: string, limits: { stallMs?: number } = {}) {
  const engine = { ...SIZES, executor: new ReferenceExecutor(SIZES) };
  return { name, engine, chunkTokens: 4, maxChunksAhead: 1, ...limits };
}

/** Something that happens soon, and keeps no process alive. */
function outside(act: () => void): void {
  setTimeout(act, SOON_MS).unref();
}

/**
 * A pipeline that runs, whose last stage is elsewhere.
 * @param hears called with the messages to that stage; by default nobody has it
 * @param speed of the pipeline's clock, for limits that are no options
 */
function begin(
  limits: { stallMs?: number } = {},
  hears?: (message: PipelineMessage) => void,
  speed = 1,
  liveness: { pingMs?: number; deadMs?: number } = {},
) {
  const transport = new MemoryTransport();
  const far =
    hears === undefined ? null : transport.join('stage/far', { receive: hears, lost: () => undefined });
  const now = () => speed * performance.now();
  const stages = [stage('near', limits), { name: 'far', remote: true as const }];
  const pipeline = new Pipeline({ stages, transport, now, ...liveness });
  pipeline.run();
  return { pipeline, far };
}

function endOf(stream: PipelineStream): Promise<string> {
  return stream.result().then(
    ({ finishReason }) => finishReason,
    (error: Error) => error.message.replace(/[\d.]+ ms/g, ''),
  );
}

const AWAITS: Readonly<Record<string, () => Promise<string>>> = {
  'a stage elsewhere': async () => {
    const { pipeline, far } = begin({}, (message) => {
      if (message.kind !== 'submit') return;
      const { key, client } = message.submission;
      const failure = { code: 'ERR_BLOCKSTEP_REQUEST', message: 'late' } as const;
      outside(() => far?.send(client, { kind: 'failed', key, stage: 'far', failure }));
    });
    const end = await endOf(pipeline.submit({ prompt: [1, 2, 3], maxTokens: 2 }));
    await pipeline.shutdown();
    return end;
  },
  timeoutMs: async () => {
    const { pipeline } = begin();
    const end = await endOf(pipeline.submit({ prompt: [1, 2, 3], maxTokens: 2, timeoutMs: SOON_MS }));
    await pipeline.shutdown();
    return end;
  },
  stallMs: async () => {
    const { pipeline } = begin({ stallMs: SOON_MS });
    const end = await endOf(pipeline.submit({ prompt: [1, 2, 3], maxTokens: 40 }));
    await pipeline.shutdown();
    return end;
  },
  'a stage that nobody serves, after a short answer': async () => {
    const { pipeline } = begin({ stallMs: SOON_MS }, undefined, 1, { pingMs: SOON_MS, deadMs: SOON_MS });
    const end = await endOf(pipeline.submit({ prompt: [1, 2, 3], maxTokens: 4 }));
    await pipeline.shutdown();
    return end;
  },
  'a server of this process, for longer than it waits for a silent client': async () => {
    const transport = new MemoryTransport();
    const executor = new ReferenceExecutor(SIZES);
    const execute = executor.execute.bind(executor);
    executor.execute = async (...step) => {
      await sleep(SOON_MS);
      return execute(...step);
    };
    const far = { name: 'far', engine: { ...SIZES, executor } };
    const server = new StageServer({ stage: far, transport, deadMs: 8 * SOON_MS });
    server.run();
    const stages = [stage('near'), { name: 'far', remote: true as const }];
    const pipeline = new Pipeline({ stages, transport, pingMs: SOON_MS });
    pipeline.run();
    const end = await endOf(
      pipeline.submit({ prompt: [1, 2, 3], maxTokens: 4, stages: { far: { maxTokens: 30 } } }),
    );
    await pipeline.shutdown();
    await server.shutdown();
    return end;
  },
  'a chunk of a session': async () => {
    const pipeline = new Pipeline({ stages: [stage('near')] });
    pipeline.run();
    const stream = pipeline.submit({ prompt: [1, 2, 3], maxTokens: 2, resumable: true });
    outside(() => {
      stream.addChunk({ prompt: [4], maxTokens: 2 });
      stream.endInput();
    });
    const end = await endOf(stream);
    await pipeline.shutdown();
    return end;
  },
  'what a request waits for': async () => {
    const { pipeline } = begin({}, undefined, 8);
    const stream = pipeline.submit({ id: 'r', prompt: [1, 2, 3], maxTokens: 2 });
    const told = pipeline.explain('r');
    stream.abort();
    const text = await told;
    await pipeline.shutdown();
    return /does not answer$/.exec(text)?.[0] ?? text;
  },
  'a request of a server': async () => {
    const transport = new MemoryTransport();
    const server = new StageServer({ stage: stage('near', { stallMs: SOON_MS }), transport });
    server.run();
    const why = await new Promise<string>((resolve) => {
      const receive = (message: PipelineMessage) =>
        resolve(message.kind === 'failed' ? message.failure.message : message.kind);
      const client = transport.join('client/a', { receive, lost: () => undefined });
      const submission = {
        ...{ key: 'a.1', id: 'r', client: 'client/a', from: 'stage/before', to: null },
        ...{ wants: true, prompt: new Int32Array(0), fields: { maxTokens: 2 } },
      };
      client.send('stage/near', { kind: 'submit', submission });
    });
    await server.shutdown();
    return why.replace(/[\d.]+ ms/g, '');
  },
};

/** The timers and immediates that keep the process alive now: a pipeline may have both. */
function keeping(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /Timeout|Immediate/.test(name));
}

const ends: Record<string, unknown> = {};
for (const [what, live] of Object.entries(AWAITS)) {
  if (keeping().length > 0) throw new Error(`${keeping()} would keep the process alive for ${what}`);
  ends[what] = await live();
}
// A pipeline that runs and has nothing to do comes last: it must not keep the process from ending.
const pipeline = new Pipeline({ stages: [stage('near')] });
pipeline.run();
ends['a pipeline that is left'] = await endOf(pipeline.submit({ prompt: [1, 2, 3], maxTokens: 2 }));
process.stdout.write(JSON.stringify(ends));
setTimeout(() => process.exit(7), 10_000).unref();
