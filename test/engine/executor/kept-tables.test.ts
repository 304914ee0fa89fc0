// The tables of a step that is kept back still hold the tokens of requests that ended since.
import { describe, expect, it } from 'vitest';
import { slotOf } from '../../../src/core/core.js';
import { Engine, type EngineOptions, type ExecutorPlan, type StepTables } from '../../../src/index.js';
import { prompt } from '../../support/driver.js';
import { answerOf, leftovers, settled } from '../../support/engine-bench.js';

const GRAMMAR = {
  ready: () => true,
  acceptTokens: () => true,
  validateTokens: (tokens: Int32Array) => tokens.length,
};

/** The values that an executor can read of one entry. */
interface Read {
  id: string;
  needsAll: boolean;
  ended: boolean;
  tokens: number[];
  behind: number;
}

/**
 * An executor that reads the tokens of every entry of every step, also of entries that other
 * executors would not ask for.
 */
class CuriousEngine {
  readonly engine: Engine;
  readonly reads: Read[][] = [];
  readonly #pending: (() => void)[] = [];

  constructor(options: Partial<EngineOptions> = {}) {
    const execute = (plan: ExecutorPlan, tables: StepTables | null) => {
      this.reads.push(
        Array.from({ length: plan.numRequests }, (_, i) => read(plan, tables as StepTables, i)),
      );
      const answer = answerOf(plan);
      return new Promise<typeof answer>((resolve) => this.#pending.push(() => resolve(answer)));
    };
    this.engine = new Engine({
      numBlocks: 33,
      blockSize: 4,
      maxNumSeqs: 3,
      maxNumBatchedTokens: 4,
      maxModelLen: 64,
      pipelineDepth: 2,
      executor: { execute },
      ...options,
    });
  }

  steps(): void {
    while (this.engine.step().state === 'progress');
  }

  async deliver(): Promise<void> {
    this.#pending.shift()?.();
    await settled();
    this.engine.step();
  }

  /** Steps and answers until a step is kept back. */
  async keepBack(): Promise<void> {
    for (let i = 0; i < 50; i++) {
      this.steps();
      if (this.engine.stats().stepsInFlight > this.#pending.length) return;
      await this.deliver();
    }
    throw new Error('no step was kept back');
  }

  /** Until nothing is left of any request. */
  async finish(): Promise<void> {
    for (let i = 0; i < 200 && this.engine.hasWork(); i++) {
      this.steps();
      await this.deliver();
    }
    expect(this.engine.stats().failedSteps).toBe(0);
    expect(leftovers(this.engine)).toEqual([]);
  }
}

function read(plan: ExecutorPlan, tables: StepTables, i: number): Read {
  const out = new Int32Array(64);
  const count = tables.readTokens(i, 0, out);
  const request = plan.requests[i] as ExecutorPlan['requests'][number] & { isFinished: boolean };
  return {
    id: request.id,
    needsAll: plan.needsAllTokens[i] === 1,
    ended: request.isFinished,
    tokens: [...out.subarray(0, count)],
    behind: tables.readTokens(i, 63, out),
  };
}

// Pinned by: `keepTables` (kept-tables.ts of the engine), `keepTokens` (kept-tokens.ts of the scheduler).
describe('the tables of a step that is kept back', () => {
  const rounds = Array.from({ length: 8 }, (_, round) => round);

  /** Three requests with one draft each and room for two: one is left out of every other step, and then needs all tokens. */
  it('have the tokens of requests that were aborted since, whatever their entries are', async () => {
    const kinds = new Set<string>();
    for (const round of rounds) {
      const bench = new CuriousEngine({ numSpeculativeTokens: 1, speculativeMethod: 'eagle' });
      const { engine, reads } = bench;
      const streams = ['a', 'b', 'c'].map((id, i) => {
        const constrained = id === 'b' ? { grammar: GRAMMAR } : {};
        return engine.submit({ id, prompt: prompt(4, i), maxTokens: 20, ...constrained });
      });
      for (let i = 0; i < round; i++) {
        bench.steps();
        await bench.deliver();
      }
      await bench.keepBack();
      const before = reads.length;
      const texts = streams.map(({ handle }) => [...engine.scheduler.core.tokens(slotOf(handle))]);
      for (const stream of streams) stream.abort();
      // Its slot is one of theirs.
      engine.submit({ id: 'next', prompt: prompt(9, 7), maxTokens: 1 });
      engine.step();
      await bench.deliver();
      expect(reads).toHaveLength(before + 1);
      for (const { id, ended, tokens, needsAll, behind } of reads[before]) {
        expect({ id, ended, behind, tokens }).toEqual({
          id,
          ended: true,
          behind: 0,
          tokens: texts['abc'.indexOf(id)],
        });
        kinds.add(needsAll ? 'needs all' : 'needs new');
      }
      await bench.finish();
    }
    expect([...kinds].sort()).toEqual(['needs all', 'needs new']);
  });

  it('have the tokens of a request that stopped with the step before, and of a session that went on', async () => {
    for (const resumable of [false, true]) {
      const bench = new CuriousEngine({ maxNumBatchedTokens: 16 });
      const { engine, reads } = bench;
      engine.submit({ id: 'b', prompt: prompt(4), maxTokens: 9, grammar: GRAMMAR });
      // Its first token is 400, and its second is planned before that is known.
      const a = engine.submit({
        id: 'a',
        prompt: prompt(4, 1),
        maxTokens: 9,
        stopTokenIds: [400],
        resumable,
      });
      await bench.keepBack();
      if (resumable) a.addChunk({ prompt: prompt(3, 5), maxTokens: 2 });
      await bench.deliver();
      const [read] = (reads.at(-1) as Read[]).filter(({ id }) => id === 'a');
      expect(read).toMatchObject({ ended: !resumable, tokens: [...prompt(4, 1), 400], behind: 0 });
      if (resumable) a.endInput();
      await bench.finish();
    }
  });
});
