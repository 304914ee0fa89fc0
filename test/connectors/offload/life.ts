import type { OffloadOptions } from '../../../src/connectors/offload/index.js';
import {
  Engine,
  type EngineOptions,
  type RequestResult,
  type RequestStream,
  type SubmitInput,
} from '../../../src/index.js';
import { Verdict } from '../../../src/transfer.js';
import { wordy } from '../../executors/reference/support.js';
import { Random, settled } from '../../support/engine-bench.js';
import { Ranks } from '../support/ranks.js';
import { OffloadBench, SEED, SIZES } from './support.js';

/** A random life of an engine with an offload. */
export interface Life {
  seed: number;
  engine: Partial<EngineOptions>;
  numRanks: number;
  hostBlocks: number;
  realLanes: boolean;
  /** A disk tier. */
  disk?: OffloadOptions['disk'];
  /** Requests, and how many different prompts they have. */
  numRequests: number;
  numPrompts: number;
  /** Percent of the requests that are aborted, that are sessions, and of the copies that fail. */
  aborts: number;
  sessions: number;
  failures: number;
}

/** One request of a life, decided before the life begins. */
interface Part {
  readonly input: SubmitInput;
  /** The chunks of a session. */
  readonly chunks: readonly Int32Array[];
  /** Rounds after the submission; -1 = never. */
  readonly abortAfter: number;
}

export interface Lived {
  bench: OffloadBench;
  /** Tokens and finish reason of each request, in order. */
  ends: { tokens: number[]; finishReason: string | null }[];
  /** The tokens that an engine with an unlimited pool and no connector generates. */
  expected: number[][];
}

function parts({ seed, numRequests, numPrompts, aborts, sessions }: Life): Part[] {
  const random = new Random(seed);
  return Array.from({ length: numRequests }, (_, i) => {
    const which = random.below(numPrompts);
    const isSession = random.chance(sessions);
    const input = {
      id: `r${i}`,
      prompt: wordy(13 + 5 * (which % 5), which),
      maxTokens: 3 + random.below(9),
      priority: random.below(3),
      ...(isSession && { resumable: true }),
    };
    const chunks = isSession
      ? Array.from({ length: random.below(3) }, (_, c) => wordy(2 + c, which + c))
      : [];
    return { input, chunks, abortAfter: random.chance(aborts) ? random.below(30) : -1 };
  });
}

function submit(engine: Engine, { input, chunks }: Part): RequestStream {
  const stream = engine.submit(input);
  const { maxTokens } = input;
  for (const prompt of chunks) stream.addChunk({ prompt, maxTokens });
  if (input.resumable === true) stream.endInput();
  return stream;
}

/** The texts that an engine gives that never runs out of blocks and moves none. */
async function unlimited(all: readonly Part[], engine: Partial<EngineOptions>): Promise<number[][]> {
  // Texts depend on none of these.
  const { numSpeculativeTokens: _, pipelineDepth: __, kvGroups: ___, ...rest } = engine;
  const sizes = { ...SIZES, ...rest, numBlocks: 10_000, enablePrefixCaching: false };
  const executor = new Ranks(1, { ...sizes, seed: SEED });
  const plain = new Engine({ ...sizes, hashSeed: 7, strict: true, executor });
  const texts = all.map(async (part) => [...(await submit(plain, part).result()).tokens]);
  while (plain.hasWork()) {
    plain.step();
    executor.waiting.shift()?.();
    await settled();
  }
  const expected = await Promise.all(texts);
  plain.dispose();
  executor.dispose();
  return expected;
}

export async function live(life: Life): Promise<Lived> {
  const all = parts(life);
  const expected = await unlimited(all, life.engine);
  const { engine: own, numRanks, hostBlocks, realLanes, disk } = life;
  const bench = new OffloadBench({
    engine: own,
    numRanks,
    offload: { hostBlocks, storeEvery: life.seed % 2 === 0 ? 8 : 1, ...(disk && { disk }) },
    realLanes,
  });
  const { engine, executor } = bench;
  if (disk) {
    // The disk's thread takes longer to begin than a life takes.
    await bench.serve({ prompt: wordy(9, 1000), maxTokens: 1 });
    await bench.restDisk();
  }
  const random = new Random(life.seed + 1);
  const streams: RequestStream[] = [];
  const results: Promise<RequestResult>[] = [];
  const aborts = new Map<RequestStream, number>();
  for (let round = 0; streams.length < all.length || engine.hasWork(); round++) {
    if (round > 60_000) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
    bench.time += random.below(3);
    if (streams.length < all.length && random.chance(35)) {
      const part = all[streams.length];
      const stream = submit(engine, part);
      streams.push(stream);
      results.push(stream.result());
      results.at(-1)?.catch(() => {});
      if (part.abortAfter >= 0) aborts.set(stream, round + part.abortAfter);
    }
    for (const [stream, at] of aborts) if (at === round) stream.abort();
    engine.step();
    if (random.chance(70)) executor.waiting.shift()?.();
    await settled();
    for (const lane of bench.lanes) {
      if (random.chance(50)) lane.next(random.chance(life.failures) ? Verdict.failed : Verdict.ok);
    }
    if (round % 16 === 0) engine.verify();
    // The lanes' threads want a turn, and so does the disk's: a virtual engine is far faster than it.
    const isBusy = (bench.connector.stats().disk?.inFlight ?? 0) > 0;
    if (isBusy || (realLanes && random.chance(20))) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const ends = await Promise.all(
    results.map((result) =>
      result.then(
        ({ tokens, finishReason }) => ({ tokens: [...tokens], finishReason }),
        () => ({ tokens: [], finishReason: 'error' }),
      ),
    ),
  );
  await bench.restDisk();
  return { bench, ends, expected };
}
