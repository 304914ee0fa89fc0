// Random lives: the count of the queue is that of looking at every request.
import { describe, expect, it } from 'vitest';
import type {
  BlockstepError,
  EngineOptions,
  Request,
  RequestStream,
  SubmitInput,
} from '../../../src/index.js';
import { answerOf, EngineBench, leftovers, prompt, Random } from '../../support/engine-bench.js';
import { isQuick, thinned } from '../../support/share.js';

interface Known {
  readonly stream: RequestStream;
  readonly request: Request;
  readonly numPromptTokens: number;
}

/** Clients of an engine whose queue is bounded, and beside it what the queue is by looking at every request. */
class Life {
  readonly random: Random;
  readonly bench: EngineBench;
  readonly known: Known[] = [];
  readonly seen = { let: 0, overloaded: 0, unfit: 0, preempted: 0, late: 0, sessions: 0 };
  readonly #bounds: { requests: number; tokens: number };
  #ids = 0;

  constructor(seed: number, depth: 1 | 2 | 3) {
    this.random = new Random(seed);
    const { random } = this;
    const requests = random.chance(25) ? Number.POSITIVE_INFINITY : 1 + random.below(8);
    const tokens = random.chance(25) ? Number.POSITIVE_INFINITY : 8 + random.below(60);
    this.#bounds = { requests, tokens };
    const options: Partial<EngineOptions> = {
      numBlocks: 14,
      maxNumSeqs: 1 + random.below(5),
      maxModelLen: 40,
      pipelineDepth: depth,
      policy: random.chance(50) ? 'fcfs' : 'priority',
      enablePrefixCaching: random.chance(50),
      deadlines: { queue: random.chance(50) ? 40 : 0, streamingInput: 60 },
      maxQueuedRequests: requests,
      maxQueuedTokens: tokens,
    };
    this.bench = new EngineBench(options, depth > 1);
    this.bench.executor.answer = (plan) => {
      const answer = answerOf(plan);
      if (this.random.chance(4)) throw new Error('now and then');
      if (this.random.chance(6)) answer.errors.fill(1);
      return answer;
    };
  }

  /**
   * The queue by its definition: requests that were submitted, were in no plan, and have not ended.
   */
  queue(): { requests: number; tokens: number } {
    const waiting = this.known.filter(
      ({ stream, request }) => !stream.ended && !request.isFinished && request.firstScheduledAt < 0,
    );
    const tokens = waiting.reduce((sum, { numPromptTokens }) => sum + numPromptTokens, 0);
    return { requests: waiting.length, tokens };
  }

  check(): void {
    const { queuedRequests, queuedTokens, overloads } = this.bench.engine.stats();
    expect({ requests: queuedRequests, tokens: queuedTokens }).toEqual(this.queue());
    expect(overloads).toBe(this.seen.overloaded);
    this.bench.engine.verify();
  }

  async turn(): Promise<void> {
    const { random, bench } = this;
    const { engine } = bench;
    const act = random.below(100);
    const one = this.known[this.known.length - 1 - random.below(Math.min(6, this.known.length))];
    if (act < 45) this.submit();
    else if (act < 68) engine.step();
    else if (act < 76) await bench.executor.deliver();
    else if (act < 82) bench.time += random.below(25);
    else if (act < 84) engine.pause(random.chance(50) ? 'all' : 'new');
    else if (act < 88) engine.resume();
    else if (act < 89) engine.resetPrefixCache({ resetRunning: true });
    else if (one === undefined) return;
    else if (act < 92) one.stream.abort(random.chance(50) ? 'reason' : undefined);
    else if (act < 94) engine.abort(random.chance(50) ? one.stream.id : one.stream.handle);
    else if (act < 97 && one.request.session === null) one.stream.stop();
    else if (act < 99 && one.request.session !== null) {
      if (random.chance(50)) one.stream.endInput();
      else one.stream.addChunk({ prompt: prompt(1 + random.below(2)) });
    }
  }

  submit(): void {
    const { random, bench, seen } = this;
    const numPromptTokens = 1 + random.below(14);
    const input: SubmitInput = {
      id: `r${this.#ids++}`,
      prompt: prompt(numPromptTokens, random.below(3)),
      maxTokens: 1 + random.below(20),
      priority: random.below(3),
      resumable: random.chance(20),
    };
    if (random.chance(20)) input.timeoutMs = 1 + random.below(60);
    const { requests, tokens } = this.queue();
    const bounds = this.#bounds;
    const expected =
      numPromptTokens > bounds.tokens
        ? 'ERR_BLOCKSTEP_UNFIT'
        : requests + 1 > bounds.requests || tokens + numPromptTokens > bounds.tokens
          ? 'ERR_BLOCKSTEP_OVERLOADED'
          : 'let in';
    let told = 'let in';
    try {
      const stream = bench.engine.submit(input);
      const request = bench.engine.scheduler.getByHandle(stream.handle)!;
      this.known.push({ stream, request, numPromptTokens });
      seen.let++;
      if (input.resumable === true) seen.sessions++;
    } catch (error) {
      const { code, retryAfterMs } = error as BlockstepError;
      told = code;
      if (code === 'ERR_BLOCKSTEP_OVERLOADED') {
        seen.overloaded++;
        expect(retryAfterMs === null || (Number.isSafeInteger(retryAfterMs) && retryAfterMs! >= 0)).toBe(
          true,
        );
      } else seen.unfit++;
      expect(bench.engine.scheduler.get(input.id!)).toBe(undefined);
    }
    expect(told).toBe(expected);
  }

  async end(): Promise<void> {
    const { engine } = this.bench;
    engine.resume();
    for (const { stream, request } of this.known)
      if (request.session !== null && !request.isFinished) stream.endInput();
    await this.bench.finish();
    this.check();
    expect(this.queue()).toEqual({ requests: 0, tokens: 0 });
    expect(leftovers(engine)).toEqual([]);
    const { numPreemptions, queueTimeouts, requestTimeouts } = engine.stats().scheduler;
    this.seen.preempted = numPreemptions;
    this.seen.late = queueTimeouts + requestTimeouts;
    engine.dispose();
  }
}

// Pinned by: `Backlog`, where requests enter it and leave it, and `checkRoom` (overload.ts).
describe('the bounded queue in random lives', () => {
  const all: Life['seen'][] = [];

  it.each(thinned([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 1))(
    'seed %i: is what a walk over all requests finds, and refuses what that says',
    async (seed) => {
      for (const depth of [1, 2, 3] as const) {
        const life = new Life(100 * seed + depth, depth);
        for (let i = 0; i < 400; i++) {
          await life.turn();
          life.check();
        }
        await life.end();
        all.push(life.seen);
      }
    },
  );

  it.skipIf(isQuick)('had everything in it', () => {
    for (const name of ['let', 'overloaded', 'unfit', 'preempted', 'late', 'sessions'] as const) {
      expect(
        all.reduce((sum, seen) => sum + seen[name], 0),
        name,
      ).toBeGreaterThan(20);
    }
  });
});
