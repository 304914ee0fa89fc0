// Steps that llama.cpp computes ahead of their plans are answered in order, and dropped when another
// plan comes.
import { describe, expect, it } from 'vitest';
import type { StepTables } from '../../../../src/core/tables.js';
import type { ExecutorPlan } from '../../../../src/engine/executor/executor.js';
import type { NativeAnswer } from '../../../../src/executors/llama-cpp/native/binding.js';
import { Chain } from '../../../../src/executors/llama-cpp/step/chain.js';
import { EntryKind } from '../../../../src/scheduler/plan/plan.js';

const BLOCK = 8;

/** Two requests that decode: one at position 9, the other at 4. */
function planAt(step: number) {
  return {
    numRequests: 2,
    totalTokens: 2,
    finishedHandles: [] as number[],
    preemptedHandles: [] as number[],
    requests: [
      { handle: 2 ** 40, lengthLimit: 60 },
      { handle: 7, lengthLimit: 60 },
    ],
    kinds: Uint8Array.of(EntryKind.running, EntryKind.running),
    numBlocks: Int32Array.of(2, 1),
    numNewBlocks: Int32Array.of(0, 0),
    numComputedTokens: Int32Array.of(9 + step, 4 + step),
    maxOutputTokens: Uint8Array.of(1, 1),
  };
}

type Made = ReturnType<typeof planAt>;
const asPlan = (plan: Made): ExecutorPlan => plan as unknown as ExecutorPlan;
const tablesOf = (...inputIds: number[]): StepTables =>
  ({ inputIds: Int32Array.from(inputIds), queryStart: Int32Array.of(0, 1) }) as unknown as StepTables;

const NO_ERRORS = new Uint8Array(2);
const SAMPLERS = Int32Array.of(-1, 3);

/**
 * A chain behind the first step, which sampled the tokens 11 and 12; `ends` has the calls of
 * `endChain`.
 */
function begun(answers: Partial<NativeAnswer>[] = []) {
  const ends: number[] = [];
  const context = {
    next: () => Promise.resolve(answers.shift() as NativeAnswer),
    endChain: () => void ends.push(answers.length),
  };
  const chain = new Chain(context, 2, BLOCK);
  chain.begin(asPlan(planAt(0)), SAMPLERS);
  chain.receive({ steps: 1, goesOn: true } as NativeAnswer);
  chain.took(Int32Array.of(11, 12));
  return { chain, ends };
}

describe('a chain', () => {
  it('stays in the blocks of its requests, and inside their lengths', () => {
    const { chain } = begun();
    const most = (change: (plan: Made) => void, errors = NO_ERRORS): number => {
      const plan = planAt(0);
      change(plan);
      return chain.mostAfter(asPlan(plan), errors);
    };
    // Position 4 of the second request is followed by 5, 6 and 7 in its block.
    expect(most(() => {})).toBe(3);
    expect(most((plan) => plan.numBlocks.set([2, 5]))).toBe(6);
    // The last token of a text is not computed: 12 tokens have 11 with KV.
    expect(most((plan) => Object.assign(plan.requests[0], { lengthLimit: 12 }))).toBe(1);
    expect(most((plan) => Object.assign(plan.requests[0], { lengthLimit: 10 }))).toBe(0);
    expect(most(() => {}, Uint8Array.of(0, 2))).toBe(0);
  });

  it('answers the plan of its next step', () => {
    const { chain } = begun();
    expect(chain.fits(asPlan(planAt(1)), tablesOf(11, 12), SAMPLERS)).toBe(true);
  });

  it.each<[string, (plan: Made) => void]>([
    ['with another request', (plan) => Object.assign(plan.requests[1], { handle: 8 })],
    ['without a request', (plan) => Object.assign(plan, { numRequests: 1, totalTokens: 1 })],
    ['with more tokens', (plan) => Object.assign(plan, { totalTokens: 3 })],
    ['that tells of an end', (plan) => plan.finishedHandles.push(5)],
    ['that tells of a preemption', (plan) => plan.preemptedHandles.push(5)],
    ['of a resumed request', (plan) => plan.kinds.fill(EntryKind.resumed, 1)],
    ['with a new block', (plan) => plan.numNewBlocks.fill(1, 1)],
    ['at another position', (plan) => plan.numComputedTokens.fill(4, 1)],
    ['that samples nothing', (plan) => plan.maxOutputTokens.fill(0, 1)],
  ])('does not answer a plan %s', (_, change) => {
    const { chain } = begun();
    const plan = planAt(1);
    change(plan);
    expect(chain.fits(asPlan(plan), tablesOf(11, 12), SAMPLERS)).toBe(false);
  });

  it('does not answer a plan with another token or sampler', () => {
    const { chain } = begun();
    expect(chain.fits(asPlan(planAt(1)), tablesOf(11, 13), SAMPLERS)).toBe(false);
    expect(chain.fits(asPlan(planAt(1)), tablesOf(11, 12), Int32Array.of(-1, 4))).toBe(false);
  });

  it('ends with its present step when a request comes, and drops what nobody asks for', async () => {
    const { chain, ends } = begun([
      { steps: 2, goesOn: true },
      { steps: 1, goesOn: false },
    ]);
    chain.hasten();
    expect(ends).toEqual([2]);
    expect(chain.isOpen).toBe(true);
    await chain.end();
    expect(chain.isOpen).toBe(false);
    expect(chain.counts.droppedSteps).toBe(3);
    chain.hasten();
    expect(ends).toEqual([2, 2]);
  });
});
