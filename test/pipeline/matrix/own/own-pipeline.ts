import type { Executor, ExecutorPlan, ExecutorResult } from '../../../../src/index.js';
import { Pipeline, type PipelineStream, type StageOptions } from '../../../../src/pipeline/index.js';
import { STEP_TICKS } from '../as-reported/reported-pipeline.js';
import { type Shape, shapeOf } from '../stages/flow.js';
import type { RequestState, Subject, SubjectOptions } from '../subject.js';

const SIZES = { blockSize: 16, maxNumBatchedTokens: 512, maxModelLen: 512 };
/** Tokens of a chunk between two stages. */
const CHUNK = 2;
const TOKEN = 5;

/** Computes a step in so many ticks of virtual time. */
class SlowExecutor implements Executor {
  readonly #ticks: number;
  readonly #now: () => number;
  readonly #open: { readonly until: number; readonly answer: () => void }[] = [];

  constructor(ticks: number, now: () => number) {
    this.#ticks = ticks;
    this.#now = now;
  }

  execute({ numRequests, maxOutputTokens }: ExecutorPlan): Promise<ExecutorResult> {
    // The plan's arrays are the engine's.
    const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
    const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(TOKEN);
    return new Promise((resolve) => {
      this.#open.push({ until: this.#now() + this.#ticks, answer: () => resolve({ tokens, counts }) });
    });
  }

  /** Answers what is due. */
  tick(): void {
    while (this.#open[0] !== undefined && this.#open[0].until <= this.#now()) this.#open.shift()?.answer();
  }
}

interface Client {
  readonly stream: PipelineStream;
  readonly expected: number;
  chunks: number;
  outcome: RequestState['outcome'];
}

/**
 * The three stages that were reported, as a `Pipeline`: nothing is borrowed, and a parked request
 * is in no queue.
 */
export class OwnPipeline implements Subject {
  readonly reusesIds = true;
  readonly died = null;
  readonly #pipeline: Pipeline;
  readonly #executors: readonly SlowExecutor[];
  readonly #clients = new Map<string, Client>();
  readonly #shapes = new Map<string, Shape>();
  readonly #options: SubjectOptions;
  #now = 0;

  constructor(options: SubjectOptions) {
    this.#options = options;
    const now = (): number => this.#now;
    this.#executors = STEP_TICKS.map((ticks) => new SlowExecutor(ticks, now));
    const numBlocks = 1 + (options.maxNumSeqs * 2 * SIZES.maxModelLen) / SIZES.blockSize;
    const sizes = { ...SIZES, numBlocks, maxNumSeqs: options.maxNumSeqs, hashSeed: 7, strict: true, now };
    const engine = (stage: number): StageOptions['engine'] => ({
      ...sizes,
      executor: this.#executors[stage] as SlowExecutor,
    });
    this.#pipeline = new Pipeline({
      stages: [
        { name: 'text', engine: engine(0), chunkTokens: CHUNK },
        {
          ...{ name: 'codes', engine: engine(1), chunkTokens: CHUNK },
          input: ({ id, tokens }) =>
            tokens.length === 0
              ? null
              : { prompt: tokens, maxTokens: codesFor(this.#shape(id), tokens.length) },
        },
        { name: 'sound', kind: 'generation', engine: engine(2) },
      ],
      now,
    });
  }

  submit(id: string, seed: number): void {
    const shape = shapeOf(seed, this.#options);
    this.#shapes.set(id, shape);
    const stream = this.#pipeline.submit({ id, prompt: [3, 3, 3, 3], maxTokens: shape.text });
    const client: Client = { stream, expected: soundsOf(shape), chunks: 0, outcome: null };
    this.#clients.set(id, client);
    void listen(client);
  }

  abort(id: string): void {
    const client = this.#clients.get(id);
    if (client === undefined || client.outcome !== null) return;
    client.outcome = 'aborted';
    client.stream.abort();
  }

  async advance(): Promise<void> {
    this.#now++;
    for (const executor of this.#executors) executor.tick();
    await this.#pipeline.step();
  }

  read(id: string): RequestState {
    return this.#clients.get(id) as Client;
  }

  /** The counts of the events that guards found, and of every other anomaly: none is expected. */
  get guards(): Record<string, number> {
    const sum: Record<string, number> = {};
    const { anomalies, stages } = this.#pipeline.stats();
    const all = Object.values(stages).flatMap((stage) =>
      'engine' in stage ? [stage.anomalies, stage.engine.scheduler.anomalies] : [],
    );
    // A chunk that was on its way when its request was aborted: a race, and no guard.
    for (const counts of [anomalies, ...all])
      for (const [reason, count] of Object.entries(counts))
        if (reason !== 'chunk-unknown') sum[reason] = (sum[reason] ?? 0) + count;
    return sum;
  }

  /** Requests that a stage keeps though they have ended. */
  get lostPlaces(): number {
    const { stages } = this.#pipeline.stats();
    const kept = Object.values(stages).reduce((sum, { requests = 0 }) => sum + requests, 0);
    return this.#pipeline.numUnfinished === 0 ? kept : 0;
  }

  verify(): void {
    this.#pipeline.verify();
  }

  dispose(): void {
    void this.#pipeline.shutdown({ drainMs: 0 });
  }

  #shape(id: string): Shape {
    return this.#shapes.get(id) as Shape;
  }
}

/** Codes that the second stage makes of a chunk of text: its share of all codes. */
function codesFor({ codes, text }: Shape, tokens: number): number {
  return Math.max(1, Math.round((codes * tokens) / text));
}

/** Chunks that come out: one for each chunk of codes, and the answer to each chunk of text ends one. */
function soundsOf(shape: Shape): number {
  let sounds = 0;
  for (let left = shape.text; left > 0; left -= CHUNK)
    sounds += Math.ceil(codesFor(shape, Math.min(CHUNK, left)) / CHUNK);
  return sounds;
}

async function listen(client: Client): Promise<void> {
  try {
    for await (const { tokens, continues, finishReason } of client.stream) {
      client.chunks += tokens.length;
      if (!continues && finishReason !== null && client.outcome === null)
        client.outcome = client.chunks === client.expected ? 'completed' : 'error';
    }
  } catch {
    client.outcome ??= 'error';
  }
}
