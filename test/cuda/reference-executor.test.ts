// The reference executor on a GPU: order of steps, memory, refusals, CUDA errors.
import '../support/gpu.js';
import { afterEach, describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import type { TablesOnDevice } from '../../src/executors/reference/device-runner.js';
import { type ExecutorResult, ReferenceExecutor, type ReferenceExecutorOptions } from '../../src/index.js';
import { ADMITTED, HAND, type HandEntry, handMade, PROMPT } from '../executors/reference/hand.js';
import { unpagedText } from '../executors/reference/support.js';
import { codeOf } from '../misuse/bench.js';
import { isEmulated, plant } from '../support/gpu.js';
import { PinnedTables } from './pinned-tables.js';

/** An executor on the GPU, fed by hand from tables in pinned memory. */
class Hand {
  readonly executor: ReferenceExecutor;
  readonly #tables: PinnedTables;
  #step = 0;

  constructor(options: Partial<ReferenceExecutorOptions> = {}) {
    this.executor = new ReferenceExecutor({ ...HAND, device: 'cuda', ...options });
    this.#tables = new PinnedTables(handMade([]).tables.buffer.byteLength, 8);
  }

  submit(
    entries: HandEntry[],
    change: (tables: TablesOnDevice) => object = () => ({}),
  ): Promise<ExecutorResult> {
    const { plan, tables } = handMade(entries, this.#step++);
    const copied = this.#tables.copy(tables);
    return Promise.resolve(this.executor.execute(plan, { ...copied, ...change(copied) }));
  }

  [Symbol.dispose](): void {
    this.executor.dispose();
    this.#tables.dispose();
  }
}

/** A decode of the request that ADMITTED admits. */
function decode(text: number[], known = true): HandEntry {
  const blocks = [1, 2, 3].slice(0, Math.ceil(text.length / 4));
  const newBlocks = text.length % 4 === 1 ? 1 : 0;
  return {
    handle: 1,
    computed: text.length - 1,
    input: [known ? (text.at(-1) as number) : -1],
    blocks,
    newBlocks,
  };
}

async function codeOfStep(step: () => Promise<unknown>): Promise<string> {
  try {
    await step();
  } catch (error) {
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  return 'nothing';
}

describe('a reference executor on a GPU', () => {
  it('says where it computes, and what memory it takes', () => {
    using hand = new Hand();
    const { executor } = hand;
    expect(executor.device).toBe('cuda:0');
    expect(executor.stream).toBeTypeOf('bigint');
    expect([executor.kv.place, executor.kv.device, executor.kv.bytesPerBlock]).toEqual(['device', 0, 4 * 32]);
    const { arenaBytes, numSequences, pinnedBytes } = executor.memory();
    expect([arenaBytes, numSequences]).toEqual([10 * 4 * 32 + 10 * 16, 0]);
    expect(pinnedBytes).toBeGreaterThan(2 ** 21);
  });

  it('computes steps in their order, three of them under way', async () => {
    using hand = new Hand({ pipelineDepth: 3 });
    const text = [...PROMPT, ...unpagedText(Int32Array.from(PROMPT), 5)];
    const answers = [hand.submit([ADMITTED])];
    for (const length of [6, 7]) answers.push(hand.submit([decode(text.slice(0, length), false)]));
    const order: number[] = [];
    answers.forEach((answer, i) => void answer.then(() => order.push(i)));
    const results = await Promise.all(answers);
    expect(results.map(({ tokens }) => tokens[0])).toEqual(text.slice(5, 8));
    expect(order).toEqual([0, 1, 2]);
    expect(hand.executor.faults).toEqual([]);
  });

  it('takes no more steps than pipelineDepth, and is as it was after a refusal', async () => {
    using hand = new Hand();
    const first = hand.submit([ADMITTED]);
    expect(codeOf(() => hand.submit([ADMITTED]))).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
    const { tokens } = await first;
    const text = [...PROMPT, tokens[0]];
    for (const change of [
      () => ({ blockTable: undefined }),
      () => ({ seqLens: { pointer: 0n, device: 'cuda:0' } }),
      () => ({ seqLens: { pointer: 4096, device: 'cuda:0' } }),
      ({ queryStart }: TablesOnDevice) => ({ queryStart: { ...queryStart, device: 'cuda:1' } }),
      () => ({ maxTokens: 8 }),
    ]) {
      expect(codeOf(() => hand.submit([decode(text)], change))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    const { plan, tables } = handMade([decode(text)]);
    expect(codeOf(() => hand.executor.execute(plan, tables))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => hand.submit([{ ...decode(text), handle: 0 }]))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect((await hand.submit([decode(text)])).counts[0]).toBe(1);
    expect(hand.executor.faults).toEqual([]);
  });

  it('fails a step with what was found in it, and goes on', async () => {
    using hand = new Hand();
    await hand.submit([ADMITTED]);
    const wrong = hand.submit([{ handle: 1, computed: 5, input: [5], blocks: [1, 4], newBlocks: 0 }]);
    await expect(wrong).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_KV_MISMATCH' });
    expect(hand.executor.faults[0]).toMatchObject({ step: 1, id: 'h1', handle: 1 });
    expect((await hand.submit([{ ...ADMITTED, handle: 2, blocks: [5, 6] }])).counts[0]).toBe(1);
  });

  it('goes with steps under way, which fail', async () => {
    const hand = new Hand({ pipelineDepth: 3 });
    const { kv } = hand.executor;
    const steps = [hand.submit([ADMITTED]), hand.submit([decode([...PROMPT, 0], false)])];
    hand[Symbol.dispose]();
    expect(codeOf(() => kv.pointer)).toBe('ERR_BLOCKSTEP_DISPOSED');
    const codes = await Promise.all(steps.map((step) => codeOfStep(() => step)));
    expect(codes).toEqual(['ERR_BLOCKSTEP_DISPOSED', 'ERR_BLOCKSTEP_DISPOSED']);
    expect(codeOf(() => hand.executor.adopt(1, Int32Array.of(1)))).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => hand.executor.memory())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it.each([{ latencyMs: 1 }, { defer: () => {} }, { device: 'gpu' }, { device: 'cuda:1000' }, { device: 7 }])(
    'is refused with %o',
    (options) => {
      expect(codeOf(() => new Hand(options as Partial<ReferenceExecutorOptions>))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    },
  );

  it('is refused on a GPU that there is not', () => {
    expect(codeOf(() => new Hand({ device: 'cuda:99' }))).toBe('ERR_BLOCKSTEP_CUDA');
  });
});

describe.skipIf(!isEmulated)('an error of CUDA in a reference executor', () => {
  afterEach(() => plant(''));

  /** Two steps and a load. */
  async function life(): Promise<void> {
    using hand = new Hand();
    const { tokens } = await hand.submit([ADMITTED]);
    hand.executor.adopt(9, Int32Array.of(7));
    await hand.submit([decode([...PROMPT, tokens[0]])]);
  }

  it('has a code at whatever call it comes, and leaves nothing behind', async () => {
    let failures = 0;
    for (let call = 1; call < 200; call++) {
      plant(`ask=${call}`);
      const asked = await codeOfStep(life);
      expect(['ERR_BLOCKSTEP_CUDA', 'nothing'], `question ${call}`).toContain(asked);
      plant(`fail=${call}`);
      const code = await codeOfStep(life);
      plant('');
      expect(await codeOfStep(life), `after call ${call} had failed`).toBe('nothing');
      if (code === 'nothing' && call > 60) break;
      if (code === 'nothing') continue;
      failures++;
      expect(['ERR_BLOCKSTEP_CUDA', 'ERR_BLOCKSTEP_NO_MEMORY'], `call ${call}`).toContain(code);
    }
    // The GPU has passed its checks before, so they make no call that could fail.
    expect(failures).toBeGreaterThan(30);
  });

  it('fails all steps under way when the GPU is lost, and everything after', async () => {
    using hand = new Hand({ pipelineDepth: 3 });
    plant('delay=5000');
    const steps = [hand.submit([ADMITTED]), hand.submit([decode([...PROMPT, 0], false)])];
    plant('delay=5000,lose=1');
    hand.executor.adopt(1, Int32Array.of(1));
    const codes = await Promise.all(steps.map((step) => codeOfStep(() => step)));
    expect(codes).toEqual(['ERR_BLOCKSTEP_CUDA', 'ERR_BLOCKSTEP_CUDA']);
    expect(await codeOfStep(async () => hand.submit([ADMITTED]))).toBe('ERR_BLOCKSTEP_CUDA');
    expect(codeOf(() => hand.executor.adopt(1, Int32Array.of(1)))).toBe('ERR_BLOCKSTEP_CUDA');
  });
});
