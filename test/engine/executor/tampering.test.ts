import { describe, expect, it } from 'vitest';
import { Engine, type ExecutorPlan, type ExecutorResult } from '../../../src/index.js';
import { prompt } from '../../support/driver.js';
import { answerOf, leftovers, settled } from '../../support/engine-bench.js';

type Writable = { -readonly [field in keyof ExecutorPlan]: ExecutorPlan[field] };

const COLUMNS = [
  'kinds',
  'slots',
  'numScheduledTokens',
  'numComputedTokens',
  'numBlocks',
  'numNewBlocks',
  'numDraftTokens',
  'draftTokens',
  'numInvalidDraftTokens',
  'needsAllTokens',
  'maxOutputTokens',
] as const;

/** The changes that an executor in JavaScript can make to its plan. */
const TAMPERS: Record<string, (plan: Writable) => void> = {
  'counts no request': (plan) => {
    plan.numRequests = 0;
  },
  'counts more requests': (plan) => {
    plan.numRequests += 3;
  },
  'counts other tokens, in another step and frame': (plan) => {
    plan.totalTokens = 0;
    plan.step = 99;
    plan.frame = 7;
    plan.maxDrafts = 9;
  },
  'sorts the requests': ({ requests }) => void (requests as unknown[]).reverse(),
  'takes the requests away': ({ requests }) => {
    (requests as unknown[]).length = 0;
  },
  'puts other requests there': (plan) => {
    plan.requests = [];
  },
  'forgets how many there were': ({ requests }) => void (requests as unknown[]).fill(null),
  'empties the lists': ({ finished, preempted }) => {
    for (const list of [finished, preempted]) (list as string[]).length = 0;
  },
  'replaces all columns': (plan) => {
    for (const name of COLUMNS) Object.assign(plan, { [name]: new Int32Array(0) });
  },
  'freezes it': (plan) => {
    Object.freeze(plan.requests);
    Object.freeze(plan);
  },
  'makes it throw': (plan) => {
    const get = () => {
      throw new Error('mine');
    };
    for (const name of ['numRequests', 'requests', 'slots'] as const)
      Object.defineProperty(plan, name, { get });
  },
  ...Object.fromEntries(
    COLUMNS.flatMap((name) => [
      [`overwrites ${name}`, (plan: Writable) => void plan[name].fill(3)],
      [`gives ${name} away`, (plan: Writable) => void giveAway(plan[name])],
    ]),
  ),
};

function giveAway({ buffer }: Uint8Array | Int32Array): void {
  structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
}

/** An executor with drafts that answers each step well and spoils its plan: at once, and again before the answer comes. */
class Tampering {
  readonly #tamper: (plan: Writable) => void;
  readonly #isLate: boolean;
  /** The plans of steps that were answered: they are written to for ever. */
  readonly #plans = new Set<ExecutorPlan>();
  readonly pending: (() => void)[] = [];

  constructor(tamper: (plan: Writable) => void, isLate: boolean) {
    this.#tamper = tamper;
    this.#isLate = isLate;
  }

  execute(plan: ExecutorPlan): ExecutorResult | Promise<ExecutorResult> {
    const answer = { ...answerOf(plan), drafts: draftsOf(plan) };
    this.#plans.add(plan);
    this.#spoil();
    if (!this.#isLate) return answer;
    return new Promise((resolve) =>
      this.pending.push(() => {
        this.#spoil();
        resolve(answer);
      }),
    );
  }

  #spoil(): void {
    for (const plan of this.#plans) {
      try {
        this.#tamper(plan as Writable);
      } catch {
        // An object that is frozen, or given away, cannot be spoilt again.
      }
    }
  }
}

function draftsOf({ numRequests, maxOutputTokens }: ExecutorPlan): {
  tokens: Int32Array;
  counts: Int32Array;
} {
  const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests), (most) => Math.min(1, most));
  return { tokens: new Int32Array(numRequests).fill(7), counts };
}

/** The outputs of three requests, with a pool that is too small for them, and a row that fails. */
async function life(pipelineDepth: 1 | 2, isLate: boolean, tamper: (plan: Writable) => void) {
  const executor = new Tampering(tamper, isLate);
  const engine = new Engine({
    numBlocks: 9,
    blockSize: 4,
    maxNumSeqs: 3,
    maxNumBatchedTokens: 16,
    maxModelLen: 32,
    hashSeed: 7,
    pipelineDepth,
    numSpeculativeTokens: 1,
    speculativeMethod: pipelineDepth === 1 ? 'ngram' : 'eagle',
    executor,
    now: () => 1000,
  });
  const streams = [5, 9, 3].map((length, i) =>
    engine.submit({ id: `r${i}`, prompt: prompt(length, i), maxTokens: 12 }),
  );
  for (let i = 0; i < 300 && engine.hasWork(); i++) {
    engine.step();
    executor.pending.shift()?.();
    await settled();
  }
  const results = await Promise.all(streams.map((stream) => stream.result()));
  expect(leftovers(engine)).toEqual([]);
  const { steps, failedSteps, wrongAnswers } = engine.stats();
  engine.dispose();
  return { texts: results.map(({ tokens }) => [...tokens]), steps, failedSteps, wrongAnswers };
}

// Pinned by: `PlanView` and `PlanViews` (plan-view.ts).
describe('an executor that writes into its plan harms nobody', () => {
  const modes = [
    [1, false],
    [1, true],
    [2, false],
    [2, true],
  ] as const;

  it.each(Object.keys(TAMPERS))('%s', async (name) => {
    for (const [pipelineDepth, isLate] of modes) {
      const wanted = await life(pipelineDepth, isLate, () => {});
      expect(wanted).toMatchObject({ failedSteps: 0, wrongAnswers: 0 });
      expect(wanted.texts.every(({ length }) => length === 12)).toBe(true);
      expect(await life(pipelineDepth, isLate, TAMPERS[name])).toEqual(wanted);
    }
  });

  it('its plan is one object a frame, over the same memory, as long as it leaves it whole', () => {
    const seen = new Map<number, Set<unknown>>();
    const execute = (plan: ExecutorPlan) => {
      const all = seen.get(plan.frame) ?? new Set();
      seen.set(plan.frame, all.add(plan).add(plan.slots.buffer));
      return answerOf(plan);
    };
    const engine = new Engine({ numBlocks: 33, maxNumSeqs: 2, maxModelLen: 64, executor: { execute } });
    engine.submit({ prompt: prompt(5), maxTokens: 20 });
    while (engine.hasWork()) engine.step();
    expect([...seen.values()].map(({ size }) => size)).toEqual(Array(seen.size).fill(2));
    engine.dispose();
  });
});
