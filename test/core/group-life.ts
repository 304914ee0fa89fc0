// Random KV cache groups, and random requests in a scheduler that has them.
import type { NativeGroup } from '../../src/core/native/native-groups.js';
import type { Plan, Scheduler, SchedulerOptions } from '../../src/index.js';
import { range, seeded } from '../support/core-bench.js';

/** Groups as native code gets them: full attention, and a window of five tokens. */
export const FULL: NativeGroup = {
  type: 'full',
  blockSize: 4,
  window: 0,
  chunk: 0,
  spareBlocks: 0,
  mostBlocks: 0,
  spec: 0,
  eagle: false,
  zeroed: false,
};
export const SLIDING: NativeGroup = { ...FULL, type: 'sliding', window: 5, mostBlocks: 20, spec: 1 };

type Groups = NonNullable<SchedulerOptions['kvGroups']>;

/** Options of a scheduler with random KV cache groups: types, block sizes, windows and chunks that vLLM accepts together. */
export function randomGroups(seed: number): SchedulerOptions {
  const next = seeded(7919 * seed);
  const mode = (['align', 'all', 'none'] as const)[seed % 3];
  const enablePrefixCaching = mode !== 'none';
  const numSpeculativeTokens = next(3) === 0 ? 3 : 0;
  const base = 4;
  // Groups of states have the base block size with prefix caching, so that hits can end at each of their blocks.
  const size = (): number => base * [1, 1, 2, 4][next(4)];
  const kinds = [
    () => ({ type: 'full', blockSize: size() }),
    () => ({ type: 'sliding', blockSize: size(), window: 4 + next(30) }),
    () => ({ type: 'mamba', mode, ...(mode !== 'none' && { blockSize: base }) }),
    () => ({ type: 'mla', blockSize: size() }),
  ] as const;
  const groups = Array.from({ length: 1 + next(4) }, () => kinds[next(4)]()) as unknown as Groups;
  // Blocks of a group of chunks are as long as the longest: here all are of one size.
  const chunked = [
    { type: 'full', blockSize: base },
    { type: 'chunked', blockSize: base, chunk: 5 + next(30) },
    ...(next(2) === 0 ? [{ type: 'sliding', blockSize: base, window: 9 }] : []),
  ] as unknown as Groups;
  return {
    numBlocks: 150 + next(150),
    blockSize: base,
    maxModelLen: 128,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 60 + next(60),
    kvGroups: seed % 5 === 0 ? chunked : groups,
    enablePrefixCaching,
    numSpeculativeTokens,
    pipelineDepth: numSpeculativeTokens > 0 ? 1 : ([1, 2, 3] as const)[next(3)],
  };
}

/** Random requests in a scheduler. `check` is given every plan right after it was made. */
export function liveWithGroups(
  scheduler: Scheduler,
  seed: number,
  steps: number,
  check: (plan: Plan) => void,
): void {
  const next = seeded(seed);
  const { pipelineDepth, numSpeculativeTokens } = scheduler.config;
  const flight: Plan[] = [];
  const update = (): void => {
    const plan = flight.shift();
    if (plan === undefined) return;
    const counts = plan.maxOutputTokens.slice(0, plan.numRequests).map((most) => most && 1 + next(most));
    const numTokens = counts.reduce((sum, count) => sum + count, 0);
    scheduler.update(plan, {
      tokens: Int32Array.from({ length: numTokens }, () => next(50)),
      counts: Int32Array.from(counts),
    });
    if (numSpeculativeTokens === 0 || flight.length > 0) return;
    const drafts = Int32Array.from({ length: plan.numRequests }, () => next(numSpeculativeTokens + 1));
    const total = drafts.reduce((sum, count) => sum + count, 0);
    scheduler.updateDraftTokens(plan, { tokens: new Int32Array(total).fill(7), counts: drafts });
  };
  for (let step = 0; step < steps; step++) {
    while (scheduler.numUnfinished < 12 && next(3) > 0) {
      const prompt = Int32Array.from(range(1 + next(next(3) === 0 ? 100 : 25), 1000 * next(3)));
      scheduler.add({ id: `${step}-${next(1e9)}`, prompt, maxTokens: 1 + next(27) });
    }
    if (flight.length === pipelineDepth) update();
    const plan = scheduler.schedule();
    check(plan);
    if (plan.totalTokens > 0) flight.push(plan);
    if (next(3) === 0) update();
  }
  scheduler.verify();
}
