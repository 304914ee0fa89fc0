// `InputBatch` fills in tokens that the tables leave to steps in flight.
import { describe, expect, it } from 'vitest';
import { Engine, InputBatch, type StepInputs } from '../../../src/index.js';
import { ADMITTED, HAND, type HandEntry, handMade, PROMPT } from '../../executors/reference/hand.js';
import { NO_COUNTS } from '../../misuse/bad-values.js';
import { codeOf } from '../../misuse/bench.js';
import { AttentiveExecutor, continuation, moody } from './attentive-executor.js';
import { AttentiveLife } from './attentive-life.js';

/** The entries that a step computes: tokens and positions of each. */
function entriesOf(inputs: StepInputs): { tokens: number[]; positions: number[]; samples: number }[] {
  return Array.from({ length: inputs.numRequests }, (_, i) => {
    const [from, to] = [inputs.queryStart[i], inputs.queryStart[i + 1]];
    const tokens = [...inputs.tokens.subarray(from, to)];
    return { tokens, positions: [...inputs.positions.subarray(from, to)], samples: inputs.samples[i] };
  });
}

const answer = (...tokens: number[]) => ({
  tokens: Int32Array.from(tokens),
  counts: Int32Array.from(tokens, () => 1),
});
const decode = (computed: number, more: Partial<HandEntry> = {}): HandEntry => ({
  handle: 1,
  computed,
  input: [-1],
  blocks: [1, 2],
  ...more,
});

describe('InputBatch', () => {
  it('puts what a step in flight has sampled where the tables have -1', () => {
    const batch = new InputBatch({ blockSize: HAND.blockSize });
    const first = handMade([ADMITTED]);
    expect(entriesOf(batch.prepare(first.plan, first.tables))).toEqual([
      { tokens: PROMPT, positions: [0, 1, 2, 3, 4], samples: 1 },
    ]);
    batch.sampled(first.plan, answer(9));
    const second = handMade([decode(5)], 1);
    const inputs = batch.prepare(second.plan, second.tables);
    expect(entriesOf(inputs)).toEqual([{ tokens: [9], positions: [5], samples: 1 }]);
    expect([...inputs.slots.subarray(0, 1)]).toEqual([2 * HAND.blockSize + 1]);
  });

  it('computes the last token again for an entry that hangs on a step that failed, and nothing for one of which it knows nothing', () => {
    const batch = new InputBatch({ blockSize: HAND.blockSize });
    const first = handMade([ADMITTED]);
    batch.prepare(first.plan, first.tables);
    const other = { ...ADMITTED, handle: 2, blocks: [3, 4] };
    const second = handMade([decode(5), other, decode(5, { handle: 7, blocks: [5, 6] })], 1);
    expect(entriesOf(batch.prepare(second.plan, second.tables))).toEqual([
      { tokens: [6], positions: [4], samples: 1 },
      { tokens: PROMPT, positions: [0, 1, 2, 3, 4], samples: 1 },
      { tokens: [], positions: [], samples: 0 },
    ]);
    batch.sampled(second.plan, { tokens: Int32Array.of(8), counts: Int32Array.of(0, 1, 0) });
    const third = handMade([decode(5, { handle: 2, blocks: [3, 4] })], 2);
    expect(entriesOf(batch.prepare(third.plan, third.tables))[0].tokens).toEqual([8]);
  });

  it('puts tokens behind rejected drafts where they really stand', () => {
    const batch = new InputBatch({ blockSize: HAND.blockSize });
    const first = handMade([ADMITTED]);
    batch.prepare(first.plan, first.tables);
    const drafts = { tokens: Int32Array.of(31, 32), counts: Int32Array.of(2) };
    batch.sampled(first.plan, { ...answer(30), drafts });
    // Planned with both drafts; the plan behind it counts them as accepted.
    const second = handMade([decode(5, { input: [-1, -1, -1], drafts: [-1, -1] })], 1);
    expect(entriesOf(batch.prepare(second.plan, second.tables))).toEqual([
      { tokens: [30, 31, 32], positions: [5, 6, 7], samples: 1 },
    ]);
    batch.sampled(second.plan, {
      ...answer(40),
      drafts: { tokens: Int32Array.of(41), counts: Int32Array.of(1) },
    });
    const third = handMade([decode(8, { input: [-1, -1], drafts: [-1], blocks: [1, 2, 3] })], 2);
    expect(entriesOf(batch.prepare(third.plan, third.tables))).toEqual([
      { tokens: [40, 41], positions: [6, 7], samples: 1 },
    ]);
  });

  it('forgets who ended: those that a plan names, and those that it is told of', () => {
    const batch = new InputBatch({ blockSize: HAND.blockSize });
    const first = handMade([ADMITTED, { ...ADMITTED, handle: 2, blocks: [3, 4] }]);
    batch.prepare(first.plan, first.tables);
    expect(batch.numRequests).toBe(2);
    batch.forget([2, 77]);
    expect(batch.numRequests).toBe(1);
    const second = handMade([{ ...ADMITTED, handle: 3, blocks: [3, 4] }], 1);
    batch.prepare(Object.assign(second.plan, { finishedHandles: [1] }), second.tables);
    expect(batch.numRequests).toBe(1);
  });

  it('gives what the tables say at depth 1, and keeps nothing of requests that have ended', async () => {
    const wrong: string[] = [];
    let numTokens = 0;
    for (let seed = 0; seed < 25; seed++) {
      let batch!: InputBatch;
      const life = new AttentiveLife(
        seed,
        (shape, random) => {
          const executor = new AttentiveExecutor(shape, {
            requestsFinished: (all) => executor.batch.forget(all),
          });
          batch = executor.batch;
          executor.mood = moody(random, 20);
          executor.onInputs = ({ totalTokens, numRequests }, tables, inputs) => {
            numTokens += totalTokens;
            const ours = [inputs.tokens, inputs.slots].map((column) => [...column.subarray(0, totalTokens)]);
            const { inputIds, slotMapping, queryStart } = tables;
            const theirs = [inputIds, slotMapping].map((column) =>
              Array.from(column.subarray(0, totalTokens), Number),
            );
            const starts = [inputs.queryStart, queryStart].map((column) =>
              column.subarray(0, numRequests + 1).join(),
            );
            if (JSON.stringify(ours) !== JSON.stringify(theirs)) wrong.push(`seed ${seed}: tokens or slots`);
            if (starts[0] !== starts[1]) wrong.push(`seed ${seed}: queryStart`);
          };
          return executor;
        },
        { pipelineDepth: 1 },
      );
      await life.run(120);
      if (batch.numRequests !== 0) wrong.push(`seed ${seed}: ${batch.numRequests} requests are kept`);
      life.engine.dispose();
    }
    expect(wrong).toEqual([]);
    expect(numTokens).toBeGreaterThan(5000);
  });

  it.each([2, 3] as const)(
    'depth %i: knows texts that are longer than what it keeps of them',
    async (pipelineDepth) => {
      const shape = { numBlocks: 200, blockSize: 16 };
      const executor = new AttentiveExecutor(shape);
      executor.atOnce = () => false;
      const options = { maxModelLen: 2048, maxNumBatchedTokens: 700, maxNumSeqs: 2 };
      const engine = new Engine({ ...shape, ...options, pipelineDepth, executor });
      const text = Array.from({ length: 1000 }, (_, i) => i % 97);
      const stream = engine.submit({ prompt: Int32Array.from(text), maxTokens: 600 });
      for (let i = 0; i < 2000 && !stream.ended; i++) {
        // Half way, its text is computed again, from more tokens than it keeps.
        if (i === 900) engine.resetPrefixCache({ resetRunning: true });
        engine.step();
        executor.pending.shift()?.();
        await Promise.resolve();
        await Promise.resolve();
      }
      expect([...(await stream.result()).tokens]).toEqual(continuation(text, 600));
      engine.dispose();
    },
  );

  it('refuses a block size that is none', () => {
    for (const blockSize of [...NO_COUNTS, 0, undefined, 2 ** 16 + 1])
      expect(codeOf(() => new InputBatch({ blockSize: blockSize as number }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
});
